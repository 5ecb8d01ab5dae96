"""The servers to measure: barnabas in a separate process, and Apache Kafka, both with the same settings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from bench.apache import APACHE, ORACLE, ApacheServer
from bench.processes import cpu_seconds, rss_bytes
from bench.registry import OURS
from tools.ports import free_ports

START_PATIENCE_S = 300
STOP_PATIENCE_S = 120
CLUSTER_ID = "barnabas-bench--------"
# Topics of a round are deleted soon after it; everything else is as shipped.
HOUSEKEEPING = {"log.segment.delete.delay.ms": "1000"}
WITHOUT_ZERO_COPY = "import os; del os.sendfile; from barnabas.cli.main import main; main()"


class Server(Protocol):
    """A broker and controller on this machine."""

    @property
    def address(self) -> tuple[str, int]: ...

    @property
    def pid(self) -> int: ...

    @property
    def data(self) -> Path:
        """The log directory."""
        ...

    @property
    def rss_bytes(self) -> int: ...

    @property
    def cpu_seconds(self) -> float: ...

    def start(self) -> None:
        """Starts the server, and waits until it responds."""
        ...

    def launch(self) -> None:
        """Starts the process without waiting; it was started before, and has ended."""
        ...

    def stop(self) -> object: ...

    def kill(self) -> None: ...


class OurServer:
    """`barnabas server-start` with Apache Kafka's defaults, in its own folder."""

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, str],
        *,
        open_files: int | None = None,
        python: Sequence[str] = ("-m", "barnabas"),
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.address = ("127.0.0.1", free_ports(1)[0])
        self._settings = settings
        self._open_files = open_files
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)

    @property
    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def start(self) -> None:
        if not self.data.exists():
            self._format()
        self.launch()
        await_listening(self.address)

    def launch(self) -> None:
        command = [sys.executable, *self._python, "server-start", str(self._file)]
        if self._open_files is not None:
            command = ["sh", "-c", f'ulimit -n {self._open_files} && exec "$@"', "sh", *command]
        with (self.home / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

    def stop(self) -> int:
        self._running.terminate()
        return self._ended()

    def kill(self) -> None:
        self._running.send_signal(signal.SIGKILL)
        self._ended()

    def end(self) -> None:
        """Stops the server in any state."""
        if self._process is not None:
            self.kill()

    @property
    def _file(self) -> Path:
        return self.home / "server.properties"

    @property
    def _environment(self) -> dict[str, str]:
        environment = {**os.environ, "BARNABAS_STATE": str(self.home / "state")}
        # As on a user's machine, where the first start leaves compiled files.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment

    def _format(self) -> None:
        host, port = self.address
        [controller] = free_ports(1)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}",
            "advertised.listeners": f"PLAINTEXT://{host}:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{host}:{controller}",
            "log.dirs": str(self.data),
            # The oracle's settings for a single broker.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._settings,
        }
        self.home.mkdir(parents=True, exist_ok=True)
        self._file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        command = [sys.executable, "-m", "barnabas", "storage", "format", "-t", CLUSTER_ID]
        subprocess.run(
            [*command, "-c", str(self._file)], check=True, capture_output=True, env=self._environment
        )

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start it first"
        return self._process

    def _ended(self) -> int:
        process, self._process = self._running, None
        try:
            return process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def make_servers(
    folder: Path,
    stack: ExitStack,
    settings: Mapping[str, str] | None = None,
    *,
    open_files: int | None = None,
) -> dict[str, Server]:
    """barnabas and, if the oracle is available, Apache Kafka; not started.  The stack stops them."""
    all_settings = {**HOUSEKEEPING, **(settings or {})}
    ours = OurServer(folder / "ours", all_settings, open_files=open_files)
    stack.callback(ours.end)
    servers: dict[str, Server] = {OURS: ours}
    if ORACLE.exists():
        theirs = ApacheServer(folder / "theirs", all_settings)
        stack.callback(theirs.end)
        servers[APACHE] = theirs
    return servers


def make_plain_server(folder: Path, stack: ExitStack) -> dict[str, Server]:
    """barnabas on a system without sendfile."""
    plain = OurServer(folder / "plain", HOUSEKEEPING, python=("-c", WITHOUT_ZERO_COPY))
    stack.callback(plain.end)
    return {f"{OURS}, without zero copy": plain}


def await_listening(address: tuple[str, int]) -> None:
    until = time.monotonic() + START_PATIENCE_S
    while True:
        try:
            socket.create_connection(address, timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.005)
