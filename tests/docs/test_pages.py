"""What the documentation tells people to type works, and prints what the documentation says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.docs.pages import Command, Written, is_like, pages, steps
from tests.spark.java import QUICK_START
from tools.ports import free_ports

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
# A page about Spark starts Java, on machines that may be busy.
PATIENCE_S = 300
# Where the pages say so, brokers listen; here any port that is free must do.
PORTS = ("9092", "9093", "9404")
# What sets up the machine has been done before any test runs.
NOT_RUN = ("make ", "pip ", ". .venv/")
# Pages that `make verify` and `make suites` write.
OF_CAMPAIGNS = ("verified.md", "compatibility.md")
STAYS = re.compile(r"barnabas (dev|server-start (?!-daemon))")
LISTENS = re.compile(r"listens on |serves PLAINTEXT")


class Reader:
    """Somebody who follows a page in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        self._background: list[subprocess.Popen[str]] = []
        self._environment = {
            **os.environ,
            **QUICK_START,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BARNABAS_STATE": str(folder / "state"),
            "LOG_DIR": str(folder / "logs"),
            "PYTHONWARNINGS": "ignore",
        }

    def follow(self, page: str) -> None:
        for name, port in self._ports.items():
            page = re.sub(rf"\b{name}\b", port, page)
        for step in steps(page):
            if isinstance(step, Written):
                (self._folder / step.name).write_text(step.text)
            elif not step.line.startswith(NOT_RUN):
                self._run(step)

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
            told = self._until_it_listens(process.stdout)
            assert is_like(command.printed[0], told[-1]), f"$ {command.line}\n{told}"
            return
        out, _ = process.communicate(timeout=PATIENCE_S)
        said = "\n".join(command.printed)
        assert command.prints(out.rstrip().splitlines()), (
            f"$ {command.line}\n{out}\nbut the page says\n{said}"
        )
        if not command.printed:
            assert process.returncode == 0, f"$ {command.line}\nended with {process.returncode}"

    @staticmethod
    def _until_it_listens(out: Iterable[str]) -> list[str]:
        told = []
        for line in out:
            told.append(line.rstrip("\n"))
            if LISTENS.search(line):
                break
        return told

    @staticmethod
    def _is_refused(command: Command) -> bool:
        return not any(LISTENS.search(line) for line in command.printed)

    def leave(self) -> None:
        stop = [sys.executable, "-m", "barnabas", "server-stop"]
        for process in self._background:
            process.send_signal(signal.SIGINT)
        for process in self._background:
            process.communicate(timeout=PATIENCE_S)
        subprocess.run(stop, env=self._environment, capture_output=True, timeout=PATIENCE_S, check=False)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


@pytest.mark.parametrize("path", pages(DOCS), ids=lambda path: path.stem)
def test_a_page_does_what_it_says(path: Path, reader: Reader) -> None:
    reader.follow(path.read_text("utf-8"))


@pytest.mark.parametrize("path", [PROJECT / "README.md", *DOCS.rglob("*.md")], ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)", path.read_text("utf-8"))
    there = [path.parent / link for link in links if not re.match(r"https?:", link)]
    assert [link for link in there if not link.exists() and link.name not in OF_CAMPAIGNS] == []
