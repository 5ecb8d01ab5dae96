"""Recorded sessions of Apache Kafka's tools, replayed with barnabas' tools and broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.differences import AbsentRule, Differences, ExitRule, TextRule
from tests.cli.sessions.recorded_cluster import RECORDED
from tests.cli.sessions.replay import SESSIONS, own_broker, replay, session
from tests.cli.sessions.sessions import read_session

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
    for path in (*SESSIONS.glob("*.txt"), *RECORDED.glob("*.txt")):
        for command in read_session(path).commands:
            output = "\n".join(command.output)
            assert command.exit is not None, f"{path.name}: not recorded yet: {command.line}"
            differences.is_absent(command.line)
            differences.exit_of_ours(command.line, output, command.exit)
            differences.output_of_ours(command.line, output)
    rules: list[ExitRule | TextRule | AbsentRule] = [
        *differences.exits,
        *differences.texts,
        *differences.absent,
    ]
    unmet = [rule.why for rule in rules if rule not in differences.met]
    assert not unmet
