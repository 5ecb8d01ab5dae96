"""The name of this machine, as others are told to reach it when the configuration names none."""

from __future__ import annotations

import socket


def canonical_host_name() -> str:
    """The fully qualified name if the system knows one; asking may take a while where DNS is slow."""
    return socket.getfqdn()
