"""Every flag of Apache Kafka's tools is accepted.

tests/data/cli/flags has the flags of each tool of 4.1.0, and of each of its commands, from their usage texts.
The effect of a flag is tested with its tool.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import COMMANDS
from tests.cli.conftest import Call
from tools.generate_reference import parser_of

FLAGS = Path(__file__).parents[2] / "data" / "cli" / "flags"
# No tool has this flag, so that no command line with it has an effect.
UNKNOWN_FLAG = "--no-such-flag"
EVERYBODYS = ("-h", "--help", "--version")
LISTED = {path.stem: path.read_text("utf-8").split() for path in sorted(FLAGS.glob("*.txt"))}


def words_of(name: str) -> list[str]:
    """`features-upgrade` is the command upgrade of features."""
    tool = max((one for one in COMMANDS if name == one or name.startswith(f"{one}-")), key=len, default="")
    if not tool:
        pytest.xfail(f"{name} is not built yet")
    rest = name.removeprefix(tool).removeprefix("-")
    return [tool, rest] if rest else [tool]


@pytest.mark.parametrize("name", [name for name, flags in LISTED.items() if flags])
def test_every_flag_is_accepted(barnabas: Call, name: Any) -> None:
    words = words_of(name)
    unknown = []
    for flag in LISTED[name]:
        result = barnabas(*words, flag, UNKNOWN_FLAG)
        if f"unknown option {flag}" in result.err or f"unknown command {flag}" in result.err:
            unknown.append(flag)
    assert not unknown


def named_in_tests() -> str:
    """The text of all tests of this package and of the recorded sessions."""
    here = Path(__file__)
    files = [path for path in here.parents[1].rglob("*.py") if path != here]
    files += (FLAGS.parent / "sessions").glob("*.txt")
    return "\n".join(path.read_text("utf-8") for path in files)


def names_of(words: list[str], flag: str) -> list[str]:
    """A flag and its other names."""
    parser = parser_of(importlib.import_module(COMMANDS[words[0]][0]).run, words[1:])
    action = parser._option_string_actions.get(flag) if parser is not None else None
    return list(action.option_strings) if action is not None else [flag]


@pytest.mark.parametrize("name", [name for name, flags in LISTED.items() if flags])
def test_every_flag_is_named_in_a_test_or_a_session(name: Any) -> None:
    words, message = words_of(name), named_in_tests()
    unnamed = [
        flag
        for flag in LISTED[name]
        if flag not in EVERYBODYS
        and not any(
            re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", message) for one in names_of(words, flag)
        )
    ]
    assert not unnamed


@pytest.mark.parametrize("name", sorted({name for name in LISTED if name in COMMANDS}))
def test_a_flag_that_no_tool_has_is_refused(barnabas: Call, name: Any) -> None:
    result = barnabas(name, UNKNOWN_FLAG)
    assert result.code == 2
    assert result.err.count("\n") == 1
