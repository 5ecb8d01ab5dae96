"""Six formats, times and positions, progress, and records as JSON."""

from __future__ import annotations

import io
import json
import os
import sys
from unittest import mock

import pytest

from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.cli.framework.text.terminal import broken_lines, tell
from barnabas.cli.friendly.output import Column, Printer, Style, styled
from barnabas.cli.friendly.progress import Progress
from barnabas.cli.friendly.records import envelope
from barnabas.cli.friendly.records.times import (
    AtTime,
    FromEnd,
    LogEnd,
    parse_duration_ms,
    parse_position,
    parse_time_ms,
    show_age,
    show_time,
)
from barnabas.cli.friendly.yaml_text import yaml_item

NOW_MS = 1_700_000_000_000
COLUMNS = (Column("name"), Column("size", is_number=True), Column("tags"), Column("note", is_wide=True))
ROWS: list[dict[str, object]] = [
    {"name": "a", "size": 1, "tags": ["x", "y"], "note": "line\nbreak"},
    {"name": "long" * 30, "size": None, "tags": [], "note": None},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(output: str, rows: list[dict[str, object]] = ROWS) -> str:
    stream = io.StringIO()
    Printer(output, COLUMNS, name="name", stream=stream).all(rows)
    return stream.getvalue()


def test_a_table_aligns_and_truncates() -> None:
    lines = printed("table").splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "TAGS"]
    assert lines[1].split() == ["a", "1", "x,y"]
    assert lines[2].startswith("long" * 19 + "lon…  ")
    assert lines[2].split()[1:] == ["-", "-"]


def test_wide_shows_all_and_breaks_no_line() -> None:
    lines = printed("wide").splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(r"line\nbreak")
    assert "long" * 30 in lines[2]


def test_machine_formats_have_all_fields() -> None:
    assert json.loads(printed("json")) == ROWS
    assert [json.loads(line) for line in printed("jsonl").splitlines()] == ROWS
    assert printed("name").splitlines() == ["a", "long" * 30]
    assert printed("json", []) == "[]\n"
    assert printed("yaml", []) == "[]\n"
    assert printed("jsonl", []) == printed("table", []) == ""


def test_yaml() -> None:
    row: dict[str, object] = {
        "a b": 1,
        "null": None,
        "t": True,
        "s": "yes",
        "m": "-1",
        "u": 'q"\x00😀',
        "l": [{"x": []}],
        "e": {},
    }
    assert yaml_item(row) == (
        '- a b: 1\n  "null": null\n  t: true\n  s: "yes"\n  m: "-1"\n  u: "q\\"\\U00000000😀"\n'
        "  l:\n    - x: []\n  e: {}\n"
    )
    assert yaml_item("word") == "- word\n"


def test_rows_of_an_endless_command_are_printed_at_once() -> None:
    stream = io.StringIO()
    printer = Printer("table", COLUMNS, name="name", stream=stream, is_endless=True)
    printer.row(ROWS[0])
    assert len(stream.getvalue().splitlines()) == 2


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert styled("x", Style.RED, Terminal()) == "\x1b[31mx\x1b[0m"
    assert styled("x", Style.RED, io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled("x", Style.RED, Terminal()) == "x"


# Times ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("now", NOW_MS),
        ("-30m", NOW_MS - 1_800_000),
        ("-1h30m", NOW_MS - 5_400_000),
        ("+1d", NOW_MS + 86_400_000),
        ("2023-11-14T22:13:20Z", NOW_MS),
        ("2023-11-14T23:13:20+01:00", NOW_MS),
    ],
)
def test_times(text: str, at_ms: int) -> None:
    assert parse_time_ms(text, NOW_MS) == at_ms


@pytest.mark.parametrize("text", ["", "yesterday", "-30", "-30x", "30m", "2023-13-01", "99999999999999"])
def test_an_invalid_time_is_reported_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write now, -30m"):
        parse_time_ms(text, NOW_MS)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", LogEnd.EARLIEST),
        ("latest", LogEnd.LATEST),
        ("42", 42),
        ("-5", FromEnd(5)),
        ("-5m", AtTime(NOW_MS - 300_000)),
    ],
)
def test_positions(text: str, place: object) -> None:
    assert parse_position(text, NOW_MS) == place


def test_an_invalid_position_is_reported() -> None:
    with pytest.raises(ValueError, match="'somewhere' is not a position in a log: write earliest, latest"):
        parse_position("somewhere", NOW_MS)


def test_durations_and_how_they_are_shown() -> None:
    assert parse_duration_ms("1h30m") == 5_400_000
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration_ms("5")
    assert [show_age(one) for one in (12, 5_000, 3_723_000)] == ["12 ms", "5 s", "1 h 2 min"]
    assert show_time(NOW_MS) == "2023-11-14T22:13:20.000Z"
    assert show_time(2**62) == str(2**62)


