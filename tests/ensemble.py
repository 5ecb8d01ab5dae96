"""A real ZooKeeper for tests: Apache ZooKeeper's servers on free ports.

Fixtures are in conftest.py: `zookeeper`, one server for all tests of a process, and `zookeeper_connect`, a new
path of it.  A test that kills servers starts an ensemble of its own.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from barnabas.cli.zookeeper.java_server import NoZooKeeperError, class_path, command_line, java
from barnabas.runtime.loop.reactor_thread import wait_until
from barnabas.runtime.zookeeper.four_letter_words import server_state
from tools.ports import free_ports

HOST = "127.0.0.1"
START_PATIENCE_S = 120.0
TICK_MS = 200
# Little memory and no syncs: many tests run at once, and none of them loses power.
JVM_OPTIONS = ("-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=128", "-Dzookeeper.log.level=INFO")
HEAP = "-Xmx96m -Xms16m"


def why_no_zookeeper() -> str | None:
    """Why ZooKeeper cannot run on this machine; None if it can."""
    try:
        java()
        class_path()
    except NoZooKeeperError as error:
        return str(error)
    return None


class ZooKeeperServer:
    """One server, which ends with this process however it ends."""

    def __init__(
        self,
        folder: Path,
        number: int,
        port: int,
        quorum: list[str],
        more_lines: Sequence[str] = (),
        jvm_options: Sequence[str] = (),
    ) -> None:
        self._jvm_options = (*JVM_OPTIONS, *jvm_options)
        self.number = number
        self.port = port
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        data = folder / "data"
        data.mkdir(parents=True)
        lines = [f"dataDir={data}", f"clientPort={port}", f"clientPortAddress={HOST}", f"tickTime={TICK_MS}"]
        lines += ["minSessionTimeout=200", "maxSessionTimeout=60000", "maxClientCnxns=0"]
        if quorum:
            (data / "myid").write_text(f"{number}\n", "utf-8")
            lines += ["initLimit=100", "syncLimit=50", *quorum]
        lines += more_lines
        self.config = folder / "zoo.cfg"
        self.config.write_text("\n".join(lines) + "\n", "utf-8")

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def mode(self) -> str | None:
        state = server_state(HOST, self.port)
        return None if state is None else state.mode

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command_line(self.config, jvm_options=self._jvm_options, heap=HEAP),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        # Its standard input ends with this process.
        self._guard = subprocess.Popen(
            ["sh", "-c", f"read -r _; kill -9 {self._process.pid} 2>/dev/null"], stdin=subprocess.PIPE
        )

    def wait(self) -> None:
        """Until it serves."""
        process = self._process
        assert process is not None
        assert wait_until(lambda: process.poll() is not None or self.mode is not None, START_PATIENCE_S)
        assert process.poll() is None, (self.folder / "server.log").read_text("utf-8")[-3000:]

    def kill(self) -> None:
        """kill -9."""
        process, self._process = self._process, None
        guard, self._guard = self._guard, None
        if process is not None:
            process.kill()
            process.wait()
        if guard is not None:
            guard.kill()
            guard.wait()
            assert guard.stdin is not None
            guard.stdin.close()

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class Ensemble:
    """One server, or several with a quorum."""

    def __init__(self, folder: Path, size: int) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        ports = free_ports(size if size == 1 else 3 * size)
        quorum = [
            f"server.{n}={HOST}:{ports[size + 2 * n - 2]}:{ports[size + 2 * n - 1]}"
            for n in range(1, size + 1)
            if size > 1
        ]
        self.servers = [
            ZooKeeperServer(folder / f"zk-{n}", n, ports[n - 1], quorum) for n in range(1, size + 1)
        ]
        self._paths = 0

    @property
    def connect(self) -> str:
        return ",".join(server.address for server in self.servers)

    def new_connect(self) -> str:
        """An address whose path nobody has used."""
        self._paths += 1
        return f"{self.connect}/test-{self._paths}"

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()

    def leader(self) -> ZooKeeperServer:
        """The one that leads now."""
        found: list[ZooKeeperServer] = []

        def look() -> bool:
            found[:] = [server for server in self.servers if server.mode in ("leader", "standalone")]
            return bool(found)

        assert wait_until(look, START_PATIENCE_S)
        return found[0]

    def stop(self) -> None:
        for server in self.servers:
            server.kill()


@contextmanager
def running_ensemble(folder: Path, size: int) -> Iterator[Ensemble]:
    ensemble = Ensemble(folder, size)
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.stop()
