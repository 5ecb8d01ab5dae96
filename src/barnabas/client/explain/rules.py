"""From facts to diagnoses: one rule per cause, each about one partition or the group.  Rules are pure.

A partition gets one diagnosis, of the first rule that matches: a deeper cause explains those above it.
Partitions with the same cause are combined.
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
# While one of these holds, no member reads, so the committed offsets are no sign of anything else.
_NO_READER = frozenset({Cause.DENIED, Cause.NO_GROUP, Cause.REBALANCING, Cause.NO_MEMBERS})
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
    """Return everything that keeps the group from reading, the deepest cause first; never empty."""
    diagnoses = [diagnosis for rule in _OF_GROUPS for diagnosis in rule(facts)]
    rules = _OF_PARTITIONS
    if not any(diagnosis.cause in _NO_READER for diagnosis in diagnoses):
        rules += _OF_READERS
    for partition in facts.partitions:
        first = _first(rules, facts, partition)
        if first is not None:
            diagnoses.append(first)
    if not diagnoses:
        diagnoses.append(group_rules.caught_up(facts))
    return tuple(sorted(_combine(diagnoses), key=lambda diagnosis: ORDER[diagnosis.cause]))


def _first(rules: Sequence[PartitionRule], facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    for rule in rules:
        diagnosis = rule(facts, partition)
        if diagnosis is not None:
            return diagnosis
    return None


def _combine(diagnoses: Iterable[Diagnosis]) -> Iterable[Diagnosis]:
    """Combine diagnoses of partitions that share cause and advice."""
    groups: dict[object, list[Diagnosis]] = {}
    for diagnosis in diagnoses:
        key = (diagnosis.cause, diagnosis.advice) if diagnosis.partitions else id(diagnosis)
        groups.setdefault(key, []).append(diagnosis)
    for same in groups.values():
        first = same[0]
        if len(same) == 1:
            yield first
            continue
        partitions = tuple(partition for diagnosis in same for partition in diagnosis.partitions)
        names = ", ".join(map(str, partitions))
        yield Diagnosis(
            first.cause,
            f"{partition_rules.COMBINED_SUMMARIES[first.cause]} ({len(partitions)} partitions: {names})",
            tuple(line for diagnosis in same for line in (diagnosis.summary, *diagnosis.evidence)),
            first.advice,
            partitions,
        )
