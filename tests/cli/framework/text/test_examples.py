"""The examples in the help: every command has two, of commands and options that there are, and all fits into 80
columns."""

from __future__ import annotations

import re

import pytest

from barnabas.cli.framework.text.examples import EXAMPLES, commands_in
from barnabas.cli.main import COMMANDS
from tests.cli.conftest import Call

WIDTH = 80
# A command within a line of a shell.
CALL = re.compile(r"barnabas ([a-z0-9-]+)((?: (?:'[^']*'|\"[^\"]*\"|[^\s|;>)]+))*)")


def test_every_command_has_two_examples() -> None:
    assert set(EXAMPLES) == set(COMMANDS)
    assert [name for name, text in EXAMPLES.items() if len(commands_in(text)) < 2] == []


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_are_right_and_the_help_fits(
    name: str, barnabas: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    helps = [(name, barnabas(name, "--help").out)]
    subcommands = _subcommands(helps[0][1])
    helps += [(f"{name} {sub}", barnabas(name, sub, "--help").out) for sub in subcommands]
    for title, text in helps:
        assert [line for line in text.splitlines() if len(line) > WIDTH] == [], title
        assert "\nexamples:\n" in text, title
        assert text.count("\nexamples:\n") == 1, title
    for line in commands_in(EXAMPLES[name].replace("\\\n    ", "")):
        for command, arguments in CALL.findall(line):
            assert command in COMMANDS, line
            _check(command, arguments.split(), barnabas)


def _subcommands(text: str) -> list[str]:
    _, _, rows = text.partition("\ncommands:\n")
    return re.findall(r"^  ([\w-]+) ", rows.partition("\n\n")[0], re.MULTILINE)


def _check(command: str, words: list[str], barnabas: Call) -> None:
    text = barnabas(command, "--help").out
    subcommands = _subcommands(text)
    if subcommands:
        chosen = [word for word in words if word in subcommands]
        assert chosen, (command, words)
        text = barnabas(command, chosen[0], "--help").out
    known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w.-]*", text.partition("\nexamples:\n")[0]))
    for word in words:
        if re.match("--?[A-Za-z]", word):
            assert word in known, (command, word)
