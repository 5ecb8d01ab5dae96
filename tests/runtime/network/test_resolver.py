"""Host name resolution, with a resolver that knows only the names of the test."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from barnabas.runtime.network.resolver import SystemResolver

HOSTS = {
    "cluster": ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"],
    "one": ["10.0.0.1"],
    "liar": ["10.9.9.9"],
}
NAMES = {"10.0.0.1": "one", "10.0.0.2": "liar"}


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        if host not in HOSTS:
            raise socket.gaierror(f"{host} is not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in HOSTS[host]]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        if sockaddr[0] not in NAMES:
            raise socket.gaierror(f"{sockaddr[0]} has no name")
        return NAMES[sockaddr[0]], "0"


def resolved(work: Any) -> Any:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(work)


def test_all_addresses_in_order_and_each_once() -> None:
    assert resolved(SystemResolver().addresses("cluster")) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "fe80::1%eth0"])
def test_an_address_resolves_to_itself(address: str) -> None:
    assert resolved(SystemResolver().addresses(address)) == [address]


def test_a_canonical_name_must_resolve_back_to_its_address() -> None:
    assert resolved(SystemResolver().canonical_names("cluster")) == ["one", "10.0.0.2", "10.0.0.3"]


def test_an_unknown_host() -> None:
    with pytest.raises(OSError, match="nowhere"):
        resolved(SystemResolver().canonical_names("nowhere"))
