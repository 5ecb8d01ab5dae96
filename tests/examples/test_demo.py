"""`make demo` shows messages flowing and ends by itself where there is no terminal."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from examples import demo


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
