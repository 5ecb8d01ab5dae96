"""The address of an ensemble, and what is needed to reach it."""

from __future__ import annotations

import sys

import pytest

from barnabas.config.errors import ConfigError
from barnabas.runtime.zookeeper.kazoo_client import kazoo_sessions
from barnabas.runtime.zookeeper.options import parse_connect


@pytest.mark.parametrize(
    ("connect", "servers", "chroot"),
    [
        ("localhost:2181", [("localhost", 2181)], ""),
        ("a,b:2182", [("a", 2181), ("b", 2182)], ""),
        (" a:1 , b:2 /kafka/one/ ", [("a", 1), ("b", 2)], "/kafka/one"),
        ("a:1/", [("a", 1)], ""),
        ("[::1]:2181,[fe80::1]/x", [("::1", 2181), ("fe80::1", 2181)], "/x"),
        ("::1", [("::1", 2181)], ""),
    ],
)
def test_addresses(connect: str, servers: list[tuple[str, int]], chroot: str) -> None:  # M-B1
    assert parse_connect(connect) == (servers, chroot)


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        ("", "names no server of ZooKeeper"),
        ("/kafka", "names no server of ZooKeeper"),
        ("a:x", "a:x in a:x is no address of a server"),
        ("a:0", "a:0 in a:0 is no address of a server"),
        ("a:65536", "is no address of a server"),
        (":2181", "is no address of a server"),
        ("[::1", "is no address of a server"),
        ("a:1/x,b:2/x", "the path comes once, after the last server"),
        ("a:1//x", "the path comes once"),
    ],
)
def test_what_is_no_address(connect: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_connect(connect)


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kazoo_session", "kazoo_requests"):
        monkeypatch.delitem(sys.modules, f"barnabas.runtime.zookeeper.{name}", raising=False)
    for name in ("kazoo.client", "kazoo.exceptions", "kazoo.protocol"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ConfigError, match=r"needs the Python package kazoo: pip install 'barnabas\[zookeeper\]'"
    ):
        kazoo_sessions()