# Progress ---------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ms(self) -> int:
        return 0


def test_progress_is_for_terminals_only() -> None:
    for stream, is_shown in ((io.StringIO(), True), (Terminal(), False)):
        with Progress("reading", 10, stream=stream, is_shown=is_shown, clock=Clock()) as progress:
            progress.add(5)
        assert stream.getvalue() == ""


def test_a_bar_and_a_count() -> None:
    clock = Clock()
    stream = Terminal()
    with Progress("reading", 10, stream=stream, clock=clock) as progress:
        clock.now_ns = 1_000_000_000
        progress.add(5)
        progress.add(1)
        assert progress.line().startswith("reading ██████████████████░░░░░░░░░░░░  60%  6 of 10  6 records/s")
    # The second update came too soon after the first to be shown; at the end the line is erased.
    assert stream.getvalue().count("reading") == 1
    assert stream.getvalue().endswith("\r\x1b[K")
    with Progress("sending", unit="bytes", stream=stream, clock=clock) as progress:
        progress.done = 1_234
        assert progress.line() == "sending 1,234 bytes"


def test_other_lines_do_not_run_into_the_progress() -> None:
    """`sending 219 bytes` was followed by a message, and by the first line of `| head`."""
    clock, stream = Clock(), Terminal()
    with Progress("sending", unit="bytes", stream=stream, clock=clock) as progress:
        clock.now_ns = 1_000_000_000
        progress.add(219)
        progress.clear()
        assert stream.getvalue().endswith("bytes/s\r\x1b[K")
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as pipe, os.fdopen(read_end), mock.patch.object(sys, "stdout", pipe):
        piped = Terminal()
        with Progress("reading", 10, stream=piped, clock=clock) as progress:
            clock.now_ns = 2_000_000_000
            progress.add(5)
        assert piped.getvalue() == ""


# Messages ---------------------------------------------------------------------------------------------------


def test_messages_end_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for stream, expected in (
        (Terminal(), "barnabas: what listens on localhost:80 is\n  not a Kafka broker\n"),
        (io.StringIO(), "barnabas: what listens on localhost:80 is not a Kafka broker\n"),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        tell("barnabas: what listens on localhost:80 is not a Kafka broker")
        assert stream.getvalue() == expected.replace("localhost:80 is\n  not", "localhost:80\n  is not")


# Records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"text", "grüß\n".encode(), b"\xff\x00", b"", None])
def test_records_come_back_as_they_were(value: bytes | None) -> None:
    record = ConsumerRecord("t", 3, -1, 7, NOW_MS, 0, value, value, (("h", value), ("h", b"2")))
    line = json.dumps(envelope.row_of(record)).encode()
    assert envelope.is_record_line(line)
    given = envelope.parse(line)
    assert (given.topic, given.partition, given.timestamp_ms) == ("t", 3, NOW_MS)
    assert (given.key, given.value) == (value, value)
    assert given.headers == (("h", value), ("h", b"2"))


@pytest.mark.parametrize(
    "line", [b"{}", b'{"value": 1}', b'{"offset": 1, "value": 1, "price": 2}', b"[1]", b"x"]
)
def test_arbitrary_json_is_left_alone(line: bytes) -> None:
    assert not envelope.is_record_line(line)


def test_json_values_of_programs_are_taken() -> None:
    assert envelope.parse(b'{"value": {"id": 1}}').value == b'{"id":1}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[]", "a record is a JSON object"),
        (b'{"valeu": 1}', "unknown field valeu"),
        (b'{"value": "x", "partition": "0"}', "partition must be a int"),
        (b'{"value_base64": "???"}', "value_base64: "),
        (b'{"value": 1, "headers": {}}', "headers are a list"),
        (b"{", "Expecting property name"),
    ],
)
def test_a_malformed_record_is_reported(line: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        envelope.parse(line)


# Terminals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_table_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The widest texts are cut, numbers are not."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    declared = (Column("topic"), Column("records", is_number=True), Column("value"))
    rows = [{"topic": "t" * 30, "records": 123_456_789, "value": "v" * 200}]
    Printer("table", declared, name="topic", stream=stream).all(rows)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert "123456789" in lines[1]
    assert lines[1].endswith("v…")
    wide = Terminal()
    Printer("wide", declared, name="topic", stream=wide).all(rows)
    assert "v" * 200 in wide.getvalue()


def test_a_pipe_gets_tables_as_wide_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    Printer("table", (Column("value"),), name="value", stream=stream).all([{"value": "v" * 70}])
    assert "v" * 70 in stream.getvalue()


def test_a_line_of_parts_is_broken_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    parts = ["node 1", "pid 12345", "up 3 s", "x" * 30]
    assert broken_lines(parts, Terminal()) == "node 1  pid 12345\n  up 3 s\n  " + "x" * 30
    assert broken_lines(parts, io.StringIO()) == "  ".join(parts)
