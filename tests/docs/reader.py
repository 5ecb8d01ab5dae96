"""Follows a page of the documentation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from barnabas.cli.server.running_servers import STATE_VARIABLE, running_servers
from barnabas.cli.server.server_process import STOP_ALONE
from barnabas.runtime.disk.folder_disk import FolderDisk
from tests.docs.pages import Command, Shown, Written, is_like, steps
from tests.spark.java import QUICK_START
from tools.ports import free_ports, free_run

PROJECT = Path(__file__).resolve().parents[2]
# Pages about Spark start Java, on machines that may be busy.
PATIENCE_S = 300
# The ports in the pages, which are replaced by free ones.
PORTS = ("9092", "9093", "9094", "9095", "9096", "9097", "9098")
# These need not follow each other.
OTHER_PORTS = ("2181", "9404", "16010", "16020", "16030")
# The setup has been done before any test runs.
NOT_RUN = ("make ", "pip ", ". .venv/")
EXAMPLES = "python -m examples."
STAYS = re.compile(r"barnabas (dev|server-start (?!-daemon))|python -m examples.raft_kv server ")
# pytest and other tools print something else where these are set; readers have them on no machine of theirs.
OF_CI = ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS", "PYTHONPATH", "VIRTUAL_ENV")
# The Python that the reader has, if not this one: `make pages` sets it to one with an installed wheel.
PYTHON_VARIABLE = "BARNABAS_PAGES_PYTHON"
# Commands that change nothing, and can be repeated until the page is right.
READS = re.compile(r"^barnabas \S+ .*\bdescribe\b")
READ_AGAIN_S = 0.2
LISTENS = re.compile(r"listens on |serves (PLAINTEXT|CONTROLLER)")


class Reader:
    """Follows a page in its own folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = os.environ.get(PYTHON_VARIABLE, sys.executable)
        ports = map(str, free_run(len(PORTS)))
        others = map(str, free_ports(len(OTHER_PORTS)))
        self._ports = {**dict(zip(PORTS, ports, strict=True)), **dict(zip(OTHER_PORTS, others, strict=True))}
        self._background: list[subprocess.Popen[str]] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in OF_CI},
            **QUICK_START,
            "PATH": f"{Path(self._python).parent}{os.pathsep}{os.environ['PATH']}",
            STATE_VARIABLE: str(folder / "state"),
            "LOG_DIR": str(folder / "logs"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PYTHONWARNINGS": "ignore",
        }

    def follow(self, page: str, *, also_shown: bool = False) -> None:
        """`also_shown`: includes the commands that the page only shows because they take long."""
        if EXAMPLES in page:
            # Its readers are in the folder of the repository.
            (self._folder / "examples").symlink_to(PROJECT / "examples")
        for step in steps(self.here(page)):
            if isinstance(step, Written):
                (self._folder / step.name).write_text(step.text, "utf-8")
            elif isinstance(step, Shown):
                if also_shown:
                    self.run_briefly(step.line)
            elif not step.line.startswith(NOT_RUN):
                self._run(step)

    def here(self, text: str) -> str:
        """Replaces the ports of the page by free ones."""
        for name, port in self._ports.items():
            text = re.sub(rf"\b{name}\b", port, text)
        return text

    def run_briefly(self, line: str) -> str:
        """Runs a command that would run until Ctrl+C so that it ends; returns its output."""
        line = re.sub(r"(barnabas pipeline run \S+)", r"\1 --once", line)
        line = re.sub(r"(barnabas consume \S+) -f\b", r"\1", line)
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _run(self, command: Command) -> None:
        stays = STAYS.match(command.line) and not self._is_refused(command)
        line = re.sub(r"^barnabas dev\b", f"barnabas dev --port {self._ports['9092']}", command.line)
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line}" if stays else line],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        if stays:
            self._background.append(process)
            printed = self._lines_until_listening(process.stdout)
            assert is_like(command.printed[0], printed[-1]), f"$ {command.line}\n{printed}"
            return
        out, _ = process.communicate(timeout=PATIENCE_S)
        if READS.search(command.line) and not command.prints(out.rstrip().splitlines()):
            out = self._read_again(command, line)
        said = "\n".join(command.printed)
        assert command.prints(out.rstrip().splitlines()), (
            f"$ {command.line}\n{out}\nbut the page says\n{said}"
        )
        if not command.printed:
            assert process.returncode == 0, f"$ {command.line}\nended with {process.returncode}"

    def _read_again(self, command: Command, line: str) -> str:
        """What a page describes may take a moment, such as the first fetch of a node that has just started."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            out = self.run_briefly(line)
            if command.prints(out.rstrip().splitlines()) or time.monotonic() > deadline:
                return out
            time.sleep(READ_AGAIN_S)

    @staticmethod
    def _lines_until_listening(out: Iterable[str]) -> list[str]:
        printed = []
        for line in out:
            printed.append(line.rstrip("\n"))
            if LISTENS.search(line):
                break
        return printed

    @staticmethod
    def _is_refused(command: Command) -> bool:
        return not any(LISTENS.search(line) for line in command.printed)

    def leave(self) -> None:
        for cluster in list(self._folder.rglob("cluster.json")):
            folder = str(cluster.parent)
            stop_cluster = [self._python, "-m", "barnabas", "cluster", "down", "--delete", "--dir", folder]
            subprocess.run(
                stop_cluster, env=self._environment, capture_output=True, timeout=PATIENCE_S, check=False
            )
        for process in self._background:
            process.send_signal(signal.SIGINT)
        for process in self._background:
            process.communicate(timeout=PATIENCE_S)
        self._stop_servers()

    def _stop_servers(self) -> None:
        """Without a controlled shutdown: the last node of a cluster would wait five minutes for a controller."""
        with mock.patch.dict(os.environ, {STATE_VARIABLE: self._environment[STATE_VARIABLE]}):
            for info in running_servers(FolderDisk()):
                os.kill(info.pid, STOP_ALONE)
            deadline = time.monotonic() + PATIENCE_S
            while running_servers(FolderDisk()):
                assert time.monotonic() < deadline, "a server has not stopped"
                time.sleep(READ_AGAIN_S)


@contextmanager
def reader_in(folder: Path) -> Iterator[Reader]:
    reader = Reader(folder)
    try:
        yield reader
    finally:
        reader.leave()
