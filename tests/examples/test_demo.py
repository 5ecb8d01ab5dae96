"""`make demo` shows messages flowing and ends by itself where there is no terminal."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from examples import demo

PROJECT = Path(__file__).resolve().parents[2]
COLUMNS = 60


def test_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "SECONDS_WITHOUT_TERMINAL", 1)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    try:
        assert demo.Demo(str(tmp_path)).run() == 0
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])
    last = capsys.readouterr().out.splitlines()[-1]
    told = re.fullmatch(r"([\d,]+) messages acknowledged, ([\d,]+) read", last)
    assert told is not None, last
    assert told[1] == told[2] != "0"


def read_terminal(master: int, enough: str) -> str:
    """What was written so far, once it has all that; or up to the end."""
    text = ""
    while not re.search(enough, text):
        try:
            text += os.read(master, 1 << 16).decode()
        except OSError:  # The other side is closed.
            break
    return text


def test_on_a_terminal_it_draws_over_itself_until_ctrl_c() -> None:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 20, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo"],
        cwd=PROJECT,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    shown = read_terminal(master, r"\x1b\[\d+A")
    os.write(master, b"\x03")
    shown += read_terminal(master, "messages acknowledged")
    assert process.wait(30) == 0
    os.close(master)
    lines = re.sub(r"\x1b\[\d+[AK]", "", shown).replace("\r", "").replace("^C", "").split("\n")
    assert any(re.search(r"checkout .*/s", line) for line in lines)
    assert all(len(line) < COLUMNS for line in lines), lines
