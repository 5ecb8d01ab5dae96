"""Anomalies of consumers: records that they were not given, or were given again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from barnabas.testing.histories.anomalies import Anomaly, Report
from barnabas.testing.histories.events import (
    Assigned,
    FinalPosition,
    Isolation,
    Partition,
    Polled,
    partition_name,
)
from barnabas.testing.histories.facts import Facts

# How many of the records that a consumer missed are named.
MAX_NAMED = 3


def check_polls(facts: Facts, report: Report) -> None:
    for consumer in facts.consumers:
        _check_consumer(facts, report, consumer)
    for position in facts.final_positions:
        if not position.is_transactional:
            _check_group(facts, report, position)


def _check_consumer(facts: Facts, report: Report, consumer: str) -> None:
    # The next offset that it is to be given; absent if it may start anywhere.
    expected: dict[Partition, int] = {}
    for _, event in facts.consumers[consumer]:
        if isinstance(event, Assigned):
            expected = {
                partition: position for partition, position in event.positions.items() if position is not None
            }
            continue
        for partition, offset, value in event.records:
            position = expected.get(partition)
            if position is not None:
                if offset < position:
                    report.add(
                        Anomaly.NON_MONOTONIC_POLL,
                        f"{consumer} was given {value} at offset {offset} of {partition_name(partition)}, "
                        f"though its position was {position}",
                    )
                else:
                    _check_skip(facts, report, event, partition, position, offset)
            expected[partition] = offset + 1


def _check_skip(
    facts: Facts, report: Report, poll: Polled, partition: Partition, position: int, offset: int
) -> None:
    if position == offset:
        return
    skipped = facts.view(partition, poll.isolation).between(position, offset)
    if skipped:
        report.add(
            Anomaly.POLL_SKIP,
            f"{poll.consumer} was given offset {offset} of {partition_name(partition)} at position "
            f"{position}, and not {_named(skipped)}",
        )


def _check_group(facts: Facts, report: Report, position: FinalPosition) -> None:
    """What a group has committed, one of its members was given: at least once."""
    given: set[str] = set()
    isolations: dict[Isolation, int] = defaultdict(int)
    for _, poll in facts.polls():
        if poll.group == position.group:
            isolations[poll.isolation] += 1
            given.update(value for partition, _, value in poll.records if partition == position.partition)
    # A group whose members differ is owed what read_committed consumers see.
    isolation = Isolation.UNCOMMITTED if set(isolations) == {Isolation.UNCOMMITTED} else Isolation.COMMITTED
    view = facts.view(position.partition, isolation)
    missed = [record for record in view.between(0, position.offset) if record[1] not in given]
    if missed:
        report.add(
            Anomaly.POLL_SKIP,
            f"group {position.group} has committed offset {position.offset} of "
            f"{partition_name(position.partition)}, and none of its members was given {_named(missed)}",
        )


def _named(records: Sequence[tuple[int, str]]) -> str:
    named = ", ".join(f"{value} at {offset}" for offset, value in records[:MAX_NAMED])
    return f"{named} and {len(records) - MAX_NAMED} more" if len(records) > MAX_NAMED else named
