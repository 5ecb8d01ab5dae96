"""Filters, templates, nested JSON; synonyms and hints; what empty results say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.engine.consume import ConsumerRecord
from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly.records.selection import nested, parse_template, render
from tests.cli.conftest import Call

RECORD: Any = ConsumerRecord("t", 3, -1, 7, 1_700, 0, b"key", b"value", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (r"%k %s\n", b"key value\n"),
        (r"%t-%p@%o\t%T %h%%", b"t-3@7\t1700 a=1,b=%"),
        (r"\\n \q", rb"\n \q"),
        ("", b""),
    ],
)
def test_templates(template: str, expected: bytes) -> None:
    assert render(parse_template(template), RECORD) == expected


def test_records_without_a_key_or_a_value() -> None:
    record: Any = ConsumerRecord("t", 0, -1, 0, 0, 0, None, None, ())
    assert render(parse_template("[%k|%s]"), record) == b"[|]"


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": [1]}', {"a": [1]}), ("12", 12), ("text", "text"), ('"12"', '"12"'), ("{", "{")],
)
def test_nested_values(text: str, value: object) -> None:
    assert nested({"value": text}) == {"value": value}
    assert nested({"value_base64": "AA=="}) == {"value_base64": "AA=="}


@pytest.fixture
def filled(barnabas: Call, topic: str, tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text('a:{"n": 1}\nb:{"n": 2}\na:{"n": 3}\n', "utf-8")
    assert barnabas("produce", topic, str(path), "-s", ":", "--create").code == Exit.OK
    return topic


def test_filters_and_outputs(barnabas: Call, filled: str) -> None:
    assert barnabas("consume", filled, "-F", r"%k=%s\n", "--key", "a").out == 'a={"n": 1}\na={"n": 3}\n'
    assert barnabas("consume", filled, "--grep", "[23]", "-n", "1", "--value-only").out == '{"n": 2}\n'
    assert barnabas("tail", filled, "--no-follow", "-n", "1", "-F", "%o").out == "2"
    (row,) = json.loads(barnabas("consume", filled, "--json", "--nested", "--grep", "1").out)
    assert row["value"] == {"n": 1}
    assert barnabas("consume", filled, "-f", r"%o %k\n", "-n", "1").out == "0 a\n", "as kcat has it"
    assert barnabas("tail", "-f%o", filled, "--no-follow", "-n", "2").out == "12"
    nothing = barnabas("consume", filled, "--key", "c")
    assert (nothing.code, nothing.out) == (Exit.OK, "")
    assert nothing.err == "no records in this range; -f waits for new ones\n"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-F", "%x"), "%x is no field: %t topic"),
        (("-F", "%k", "-o", "json"), "cannot be combined"),
        (("--grep", "("), "--grep: "),
        (("--value-format", "avro"), "Avro needs --schema-registry URL"),
        (("--schema-registry", "http://a:1"), "needs --value-format avro or --key-format avro"),
        (("--key-format", "avro", "--schema-registry", "a:1"), "write http://HOST:PORT"),
    ],
)
def test_wrong_selections(barnabas: Call, topic: str, flags: tuple[str, ...], words: str) -> None:
    result = barnabas("consume", topic, *flags)
    assert (result.code, words in result.err, result.err.count("\n")) == (Exit.USAGE, True, 1)


def test_the_words_of_other_tools(barnabas: Call, filled: str) -> None:
    shown = barnabas("topic", "show", filled).out
    assert barnabas("topic", "describe", filled).out == shown
    assert barnabas("topic", "ls", filled, "-o", "name").out == f"{filled}\n"
    assert barnabas("topic", "rm", filled, "--dry-run").code == Exit.OK
    assert barnabas("help").out == barnabas("--help").out
    assert barnabas("help", "topic").out == barnabas("topic", "--help").out
    assert barnabas("help", "tail").out == barnabas("tail", "--help").out
    assert barnabas("version").out == barnabas("--version").out
    assert barnabas("topic", "destroy").code == Exit.USAGE


def test_a_slip_is_answered_with_the_nearest_name(barnabas: Call, filled: str, group: str) -> None:
    slip = filled[:-1]
    assert f"(did you mean {filled}?)" in barnabas("topic", "show", slip).err
    assert f"(did you mean {filled}?)" in barnabas("consume", slip).err
    assert barnabas("consume", filled, "-g", group).code == Exit.OK
    assert f"(did you mean {group}?)" in barnabas("group", "show", group[:-1]).err
    wrong = barnabas("topic", "alter", filled, "-c", "retention.mss=1", "--dry-run")
    assert "retention.mss is not a known option of topics (did you mean retention.ms?)" in wrong.err


def test_empty_results_say_so(barnabas: Call, filled: str) -> None:
    for arguments, words in (
        (("topic", "list", "no-such-*"), "no topic has such a name"),
        (("topic", "configs", filled), "all options are at their defaults"),
    ):
        result = barnabas(*arguments)
        assert result.code == Exit.OK
        assert words in result.err
        assert result.out == ""
