"""A reader of a book about Apache Kafka, who types its commands in a folder written by `barnabas aliases`."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from barnabas.cli.main import main
from tools.ports import free_pair, free_ports

PATIENCE_S = 120
PAUSE_S = 0.05


def wait_until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not so in time: {what}"
        time.sleep(PAUSE_S)


class Book:
    """A folder with scripts, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_pair()
        self.server = f"localhost:{self.port}"
        # Whether the broker is in ZooKeeper mode: the book's other chapter.
        self.on_zookeeper = False
        self._environment = {
            **os.environ,
            "BARNABAS_STATE": str(folder / "state"),
            "LOG_DIR": str(folder / "logs"),
            "KAFKA_HEAP_OPTS": "-Xmx96m -Xms16m",
        }
        [zookeeper_port] = free_ports(1)
        ports = ["--port", str(self.port), "--zookeeper-port", str(zookeeper_port)]
        written = main(["aliases", str(folder), *ports, "--data", str(folder / "data")])
        assert written == 0

    def types(self, line: str, *, stdin: str = "", code: int = 0) -> str:
        """The output of a command on both streams; it must exit with this code."""
        done = subprocess.run(
            self._words(line),
            cwd=self.folder,
            env=self._environment,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, f"$ {line}\n{done.stdout}"
        return done.stdout

    def starts(self, line: str) -> Running:
        """A command that runs until it is stopped."""
        return Running(
            subprocess.Popen(
                self._words(line),
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def at_terminal(self, line: str) -> Terminal:
        """A command with a terminal."""
        return Terminal(self._words(line), self.folder, self._environment)

    def _words(self, line: str) -> list[str]:
        return shlex.split(line.replace("SERVER", self.server))


class Running:
    """A process, and the lines that it has printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.errors: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            threading.Thread(target=_keep, args=(stream, kept), daemon=True)
            for stream, kept in ((process.stdout, self.lines), (process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    def prints(self, *lines: str) -> None:
        """Waits until exactly these lines are printed."""
        wait_until(lambda: len(self.lines) >= len(lines), f"{lines} in {self.lines} {self.errors}")
        assert self.lines == list(lines)

    def ends(self, number: signal.Signals = signal.SIGINT) -> int:
        """Sends Ctrl+C; returns the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code


def _keep(stream: IO[str], kept: list[str]) -> None:
    with stream:
        for line in stream:
            kept.append(line.rstrip("\n"))


class Terminal:
    """A process with a pseudo-terminal."""

    def __init__(self, words: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, environment)
        self.seen = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 4096)
            except OSError:
                return
            if not data:
                return
            self.seen += data.decode()

    def shows(self, text: str) -> None:
        wait_until(lambda: text in self.seen, f"{text!r} in {self.seen!r}")

    def key(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def result(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        self._reader.join(PATIENCE_S)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(status)
