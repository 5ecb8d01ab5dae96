"""Servers of `examples.raft_kv` as processes, and a client that speaks their lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tools.ports import free_ports

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60


class Servers:
    """Three servers below a folder; all ids are up unless a test stops them."""

    def __init__(self, folder: Path, snapshot_every: int = 1000) -> None:
        self.folder = folder
        self.ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.text = ",".join(f"localhost:{port}:{id}" for id, port in self.ports.items())
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self._snapshot_every = str(snapshot_every)

    def start(self, *ids: int) -> None:
        for id in ids:
            self.processes[id] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "examples.raft_kv", "server", str(id), self.text),
                    *("--data", str(self.folder / str(id)), "--snapshot-every", self._snapshot_every),
                ],
                cwd=PROJECT,
                stdout=subprocess.PIPE,
                text=True,
            )
        for id in ids:
            out = self.processes[id].stdout
            assert out is not None
            assert out.readline() == f"server {id} listens on localhost:{self.ports[id]}\n"

    def kill(self, *ids: int) -> None:
        """kill -9, all at once."""
        for id in ids:
            self.processes[id].send_signal(signal.SIGKILL)
        for id in ids:
            with self.processes.pop(id) as process:
                process.wait(PATIENCE_S)

    def pause(self, id: int) -> None:
        self.processes[id].send_signal(signal.SIGSTOP)

    def resume(self, id: int) -> None:
        self.processes[id].send_signal(signal.SIGCONT)

    # As a client

    def client(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "examples.raft_kv", "client", "--servers", self.text, *words]
        return subprocess.run(
            command, cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )

    def answer(self, server: int, /, timeout_s: float = 10, **command: str) -> dict[str, Any] | None:
        """What one server answers; None if it does not."""
        with (
            suppress(OSError, ValueError),
            socket.create_connection(("localhost", self.ports[server]), timeout_s) as connection,
        ):
            connection.settimeout(timeout_s)
            connection.sendall(json.dumps(command).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline())
            return answer
        return None

    def leader(self) -> int:
        """The server that commits a command now."""

        def found() -> int | None:
            for id in self.processes:
                answer = self.answer(id, id=os.urandom(8).hex(), key="unset")
                if answer is not None and "value" in answer:
                    return id
            return None

        leader: int = eventually(found)
        return leader

    def set(self, key: str, value: str) -> None:
        """Through any server, until it is committed."""
        command_id = os.urandom(8).hex()

        def committed() -> bool:
            return any(
                (self.answer(id, id=command_id, key=key, value=value) or {}).get("value") == value
                for id in self.processes
            )

        eventually(committed)

    def get(self, key: str) -> str | None:
        leader = self.leader()
        answer = self.answer(leader, id=os.urandom(8).hex(), key=key)
        assert answer is not None
        value: str | None = answer["value"]
        return value

    def journal(self, id: int) -> list[dict[str, Any]]:
        lines = (self.folder / str(id) / "journal").read_bytes().splitlines()
        return [json.loads(line[9:]) for line in lines]

    def batches(self, id: int) -> list[dict[str, Any]]:
        return [entry for entry in self.journal(id) if entry["is"] == "FetchedBatch"]


def eventually(check: Callable[[], Any]) -> Any:
    """Returns the first result that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if result := check():
            return result
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@contextmanager
def three_servers(folder: Path, snapshot_every: int = 1000) -> Iterator[Servers]:
    servers = Servers(folder, snapshot_every)
    try:
        servers.start(1, 2, 3)
        yield servers
    finally:
        servers.kill(*servers.processes)
