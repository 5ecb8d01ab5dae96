"""Logs of a server: text or JSON, on stderr or in a rotated file."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

from barnabas.cli.server import server_logs
from barnabas.cli.server.server_logs import KEPT_LOGS, logging_to

logger = logging.getLogger("barnabas.test")


def test_a_line_of_text(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with logging_to(str(path), "text"):
        logger.info("node %d has stopped", 1)
        logger.debug("not logged")
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO barnabas\.test: node 1 has stopped\n"
    assert re.fullmatch(line, path.read_text("utf-8"))


def test_one_object_per_line_with_the_traceback_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with logging_to(str(path), "json"):
        logger.warning("ümlaut\nand a second line")
        try:
            raise ValueError("oops")
        except ValueError:
            logger.exception("a fault")
    first, second = map(json.loads, path.read_text("utf-8").splitlines())
    assert (first["level"], first["logger"], first["message"]) == (
        "WARNING",
        "barnabas.test",
        "ümlaut\nand a second line",
    )
    assert isinstance(first["time_ms"], int)
    assert "ValueError: oops" in second["traceback"]


def test_a_long_log_is_rotated_and_few_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_logs, "MAX_LOG_BYTES", 500)
    path = tmp_path / "server.log"
    with logging_to(str(path), "text"):
        for number in range(500):
            logger.info("line %d", number)
    kept = sorted(tmp_path.iterdir())
    assert len(kept) == 1 + KEPT_LOGS
    assert all(one.stat().st_size <= 500 for one in kept)
    assert path.read_text("utf-8").endswith("line 499\n")


def test_without_a_file_logs_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = list(logging.root.handlers), logging.root.level
    with logging_to(None, "text", logging.WARNING):
        logger.info("too much")
        logger.warning("worth a line")
    assert (list(logging.root.handlers), logging.root.level) == before
    output = capsys.readouterr().err
    assert "worth a line" in output and "too much" not in output
