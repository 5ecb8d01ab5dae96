"""Histories as lines of JSON, and the command that checks them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.testing.histories.__main__ import main
from barnabas.testing.histories.events import Acknowledged, Event, FinalRead, Isolation, Sent
from barnabas.testing.histories.facts import HistoryError
from barnabas.testing.histories.jsonl import read_events, write_event
from tests.testing.histories.test_checker import CLEAN, PLANTED


@pytest.mark.parametrize("events", [*CLEAN.values(), *(events for _, events in PLANTED.values())])
def test_events_survive_the_round_trip(events: list[Event]) -> None:
    assert list(read_events(map(write_event, events))) == events


@pytest.mark.parametrize("line", ["{}", "[]", "x", '{"event":"Nothing"}', '{"event":"Sent","value":"a"}'])
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    with pytest.raises(HistoryError, match="line 2"):
        list(read_events(['{"event":"Acknowledged","value":"a"}', line]))


@pytest.mark.parametrize(
    ("records", "code", "text"),
    [(((0, "a"),), 0, "no anomalies"), ((), 1, "lost write: a was acknowledged at offset 0 of orders-0")],
)
def test_the_command(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    records: tuple[tuple[int, str], ...],
    code: int,
    text: str,
) -> None:
    events: list[Event] = [
        Sent("a", "p", ("orders", 0)),
        Acknowledged("a", 0),
        FinalRead(("orders", 0), Isolation.UNCOMMITTED, records),
    ]
    file = tmp_path / "history.jsonl"
    file.write_text("".join(f"{write_event(event)}\n" for event in events), "utf-8")
    assert main([str(file)]) == code
    assert text in capsys.readouterr().out


def test_the_command_refuses_what_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"event":"Acknowledged","value":"a"}\n', "utf-8")
    assert main([str(file)]) == 2
    assert "never sent" in capsys.readouterr().err
