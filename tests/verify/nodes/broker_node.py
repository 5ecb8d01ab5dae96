"""Our node in its own process, on the server.properties and the folders of an Apache Kafka node.

Formats, starts, stops and kills it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.verify.nodes.apache_broker import NODE, ApacheBroker
from tools.ports import free_oracle_base

START_PATIENCE_S = 60
STOP_PATIENCE_S = 60
LOOK_EACH_S = 0.05
VERSION = "4.1.0"


@dataclass
class OurNode:
    """`barnabas server-start` on a file."""

    properties: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        return self.properties.parent / "barnabas.log"

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    def barnabas(self, *args: str) -> str:
        """Run one of our tools to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", *args],
            capture_output=True,
            text=True,
            env=self._env(),
            check=False,
        )
        assert done.returncode == 0, f"{args} ended with {done.returncode}: {done.stderr[-3000:]}"
        return done.stdout

    def format(self, cluster_id: str, *options: str) -> None:
        self.barnabas("storage", "format", "-c", str(self.properties), "-t", cluster_id, *options)

    def start(self) -> None:
        assert self.process is None, "it runs"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(self.properties)],
                stdout=log,
                stderr=log,
                env=self._env(),
            )
        limit = time.monotonic() + START_PATIENCE_S
        while not listens(self.port):
            assert self.process.poll() is None, f"it did not start: {self.log.read_text('utf-8')[-3000:]}"
            assert time.monotonic() < limit, f"it does not listen: {self.log.read_text('utf-8')[-3000:]}"
            time.sleep(LOOK_EACH_S)

    def stop(self) -> None:
        """SIGTERM, and a clean end."""
        assert self.process is not None, "it does not run"
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(STOP_PATIENCE_S)
        self.process = None
        assert code == 0, f"it ended with {code}: {self.log.read_text('utf-8')[-3000:]}"

    def kill(self) -> None:
        """SIGKILL: nothing is written any more."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def faults(self) -> list[str]:
        """What its log has of errors."""
        if not self.log.exists():
            return []
        return [
            line for line in self.log.read_text("utf-8").splitlines() if re.search(r" ERROR |Traceback", line)
        ]

    def _env(self) -> dict[str, str]:
        return {**os.environ, "BARNABAS_STATE": str(self.properties.parent / "state"), **self.environment}


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
        return True
    return False


@contextmanager
def apache_then_ours(
    oracle: Callable[..., Any], home: Path, settings: Mapping[str, str], *options: str
) -> Iterator[tuple[ApacheBroker, OurNode]]:
    """Two nodes that take turns on one port, one file and one folder; Apache Kafka's runs already."""
    apache = ApacheBroker(oracle, VERSION, home, free_oracle_base())
    ours = OurNode(home / NODE / "server.properties", apache.port + 1)
    overrides = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    up = ("up", "--dir", str(home), "--mode", "kraft", "--port", str(apache.port))
    try:
        done = oracle(VERSION, *up, *overrides, *options)
        if done.returncode != 0:
            # The oracle may take a broker for dead while its `java` is being executed: start again.
            oracle(VERSION, "down", "--dir", str(home), "--kill")
            shutil.rmtree(home, ignore_errors=True)
            done = oracle(VERSION, *up, *overrides, *options)
        assert done.returncode == 0, done.stderr[-3000:]
        yield apache, ours
    finally:
        ours.kill()
        oracle(VERSION, "down", "--dir", str(home), "--kill")
