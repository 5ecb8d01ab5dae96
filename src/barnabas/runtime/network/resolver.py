"""Host name resolution on the running loop: addresses, and their canonical names."""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol


class Resolver(Protocol):
    """The resolver interface of the client."""

    async def addresses(self, host: str) -> list[str]:
        """All addresses of a host, in the order in which to try them; OSError if it has none."""
        ...

    async def canonical_names(self, host: str) -> list[str]:
        """The canonical name of each address of a host; OSError if it has none."""
        ...


class SystemResolver:
    """The resolver of the operating system."""

    async def addresses(self, host: str) -> list[str]:
        if _is_address(host):
            return [host]
        infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in infos))

    async def canonical_names(self, host: str) -> list[str]:
        names = [await self._canonical_name(address) for address in await self.addresses(host)]
        return list(dict.fromkeys(names))

    async def _canonical_name(self, address: str) -> str:
        """Like Java's getCanonicalHostName: a name that does not resolve back to the address is ignored."""
        try:
            name, _ = await asyncio.get_running_loop().getnameinfo((address, 0), socket.NI_NAMEREQD)
            return name if address in await self.addresses(name) else address
        except OSError:
            return address


def _is_address(host: str) -> bool:
    """An address needs no lookup, nor does an IPv6 one with its zone."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except OSError:
            continue
        return True
    return False
