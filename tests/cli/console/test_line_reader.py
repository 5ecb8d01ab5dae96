"""Lines become records: keys, headers and nulls."""

from __future__ import annotations

import io
from typing import Any

import pytest

from barnabas.cli.console import line_reader
from barnabas.cli.console.line_reader import LineReader, ReadRecord
from barnabas.cli.framework.exits import CommandError, UsageError


def read(text: bytes, **properties: Any) -> list[ReadRecord]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return list(LineReader(given, "tool").records(io.BytesIO(text)))


def test_a_line_is_a_value() -> None:
    assert read(b"one\ntwo") == [ReadRecord(None, b"one", ()), ReadRecord(None, b"two", ())]


def test_lines_end_as_in_java_and_an_empty_one_is_an_empty_value() -> None:
    assert [one.value for one in read(b"a\r\nb\rc\n\n")] == [b"a", b"b", b"c", b""]


def test_binary_data_stays_unchanged() -> None:
    assert read(b"\xff\xfe:\xc3\xa4\n", parse_key="true", key_separator=":") == [
        ReadRecord(b"\xff\xfe", "ä".encode(), ())
    ]


def test_only_the_first_separator_parts_key_and_value() -> None:
    assert read(b"k=v=w\n", parse_key=" TRUE ", key_separator="=") == [ReadRecord(b"k", b"v=w", ())]


def test_headers_before_the_key() -> None:
    (record,) = read(b"h1:v1,h2:,h1:x:y\tk\tv\n", parse_key="true", parse_headers="true")
    assert record == ReadRecord(b"k", b"v", (("h1", b"v1"), ("h2", b""), ("h1", b"x:y")))


def test_separators_of_headers_and_one_that_is_a_regular_expression() -> None:
    (record,) = read(
        b"a=1; b=2|v\n",
        parse_headers="true",
        headers_delimiter="|",
        headers_separator="; *",
        headers_key_separator="=",
    )
    assert record == ReadRecord(None, b"v", (("a", b"1"), ("b", b"2")))


def test_a_trailing_separator_adds_no_header() -> None:
    assert read(b"a:1,\tv\n", parse_headers="true")[0].headers == (("a", b"1"),)


def test_the_null_marker_means_null_everywhere() -> None:
    options = {"parse_key": "true", "parse_headers": "true", "null_marker": "NIL"}
    assert read(b"a:NIL\tNIL\tNIL\n", **options) == [ReadRecord(None, None, (("a", None),))]
    assert read(b"NIL\tk\tv\n", **options) == [ReadRecord(b"k", b"v", ())]


@pytest.mark.parametrize(
    ("line", "properties", "message"),
    [
        (b"x\n", {"parse_key": "true"}, "No key separator found on line number 1: 'x'"),
        (b"x\n", {"parse_headers": "true"}, "No headers delimiter found on line number 1: 'x'"),
        (b"x\tv\n", {"parse_headers": "true"}, "No header key separator found in pair 'x' on line number 1"),
    ],
)
def test_a_line_without_its_parts_is_refused_unless_errors_are_ignored(
    line: bytes, properties: dict[str, str], message: str
) -> None:
    with pytest.raises(CommandError, match=message.replace("(", r"\(")):
        read(line, **properties)
    (record,) = read(line, **properties, ignore_error="true")
    assert record.value in (b"x", b"v")
    assert record.headers in ((), (("x", None),))


def test_a_header_key_cannot_be_the_null_marker() -> None:
    with pytest.raises(CommandError, match="Header keys should not be equal to the null marker 'N'"):
        read(b"N:v\tx\n", parse_headers="true", null_marker="N")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.separator": "\t"}, "headers.delimiter and headers.separator must differ"),
        ({"headers.key.separator": "\t"}, "headers.delimiter and headers.key.separator must differ"),
        ({"headers.key.separator": ","}, "headers.separator and headers.key.separator must differ"),
        ({"null.marker": ";", "key.separator": ";"}, "null.marker and key.separator must differ"),
        ({"null.marker": ","}, "null.marker and headers.separator must differ"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator must differ"),
        ({"null.marker": "\t", "key.separator": "x"}, "null.marker and headers.delimiter must differ"),
        ({"key.separator": ""}, "key.separator must not be empty"),
        ({"headers.separator": "("}, "headers.separator=\\( is not a regular expression"),
    ],
)
def test_ambiguous_separators_are_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LineReader(properties, "tool")


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "MAX_LINE_CHARACTERS", 8)
    with pytest.raises(CommandError, match="line number 2 is too long"):
        read(b"short\n123456789\n")


def test_a_prompt_before_each_line() -> None:
    shown = io.BytesIO()
    assert len(list(LineReader({}, "tool").records(io.BytesIO(b"a\nb\n"), shown))) == 2
    assert shown.getvalue() == b">>>"
