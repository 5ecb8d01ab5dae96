"""Whether a port is free."""

from __future__ import annotations

import socket


def is_port_free(host: str, port: int) -> bool:
    """Whether a server could listen there now; another process may still take the port first."""
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True
