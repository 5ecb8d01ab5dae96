"""`make demo` on a terminal, without Spark: logs flow, a view is drawn, Ctrl+C ends it with a report.

`make verify` runs it with Spark: on a terminal, without one, again from its checkpoint, and without Java.
"""

from __future__ import annotations

from pathlib import Path

from tests.examples.terminal import check_on_a_terminal


def test_on_a_terminal_it_draws_over_itself_until_ctrl_c(tmp_path: Path) -> None:
    """M-I3."""
    lines = check_on_a_terminal("tests.examples.demo_without_spark", tmp_path)
    # The pipeline is not left running.
    assert "stopped" in lines
