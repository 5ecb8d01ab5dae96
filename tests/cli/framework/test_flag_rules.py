"""Which flags can be combined, with Apache Kafka's messages."""

from __future__ import annotations

import pytest

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import UsageError
from barnabas.cli.framework.flag_rules import FlagRules


def rules(*arguments: str) -> FlagRules:
    parser = KafkaParser("barnabas thing", "A thing.")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--none", action="store_true")
    parser.add_argument("--name")
    parser.add_argument("--part", action="append")
    return FlagRules(parser, parser.parse(arguments))


def test_given_flags_are_detected() -> None:
    given = rules("--all", "--part", "x")
    assert [given.has(flag) for flag in ("--all", "--none", "--name", "--part")] == [True, False, False, True]


def test_exactly_one() -> None:
    assert rules("--all").exactly_one(("--all", "--none"), "one!") == "--all"
    for wrong in (["--name", "x"], ["--all", "--none"]):
        with pytest.raises(UsageError, match=r"^one! \(see barnabas thing --help\)$"):
            rules(*wrong).exactly_one(("--all", "--none"), "one!")


def test_required() -> None:
    with pytest.raises(UsageError, match=r'^Missing required argument "\[name\]"'):
        rules("--all").require("--all", "--name")


def test_forbidden() -> None:
    rules("--none").forbid("--all", ["--none"])
    with pytest.raises(UsageError, match=r'^Option "\[all\]" can\'t be used with option "\[part\]"'):
        rules("--all", "--part", "x").forbid("--all", ["--none", "--part"])
