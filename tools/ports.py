"""Ports that nobody has right now, for servers that tests, benches and suites start."""

from __future__ import annotations

import os
import socket

# Below the ports that outgoing connections are given.
_ORACLE_BASES = range(23_000, 32_500, 211)
# Where the oracle's brokers listen, from the first port that was asked for.
_OF_THE_ORACLE = (1, 101)


def free_ports(count: int) -> list[int]:
    """Different ones, as they are taken together before they are let go."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def free_oracle_base() -> int:
    """A first port with which the oracle finds its ports free.

    Each process begins to look elsewhere: a port that is free only while its server is started again is not
    taken by a run beside it.
    """
    first = os.getpid() % len(_ORACLE_BASES)
    bases: list[int] = [*_ORACLE_BASES[first:], *_ORACLE_BASES[:first]]
    for base in bases:
        try:
            for offset in _OF_THE_ORACLE:
                socket.create_server(("localhost", base + offset)).close()
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")
