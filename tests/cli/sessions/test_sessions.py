"""Recorded sessions of Apache Kafka's tools, replayed with barnabas' tools and broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.differences import Differences, ExitRule, TextRule
from tests.cli.sessions.replay import SESSIONS, own_broker, replay, session

NAMES = sorted(path.stem for path in SESSIONS.glob("*.txt"))


@pytest.fixture(scope="module")
def differences() -> Differences:
    return Differences()


@pytest.mark.parametrize("name", NAMES)
def test_the_tools_print_the_recorded_output(name: str, differences: Differences) -> None:
    recorded = session(name)
    with quick_folder() as folder, own_broker(Path(folder), recorded.settings) as places:
        replay(recorded, places, differences)


def test_every_listed_difference_still_occurs() -> None:
    differences = Differences()
    for name in NAMES:
        for command in session(name).commands:
            output = "\n".join(command.output)
            assert command.exit is not None, f"{name}: not recorded yet: {command.line}"
            differences.exit_of_ours(command.line, output, command.exit)
            differences.output_of_ours(command.line, output)
    rules: list[ExitRule | TextRule] = [*differences.exits, *differences.texts]
    unmet = [rule.why for rule in rules if rule not in differences.met]
    assert not unmet
