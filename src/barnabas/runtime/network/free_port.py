"""Whether a port is free, ports that are, and whether somebody listens on one."""

from __future__ import annotations

import contextlib
import socket

CONNECT_TIMEOUT_S = 5.0


def is_port_free(host: str, port: int) -> bool:
    """Whether a server could listen there now; another process may still take the port first."""
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True


def accepts_connections(host: str, port: int) -> bool:
    """Whether a server listens there."""
    try:
        socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def free_ports(host: str, count: int) -> list[int]:
    """Different ports that were free a moment ago; another process may still take them first."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server((host, 0))).getsockname()[1] for _ in range(count)]
