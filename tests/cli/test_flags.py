"""Every flag of Apache Kafka's tools is taken or refused with a reason: none is unknown.

tests/data/cli/flags has the flags of each tool of 4.1.0, and of each of its commands, from their usage texts.
What a flag does is tested with its tool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.cli.arguments import ArgumentParser
from barnabas.cli.main import COMMANDS
from barnabas.cli.refused import MOST, REFUSED, reason_for

FLAGS = Path(__file__).parents[1] / "data" / "cli" / "flags"
# No tool has it, so that no command line with it does anything.
NOBODYS = "--nobody-has-this-flag"
LISTED = {path.stem: path.read_text().split() for path in sorted(FLAGS.glob("*.txt"))}


def words_of(name: str) -> list[str]:
    """`features-upgrade` is the command upgrade of features."""
    tool = max((one for one in COMMANDS if name == one or name.startswith(f"{one}-")), key=len, default="")
    if not tool:
        pytest.xfail(f"{name} is not built yet")
    rest = name.removeprefix(tool).removeprefix("-")
    return [tool, rest] if rest else [tool]


@pytest.mark.parametrize("name", [name for name, flags in LISTED.items() if flags])
def test_every_flag_is_taken_or_refused_with_a_reason(barnabas, name):
    words = words_of(name)
    unknown = []
    for flag in LISTED[name]:
        ended = barnabas(*words, flag, NOBODYS)
        if f"unknown option {flag}" in ended.err or f"unknown command {flag}" in ended.err:
            unknown.append(flag)
    assert not unknown


@pytest.mark.parametrize("name", sorted({name for name in LISTED if name in COMMANDS}))
def test_a_flag_that_no_tool_has_is_refused(barnabas, name):
    ended = barnabas(name, NOBODYS)
    assert ended.code == 2
    assert ended.err.count("\n") == 1


def test_the_list_of_refused_flags_is_short_and_about_flags_that_exist():
    assert len(REFUSED) <= MOST
    for (command, flag), reason in REFUSED.items():
        assert flag in LISTED[command.replace(" ", "-")], (command, flag)
        assert len(reason) > 10


def test_a_refused_flag_is_told_with_its_reason(monkeypatch):
    monkeypatch.setitem(REFUSED, ("thing", "--odd"), "it does nothing here")
    with pytest.raises(Exception, match="--odd is not taken: it does nothing here"):
        ArgumentParser("barnabas thing", "A thing.").parse(["--odd"])
    assert reason_for("barnabas thing", "--other") is None
