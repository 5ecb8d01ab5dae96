"""Short runs of the nemesis: `make nemesis` has the long ones (M-D; issue 3 of 8, done when 5)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.nemesis.cluster import System
from tools.nemesis.hosts import Host, Hosts
from tools.nemesis.packet_filter import Loss
from tools.nemesis.run import Outcome, run

SERVER = """
import socket
with socket.create_server(("0.0.0.0", 7777)) as listener:
    print("listening", flush=True)
    connection, _ = listener.accept()
    connection.sendall(b"reached")
"""
CLIENT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 7777), 1) as connection:
        print(connection.recv(100).decode())
except TimeoutError:
    print("lost")
"""


@pytest.mark.slow
def test_faults_leave_no_anomalies(tmp_path: Path) -> None:
    outcome = run(Outcome("barnabas", 7, 3, 20), System(), tmp_path / "run", print, keep=False, planted=False)
    assert (outcome.anomalies, outcome.problems) == ({}, [])
    assert outcome.totals["acknowledged"] > 0
    assert outcome.totals["transactions committed"] > 0


@pytest.mark.slow
def test_a_planted_loss_is_found(tmp_path: Path) -> None:
    """A nemesis that cannot find anything would praise every cluster."""
    outcome = run(Outcome("barnabas", 1, 3, 20), System(), tmp_path / "run", print, keep=False, planted=True)
    assert "lost write" in outcome.anomalies


def reach(source: Host | None, target: Host) -> str:
    """What a connection from one host to another gives."""
    command = [sys.executable, "-c", CLIENT, target.address]
    with subprocess.Popen(
        [*target.prefix, sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        server.stdout.readline()
        prefix = () if source is None else source.prefix
        done = subprocess.run([*prefix, *command], capture_output=True, text=True, check=True)
        server.kill()
    return done.stdout.strip()


@pytest.mark.slow
def test_packets_are_lost_as_told(tmp_path: Path) -> None:
    with Hosts(tmp_path / "hosts", 3) as hosts:
        if os.geteuid() != 0:
            assert set(hosts.lacking) == {"network", "disk"}
            return
        assert hosts.lacking == {}
        assert hosts.filter is not None
        one, two, three = hosts.hosts.values()
        assert reach(one, two) == reach(None, two) == "reached"
        hosts.filter.replace([Loss(one.address, two.address)])
        # A connection needs both ways.
        assert reach(one, two) == reach(two, one) == "lost"
        assert reach(three, two) == reach(None, one) == "reached"
        hosts.filter.replace([Loss(hosts.client_address, two.address)])
        assert reach(None, two) == "lost"
        assert reach(one, two) == reach(None, one) == "reached"
        hosts.filter.replace([])
        assert reach(None, two) == "reached"


@pytest.mark.slow
def test_a_disk_is_filled_and_freed(tmp_path: Path) -> None:
    with Hosts(tmp_path / "hosts", 1) as hosts:
        if os.geteuid() != 0:
            assert "disk" in hosts.lacking
            return
        host = hosts.hosts[1]
        host.fill_disk()
        with pytest.raises(OSError, match="No space left"):
            (host.folder / "file").write_bytes(bytes(9000))
        host.free_disk()
        (host.folder / "file").write_bytes(bytes(9000))
