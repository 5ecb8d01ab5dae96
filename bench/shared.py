"""The servers that most rows use: started once a run, warm before the first is measured."""

from __future__ import annotations

from bench.registry import House
from bench.servers import Server, make_servers
from bench.warming import warm_up


def shared_servers(house: House) -> dict[str, Server]:
    def make() -> dict[str, Server]:
        servers = make_servers(house.folder(), house.stack, without_zero_copy=True)
        for server in servers.values():
            server.start()
        for server in servers.values():
            warm_up(server)
        return servers

    return house.shared("servers", make)
