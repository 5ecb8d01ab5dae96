"""The servers that most rows use: started once a run, warm before the first is measured."""

from __future__ import annotations

from bench.registry import House
from bench.servers import Server, make_plain_server, make_servers
from bench.warming import warm_up


def shared_servers(house: House) -> dict[str, Server]:
    def make() -> dict[str, Server]:
        return _warm(make_servers(house.folder(), house.stack))

    return house.shared("servers", make)


def shared_plain_server(house: House) -> dict[str, Server]:
    """Ours without zero copy, for the rows that tell what that is worth."""

    def make() -> dict[str, Server]:
        return _warm(make_plain_server(house.folder(), house.stack))

    return house.shared("plain server", make)


def _warm(servers: dict[str, Server]) -> dict[str, Server]:
    for server in servers.values():
        server.start()
    for server in servers.values():
        warm_up(server)
    return servers
