"""Tools with subcommands."""

from __future__ import annotations

import importlib
from argparse import Namespace
from collections.abc import Sequence

import pytest

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit, UsageError
from barnabas.cli.framework.subcommands import Subcommand, Tool, no_flags
from barnabas.cli.main import COMMANDS

CALLED: list[tuple[str, str | None]] = []


def _declare_place(parser: ArgumentParser) -> None:
    parser.add_argument("--place", metavar="PLACE", help="where")


def _note(parser: ArgumentParser, options: Namespace) -> int:
    CALLED.append((parser.prog, getattr(options, "place", None)))
    return Exit.OK


COMMANDS_OF_IT = {"look": Subcommand("look around", no_flags, _note), "go": Subcommand("go", no_flags, _note)}
WITH_FLAGS = Tool("barnabas thing", "A thing.", COMMANDS_OF_IT, _declare_place)
WITHOUT = Tool("barnabas thing", "A thing.", COMMANDS_OF_IT, make_parser=ArgumentParser)


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLED.clear()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--place", "here", "look"],
        ["look", "--place", "here"],
        ["-place", "here", "look"],
        ["look", "--place=here"],
    ],
)
def test_common_flags_precede_or_follow_the_subcommand(arguments: Sequence[str]) -> None:
    assert WITH_FLAGS.run(arguments) == Exit.OK
    assert CALLED == [("barnabas thing look", "here")]


def test_a_tool_without_common_flags_has_its_command_first() -> None:
    assert WITHOUT.run(["go"]) == Exit.OK
    assert CALLED == [("barnabas thing go", None)]
    with pytest.raises(UsageError, match="unknown option --place; see barnabas thing --help"):
        WITHOUT.run(["--place", "here", "go"])


@pytest.mark.parametrize("tool", [WITH_FLAGS, WITHOUT])
def test_an_unknown_command_is_reported_with_the_closest_match(tool: Tool) -> None:
    with pytest.raises(
        UsageError, match=r"unknown command lok \(did you mean look\?\); see barnabas thing --help"
    ):
        tool.run(["lok"])


@pytest.mark.parametrize("word", ["remove", "rm", "delete"])
def test_words_of_other_tools(word: str) -> None:
    """Whichever of them a tool has, the others mean it."""
    tool = Tool("barnabas thing", "A thing.", {"remove": Subcommand("remove it", no_flags, _note)})
    assert tool.run([word]) == Exit.OK
    assert CALLED == [("barnabas thing remove", None)]


def test_flags_without_a_command() -> None:
    with pytest.raises(UsageError, match="no command given, expected one of look, go"):
        WITH_FLAGS.run(["--place", "look"])


@pytest.mark.parametrize("tool", [WITH_FLAGS, WITHOUT])
def test_help_and_no_arguments(tool: Tool, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.run(["--help"]) == Exit.OK
    shown = capsys.readouterr().out
    assert "  look  look around\n  go    go\n" in shown
    assert ("options:" in shown) is (tool is WITH_FLAGS)
    assert tool.run([]) == Exit.USAGE
    assert capsys.readouterr().err == shown


def test_every_tool_with_subcommands_uses_the_framework() -> None:
    found = 0
    for module, _ in COMMANDS.values():
        rows = getattr(importlib.import_module(module), "SUBCOMMANDS", {})
        assert all(isinstance(one, Subcommand) for one in rows.values()), module
        found += bool(rows)
    assert found >= 9
