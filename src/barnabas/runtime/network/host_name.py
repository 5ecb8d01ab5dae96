"""The name of this machine, which is advertised when the configuration has none."""

from __future__ import annotations

import socket


def canonical_host_name() -> str:
    """The fully qualified name if the system knows one; the lookup may take long where DNS is slow."""
    return socket.getfqdn()
