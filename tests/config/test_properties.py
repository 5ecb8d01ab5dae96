"""Java .properties files, against what java.util.Properties read and wrote."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.config.values.properties import LARGEST_FILE, PropertiesError, dumps, format_date, loads

from .recorded import recorded


def test_files_are_read_as_java_reads_them() -> None:
    # M-J1: escapes, continuations, separators, comments, blanks, line ends; null where Java raises.
    vectors = recorded("properties")["load"]
    assert len(vectors) > 400
    for encoded, expected in vectors:
        data = base64.b64decode(encoded)
        try:
            got = loads(data)
        except PropertiesError as error:
            assert "Malformed \\uxxxx encoding" in str(error)
            got = None
        assert got == expected, data


def test_the_error_for_garbage_is_one_printable_line() -> None:
    with pytest.raises(PropertiesError) as caught:
        loads(b"a=\\u\x8d@\x00q")
    assert str(caught.value).isprintable()
    assert r"\u\x8d@\x00q" in str(caught.value)


def test_files_are_written_as_java_writes_them() -> None:
    vectors = recorded("properties")["store"]
    assert len(vectors) > 100
    for key, value, comment, expected in vectors:
        assert dumps({key: value}, comment) == base64.b64decode(expected), (key, value, comment)


def test_a_typical_server_properties_file() -> None:
    # M-J1
    text = b"""# The id of the broker
broker.id=0
listeners = PLAINTEXT://:9092
log.dirs: /tmp/a,\\
          /tmp/b
num.partitions 3
empty=
! old comment
"""
    assert loads(text) == {
        "broker.id": "0",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/tmp/a,/tmp/b",
        "num.partitions": "3",
        "empty": "",
    }


def test_a_bad_escape_names_its_line() -> None:
    with pytest.raises(PropertiesError, match="line 3: Malformed"):
        loads(b"a=1\n#\nb=x\\\n  \\u00g1\n")


def test_an_oversized_file_is_rejected_unread() -> None:
    with pytest.raises(PropertiesError, match="at most"):
        loads(bytes(LARGEST_FILE + 1))


def test_meta_properties_look_as_apache_kafkas() -> None:
    # M-E1: the comment is empty, the second line is the date.
    assert dumps({"version": "1", "node.id": "1"}, "", 1_794_728_083_000) == (
        b"#\n#Sun Nov 15 07:34:43 UTC 2026\nversion=1\nnode.id=1\n"
    )


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "Thu Jan 01 00:00:00 UTC 1970"),
        (951_782_399_999, "Mon Feb 28 23:59:59 UTC 2000"),
        (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
        (4_107_542_400_000, "Mon Mar 01 00:00:00 UTC 2100"),
        (-1, "Wed Dec 31 23:59:59 UTC 1969"),
    ],
)
def test_dates(time_ms: int, text: str) -> None:
    assert format_date(time_ms) == text


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=5), st.none() | st.text(max_size=20)
)
def test_written_files_are_read_back(values: dict[str, str], comment: str | None) -> None:
    assert loads(dumps(values, comment, 0)) == values


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    try:
        assert all(isinstance(text, str) for pair in loads(data).items() for text in pair)
    except PropertiesError as error:
        assert "line" in str(error)
