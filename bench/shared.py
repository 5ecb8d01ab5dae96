"""The servers that most rows use: started once per run, and warmed up before the first measurement."""

from __future__ import annotations

from bench.registry import RunContext
from bench.servers import Server, make_plain_server, make_servers
from bench.warming import warm_up


def shared_servers(context: RunContext) -> dict[str, Server]:
    def make() -> dict[str, Server]:
        return _warm(make_servers(context.folder(), context.stack))

    return context.shared("servers", make)


def shared_plain_server(context: RunContext) -> dict[str, Server]:
    """barnabas without zero copy, for rows that measure its benefit."""

    def make() -> dict[str, Server]:
        return _warm(make_plain_server(context.folder(), context.stack))

    return context.shared("plain server", make)


def _warm(servers: dict[str, Server]) -> dict[str, Server]:
    for server in servers.values():
        server.start()
    for server in servers.values():
        warm_up(server)
    return servers
