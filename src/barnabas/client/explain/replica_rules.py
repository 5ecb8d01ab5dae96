"""Why is this partition offline, closed to writes, under-replicated, or its reassignment stuck?

Facts and rules, both pure; collecting the facts belongs in `replica_gather`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from barnabas.client.model import TopicPartition

FASTER = (
    "if new records come faster than the throttle, it never completes: barnabas reassign-partitions "
    "--execute --additional --throttle sets another one"
)


MAKE_ROOM = (
    "make room on that disk: delete topics or records, keep less (retention.bytes, retention.ms), move "
    "replicas away (barnabas reassign-partitions), or enlarge it; writes are then accepted without a restart"
)


class ReplicaCause(StrEnum):
    """What is wrong with a partition, the worst first; a partition has at most one of the first four."""

    OFFLINE = "offline"
    BELOW_MIN_ISR = "below min.insync.replicas"
    DISK_FULL = "closed to writes: disk full"
    UNDER_REPLICATED = "under-replicated"
    REASSIGNING = "reassignment in progress"
    NOT_PREFERRED = "not led by the preferred replica"

    @property
    def is_problem(self) -> bool:
        return self not in (ReplicaCause.REASSIGNING, ReplicaCause.NOT_PREFERRED)


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One replica as its broker reports it; None where that is unknown."""

    broker_id: int
    is_alive: bool
    # Records that it lacks below the high watermark.
    lag: int | None = None
    # Its log directory, if that is offline or full.
    offline: str | None = None
    full: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition, its replicas and its reassignment."""

    partition: TopicPartition
    leader: int | None
    replicas: tuple[ReplicaFacts, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_leader: int | None = None
    min_isr: int = 1
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    # Bytes per second, if the reassignment is throttled.
    throttle: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaDiagnosis:
    """One cause, what shows it, and what to do."""

    cause: ReplicaCause
    partition: TopicPartition
    summary: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def diagnose_replicas(partitions: Iterable[PartitionReplicas]) -> list[ReplicaDiagnosis]:
    """Every finding, the worst causes first."""
    order = list(ReplicaCause)
    found = [diagnosis for partition in partitions for diagnosis in _diagnoses(partition)]
    return sorted(found, key=lambda diagnosis: (order.index(diagnosis.cause), diagnosis.partition))


def _diagnoses(facts: PartitionReplicas) -> list[ReplicaDiagnosis]:
    state = _offline(facts) or _below_min_isr(facts) or _disk_full(facts) or _under_replicated(facts)
    return [found for found in (state, _reassigning(facts), _not_preferred(facts)) if found is not None]


def _offline(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    if facts.leader is not None:
        return None
    advice: tuple[str, ...]
    if facts.elr:
        advice = (f"start broker {_any_of(facts.elr)}: each has every acknowledged record, and can lead",)
    elif facts.isr:
        advice = (f"start broker {_any_of(facts.isr)}: it was the last one in sync",)
    elif facts.last_known_leader is not None:
        last = facts.last_known_leader
        advice = (f"start broker {last}, which led it last: no other is known to have all records",)
    else:
        advice = ("start the brokers of its replicas",)
    if _offline_directories(facts):
        advice = (*advice, "repair the log directory that is offline, and restart its broker")
    lost = (
        "if they are lost for good, and only then, elect a replica that may lack records: barnabas "
        f"leader-election --election-type unclean --topic {facts.partition.topic} --partition "
        f"{facts.partition.partition}"
    )
    return ReplicaDiagnosis(
        ReplicaCause.OFFLINE,
        facts.partition,
        f"{facts.partition} has no leader: it cannot be read or written",
        _evidence(facts, {replica.broker_id for replica in facts.replicas}),
        (*advice, lost),
    )


def _below_min_isr(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    # A topic with fewer replicas than it needs can never be written with acks=all.
    if len(facts.isr) >= facts.min_isr:
        return None
    advice = _advice_for_missing(facts)
    if len(facts.replicas) < facts.min_isr:
        replicas = f"there are {len(facts.replicas)} replicas"
        advice = (f"min.insync.replicas is {facts.min_isr}, and {replicas}: reduce it, or add replicas",)
    return ReplicaDiagnosis(
        ReplicaCause.BELOW_MIN_ISR,
        facts.partition,
        f"{facts.partition}: {len(facts.isr)} in sync, {facts.min_isr} needed: writes with acks=all are "
        "refused, and readers see no new records",
        _evidence(facts, _missing(facts)),
        advice,
    )


def _disk_full(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    leader = next((replica for replica in facts.replicas if replica.broker_id == facts.leader), None)
    if leader is None or leader.full is None:
        return None
    return ReplicaDiagnosis(
        ReplicaCause.DISK_FULL,
        facts.partition,
        f"{facts.partition}: writes are refused, the disk of its leader, broker {leader.broker_id}, is full",
        _evidence(facts, {leader.broker_id} | _missing(facts)),
        (MAKE_ROOM,),
    )


def _under_replicated(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    missing = _missing(facts) - set(facts.adding)
    if not missing:
        return None
    wanted = len(facts.replicas) - len(facts.adding)
    return ReplicaDiagnosis(
        ReplicaCause.UNDER_REPLICATED,
        facts.partition,
        f"{facts.partition}: {len(facts.isr)} of {wanted} replicas are in sync",
        _evidence(facts, missing),
        _advice_for_missing(facts),
    )


def _reassigning(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    if not facts.adding and not facts.removing:
        return None
    waiting = set(facts.adding) - set(facts.isr)
    targets = [replica.broker_id for replica in facts.replicas if replica.broker_id not in facts.removing]
    behind = set(targets) - set(facts.isr)
    evidence = (
        f"to replicas {_list(targets)}; adding {_list(facts.adding)}, removing {_list(facts.removing)}",
        *_evidence(facts, waiting | behind),
    )
    advice: tuple[str, ...] = ("it completes when every target is in sync",)
    dead = [replica.broker_id for replica in facts.replicas if not replica.is_alive]
    if behind & set(dead):
        down = _any_of(sorted(behind & set(dead)))
        advice = (f"start broker {down}, or cancel it: barnabas reassign-partitions --cancel",)
    elif facts.throttle is not None:
        evidence = (*evidence, f"throttled to {facts.throttle} bytes per second")
        advice = (*advice, FASTER)
    return ReplicaDiagnosis(
        ReplicaCause.REASSIGNING,
        facts.partition,
        f"{facts.partition}: its reassignment waits for broker {_any_of(sorted(behind)) or 'none'}",
        evidence,
        advice,
    )


def _not_preferred(facts: PartitionReplicas) -> ReplicaDiagnosis | None:
    preferred = facts.replicas[0].broker_id
    if facts.leader in (None, preferred):
        return None
    is_possible = preferred in facts.isr
    return ReplicaDiagnosis(
        ReplicaCause.NOT_PREFERRED,
        facts.partition,
        f"{facts.partition}: broker {facts.leader} leads, broker {preferred} is preferred",
        () if is_possible else (f"broker {preferred} is not in sync",),
        ("barnabas leader-election --election-type preferred moves it back",) if is_possible else (),
    )


# Evidence and advice


def _missing(facts: PartitionReplicas) -> set[int]:
    return {replica.broker_id for replica in facts.replicas} - set(facts.isr)


def _offline_directories(facts: PartitionReplicas) -> list[ReplicaFacts]:
    return [replica for replica in facts.replicas if replica.offline is not None]


def _evidence(facts: PartitionReplicas, brokers: Iterable[int]) -> tuple[str, ...]:
    """What keeps each of these replicas from being in sync."""
    lines = []
    wanted = set(brokers)
    for replica in facts.replicas:
        if replica.broker_id not in wanted:
            continue
        name = f"broker {replica.broker_id}"
        if not replica.is_alive:
            lines.append(f"{name} is down")
        elif replica.offline is not None:
            lines.append(f"{name}: the log directory is offline ({replica.offline})")
        elif replica.full is not None:
            lines.append(f"{name}: the log directory is full and takes no writes ({replica.full})")
        elif replica.broker_id in facts.isr:
            lines.append(f"{name} is in sync")
        elif replica.lag:
            lines.append(f"{name} lacks {replica.lag} records")
        else:
            lines.append(f"{name} runs, and is not in sync")
    return tuple(lines)


def _advice_for_missing(facts: PartitionReplicas) -> tuple[str, ...]:
    advice = []
    missing = [replica for replica in facts.replicas if replica.broker_id not in facts.isr]
    dead = [replica.broker_id for replica in missing if not replica.is_alive]
    if dead:
        advice.append(f"start broker {_list(dead)}; if it is gone for good, barnabas drain {dead[0]}")
    if any(replica.is_alive and replica.offline is not None for replica in missing):
        advice.append("repair the log directory, and restart its broker")
    if any(replica.is_alive and replica.full is not None for replica in missing):
        advice.append(MAKE_ROOM)
    if any(replica.is_alive and replica.offline is None and replica.full is None for replica in missing):
        advice.append("a replica that catches up joins by itself; if its lag does not shrink, see its log")
    return tuple(advice)


def _list(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _any_of(brokers: Iterable[int]) -> str:
    return " or ".join(map(str, brokers))
