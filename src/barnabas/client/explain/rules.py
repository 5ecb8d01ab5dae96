"""From facts to diagnoses.

What lives here: one function a cause, each of which looks at one partition or at the group.  What may not:
asking anybody anything.

A partition has one diagnosis, the first that fits: what lies deeper explains what lies above it.
Partitions with the same cause are told together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.client.explain import group_rules, partition_rules
from barnabas.client.explain.diagnosis import ORDER, Cause, Diagnosis
from barnabas.client.explain.facts import Facts, PartitionFacts

PartitionRule = Callable[[Facts, PartitionFacts], Diagnosis | None]
GroupRule = Callable[[Facts], Iterable[Diagnosis]]

_OF_GROUPS: tuple[GroupRule, ...] = (
    group_rules.denied,
    group_rules.no_group,
    group_rules.no_topic,
    group_rules.rebalancing,
    group_rules.no_members,
    group_rules.idle_members,
)
# While one of these holds, nobody reads, and where the group stands is no sign of anything else.
_NOBODY_READS = frozenset({Cause.DENIED, Cause.NO_GROUP, Cause.REBALANCING, Cause.NO_MEMBERS})
_OF_PARTITIONS: tuple[PartitionRule, ...] = (
    partition_rules.no_leader,
    partition_rules.below_log_start,
    partition_rules.beyond_log_end,
    partition_rules.held_by_isr,
    partition_rules.open_transaction,
    partition_rules.undecodable,
)
_OF_READERS: tuple[PartitionRule, ...] = (
    partition_rules.nothing_committed,
    partition_rules.paused,
    partition_rules.behind,
)


def diagnose(facts: Facts) -> tuple[Diagnosis, ...]:
    """Everything that keeps the group from reading, the deepest cause first; never empty."""
    found = [diagnosis for rule in _OF_GROUPS for diagnosis in rule(facts)]
    rules = _OF_PARTITIONS
    if not any(one.cause in _NOBODY_READS for one in found):
        rules += _OF_READERS
    for partition in facts.partitions:
        first = _first(rules, facts, partition)
        if first is not None:
            found.append(first)
    if not found:
        found.append(group_rules.caught_up(facts))
    return tuple(sorted(_together(found), key=lambda one: ORDER[one.cause]))


def _first(rules: Sequence[PartitionRule], facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    for rule in rules:
        diagnosis = rule(facts, partition)
        if diagnosis is not None:
            return diagnosis
    return None


def _together(found: Iterable[Diagnosis]) -> Iterable[Diagnosis]:
    """Partitions in which the same is to be done about the same cause are one diagnosis."""
    groups: dict[object, list[Diagnosis]] = {}
    for one in found:
        key = (one.cause, one.advice) if one.partitions else id(one)
        groups.setdefault(key, []).append(one)
    for same in groups.values():
        first = same[0]
        if len(same) == 1:
            yield first
            continue
        partitions = tuple(where for one in same for where in one.partitions)
        names = ", ".join(map(str, partitions))
        yield Diagnosis(
            first.cause,
            f"{partition_rules.TOGETHER[first.cause]} ({len(partitions)} partitions: {names})",
            tuple(line for one in same for line in (one.summary, *one.evidence)),
            first.advice,
            partitions,
        )
