"""`make demo` on a terminal: logs flow, results come, Ctrl+C ends it with a report.

`make verify` runs it without a terminal, again from its checkpoint, and without Java.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
COLUMNS = 60
PATIENCE_S = 400
pytestmark = pytest.mark.xdist_group("spark")


def read_terminal(master: int, enough: str) -> str:
    """What was written so far, once it has all that; or up to the end."""
    text = ""
    while not re.search(enough, text):
        try:
            text += os.read(master, 1 << 16).decode(errors="replace")
        except OSError:  # The other side is closed.
            break
    return text


def test_on_a_terminal_it_draws_over_itself_until_ctrl_c(tmp_path: Path) -> None:
    """M-I3."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--folder", str(tmp_path)],
        cwd=PROJECT,
        env=environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(slave)
    watch = threading.Timer(PATIENCE_S, process.kill)
    watch.start()
    shown = read_terminal(master, r"window \d\d:\d\d:\d\d")
    os.write(master, b"\x03")
    shown += read_terminal(master, r"report: \S+")
    assert process.wait(PATIENCE_S) == 0, shown[-2000:]
    watch.cancel()
    os.close(master)
    lines = re.sub(r"\x1b\[\d*[AK]", "", shown).replace("\r", "").replace("^C", "").split("\n")
    drawn = [line for line in lines if re.match(r"  \w+ +█", line)]
    assert drawn, lines[-60:]
    assert all(len(line) < COLUMNS for line in drawn)
    report = (tmp_path / "report.html").read_text()
    assert report.count("<svg") == 2
    assert "checkout" in report
