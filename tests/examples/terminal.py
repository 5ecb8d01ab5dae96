"""The demo as seen by a user at a terminal, who presses Ctrl+C once there is something to see."""

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

PROJECT = Path(__file__).resolve().parents[2]
COLUMNS = 60
PATIENCE_S = 600


def check_on_a_terminal(module: str, folder: Path) -> list[str]:
    """It draws a window of counts over itself, ends by Ctrl+C, and leaves its report; all that was shown."""
    lines = _shown(module, folder)
    drawn = [line for line in lines if re.match(r"  \w+ +█", line)]
    assert drawn, lines[-60:]
    assert all(len(line) < COLUMNS for line in drawn)
    report = (folder / "report.html").read_text("utf-8")
    assert report.count("<svg") >= 2
    assert "checkout" in report
    return lines


def _shown(module: str, folder: Path) -> list[str]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", *module.split(), "--folder", str(folder)],
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
    shown = _read(master, r"window \d\d:\d\d:\d\d")
    os.write(master, b"\x03")
    shown += _read(master, r"report: \S+")
    assert process.wait(PATIENCE_S) == 0, shown[-2000:]
    watch.cancel()
    os.close(master)
    return re.sub(r"\x1b\[\d*[AK]", "", shown).replace("\r", "").replace("^C", "").split("\n")


def _read(master: int, enough: str) -> str:
    """What was written so far, once it has all that; or up to the end."""
    text = ""
    while not re.search(enough, text):
        try:
            text += os.read(master, 1 << 16).decode(errors="replace")
        except OSError:  # The other side is closed.
            break
    return text
