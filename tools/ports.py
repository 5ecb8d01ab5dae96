"""Free ports for servers that tests, benchmarks and suites start."""

from __future__ import annotations

import os
import socket
from itertools import cycle, islice

# Below the ephemeral ports of outgoing connections.
_LISTENING = range(10_000, 22_000)
# Each process starts elsewhere, so that parallel runs do not compete for the same ports.
_ports = islice(cycle(_LISTENING), os.getpid() * 97 % len(_LISTENING), None)
_ORACLE_BASES = range(23_000, 32_500, 211)
# The oracle's controllers listen this far above its brokers.
_ORACLE_CONTROLLERS = 100


def free_ports(count: int) -> list[int]:
    """Distinct ports, and none that this process has returned recently.

    The system would choose ephemeral ports, which an outgoing connection could take before the server does.
    """
    ports: list[int] = []
    for port in islice(_ports, len(_LISTENING)):
        if is_free(port):
            ports.append(port)
            if len(ports) == count:
                return ports
    raise RuntimeError("no free ports")


def free_pair() -> int:
    """The first of two consecutive free ports."""
    return free_run(2)[0]


def free_run(count: int) -> list[int]:
    """Consecutive free ports."""
    for _ in range(len(_LISTENING)):
        ports = free_ports(count)
        if ports[-1] == ports[0] + count - 1:
            return ports
    raise RuntimeError("no free ports")


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now, on every interface."""
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


def free_oracle_base(nodes: int = 1) -> int:
    """A base port with which all ports of the oracle are free: those of its brokers and controllers.

    Each process starts elsewhere, so that a parallel run does not take a port that is free only while its
    server restarts.
    """
    first = os.getpid() % len(_ORACLE_BASES)
    bases: list[int] = [*_ORACLE_BASES[first:], *_ORACLE_BASES[:first]]
    for base in bases:
        try:
            for number in range(1, nodes + 1):
                for offset in (number, number + _ORACLE_CONTROLLERS):
                    socket.create_server(("localhost", base + offset)).close()
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")
