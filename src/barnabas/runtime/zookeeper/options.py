"""How to reach an ensemble: the connect string and the timeouts of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.config.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.runtime.zookeeper.security import ZooKeeperSecurity

DEFAULT_PORT = 2181
PORT_MAX = 65_535
# Kafka's own defaults.
SESSION_TIMEOUT_MS = 18_000
IN_FLIGHT_MAX = 10


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """Options of one client, with Kafka's defaults."""

    # host:port, separated by commas, with an optional chroot path at the end.
    connect: str
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    # How long `start` may take; the session timeout unless given.
    connection_timeout_ms: int | None = None
    # Requests without an answer; more calls wait.
    max_in_flight: int = IN_FLIGHT_MAX
    # Kafka creates the path of its chroot.
    create_chroot: bool = True
    # None: no login, no TLS, and znodes that are open to all.
    security: ZooKeeperSecurity | None = None


def parse_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """The servers and the chroot, which is "" or begins with `/`; ConfigError if it is malformed."""
    addresses, slash, path = connect.strip().partition("/")
    chroot = f"/{path}".rstrip("/") if slash else ""
    if "//" in chroot or "," in chroot:
        raise ConfigError(
            f"{connect} is no address of ZooKeeper: the path comes once, after the last server: "
            "host1:2181,host2:2181/path"
        )
    servers = [_server(connect, address.strip()) for address in addresses.split(",") if address.strip()]
    if not servers:
        raise ConfigError(f"{connect or '(nothing)'} names no server of ZooKeeper: give host:2181")
    return servers, chroot


def _server(connect: str, address: str) -> tuple[str, int]:
    if address.startswith("["):
        host, closing, rest = address[1:].partition("]")
        port = rest.removeprefix(":") if closing else "?"
    elif address.count(":") > 1:
        host, port = address, ""
    else:
        host, _, port = address.partition(":")
    port = port or str(DEFAULT_PORT)
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) <= PORT_MAX:
        raise ConfigError(f"{address} in {connect} is no address of a server of ZooKeeper: give host:2181")
    return host, int(port)
