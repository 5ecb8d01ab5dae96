"""Ports that nobody has right now, for servers that tests, benches and suites start."""

from __future__ import annotations

import os
import socket
from itertools import cycle, islice

# Below the ports that outgoing connections are given.
_LISTENING = range(10_000, 22_000)
# Each process begins elsewhere, so that runs side by side do not look for the same ones at the same time.
_ports = islice(cycle(_LISTENING), os.getpid() * 97 % len(_LISTENING), None)
_ORACLE_BASES = range(23_000, 32_500, 211)
# Where the oracle's brokers listen, from the first port that was asked for.
_OF_THE_ORACLE = (1, 101)


def free_ports(count: int) -> list[int]:
    """Different ones, and none that this process has handed out lately.

    The system would choose among the ports of outgoing connections, and one of those could take a port before
    the server does for which it was found.
    """
    found: list[int] = []
    for port in islice(_ports, len(_LISTENING)):
        if is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError("no free ports")


def free_pair() -> int:
    """A free port whose next one is free too."""
    for _ in range(len(_LISTENING)):
        first, second = free_ports(2)
        if second == first + 1:
            return first
    raise RuntimeError("no free ports")


def is_free(port: int) -> bool:
    """Whether a server could listen there now, on every interface."""
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


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
