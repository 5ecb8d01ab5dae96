"""Ports for servers: free, below the ephemeral ports, and not returned twice."""

from __future__ import annotations

import socket
from itertools import cycle
from pathlib import Path

import pytest

from tools import ports

OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_port_is_returned_again_soon() -> None:
    found = [port for _ in range(20) for port in ports.free_ports(3)]
    assert len(set(found)) == 60


@pytest.mark.skipif(not OUTGOING.exists(), reason="this system does not say which ports it gives away")
def test_no_outgoing_connection_can_take_one() -> None:
    lowest = int(OUTGOING.read_text("utf-8").split()[0])
    assert max(ports.free_ports(50)) < lowest


def test_a_port_in_use_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = ports.free_ports(3)
    with socket.create_server(("127.0.0.1", first)):
        assert not ports.is_free(first)
        monkeypatch.setattr(ports, "_ports", cycle([first, second, third]))
        assert ports.free_ports(2) == [second, third]


def test_without_free_ports_it_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    (only,) = ports.free_ports(1)
    with socket.create_server(("127.0.0.1", only)):
        monkeypatch.setattr(ports, "_ports", cycle([only]))
        monkeypatch.setattr(ports, "_LISTENING", range(only, only + 1))
        with pytest.raises(RuntimeError, match="no free ports"):
            ports.free_ports(1)


def test_a_pair_of_ports_is_consecutive() -> None:
    first = ports.free_pair()
    assert ports.is_free(first)
    assert ports.is_free(first + 1)
