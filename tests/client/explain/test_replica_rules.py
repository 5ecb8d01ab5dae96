"""What is wrong with a partition: rules over plain facts."""

from __future__ import annotations

from dataclasses import replace

from barnabas.client.explain.replica_rules import (
    FASTER,
    MAKE_ROOM,
    PartitionReplicas,
    ReplicaCause,
    ReplicaDiagnosis,
    ReplicaFacts,
    diagnose_replicas,
)
from barnabas.client.model import TopicPartition

PARTITION = TopicPartition("orders", 0)
HEALTHY = PartitionReplicas(
    PARTITION,
    leader=1,
    replicas=tuple(ReplicaFacts(broker_id, True, lag=0) for broker_id in (1, 2, 3)),
    isr=(1, 2, 3),
    min_isr=2,
)


def with_replica(facts: PartitionReplicas, broker_id: int, **changes: object) -> PartitionReplicas:
    replicas = tuple(
        replace(replica, **changes) if replica.broker_id == broker_id else replica  # type: ignore[arg-type]
        for replica in facts.replicas
    )
    return replace(facts, replicas=replicas)


def only(facts: PartitionReplicas) -> ReplicaDiagnosis:
    (diagnosis,) = diagnose_replicas([facts])
    return diagnosis


def test_a_healthy_partition_has_no_findings() -> None:
    assert diagnose_replicas([HEALTHY]) == []


def test_a_replica_of_a_broker_that_is_down() -> None:
    found = only(replace(with_replica(HEALTHY, 3, is_alive=False), isr=(1, 2)))
    assert found.cause is ReplicaCause.UNDER_REPLICATED
    assert found.summary == "orders-0: 2 of 3 replicas are in sync"
    assert found.evidence == ("broker 3 is down",)
    assert found.advice == ("start broker 3; if it is gone for good, barnabas drain 3",)


def test_a_replica_that_is_behind_or_has_lost_its_directory() -> None:
    behind = only(replace(with_replica(HEALTHY, 2, lag=70), isr=(1, 3)))
    assert behind.evidence == ("broker 2 lacks 70 records",)
    assert "joins by itself" in behind.advice[0]
    offline = only(replace(with_replica(HEALTHY, 2, lag=None, offline="/data/b"), isr=(1, 3)))
    assert offline.evidence == ("broker 2: the log directory is offline (/data/b)",)
    assert offline.advice == ("repair the log directory, and restart its broker",)
    silent = only(replace(HEALTHY, isr=(1, 3)))
    assert silent.evidence == ("broker 2 runs, and is not in sync",)


def test_a_full_disk_of_the_leader_and_of_a_follower() -> None:
    leader = only(with_replica(HEALTHY, 1, full="/data/a"))
    assert leader.cause is ReplicaCause.DISK_FULL
    assert leader.cause.is_problem
    assert leader.summary == "orders-0: writes are refused, the disk of its leader, broker 1, is full"
    assert leader.evidence == ("broker 1: the log directory is full and takes no writes (/data/a)",)
    assert leader.advice == (MAKE_ROOM,)
    follower = only(replace(with_replica(HEALTHY, 2, lag=70, full="/data/b"), isr=(1, 3)))
    assert follower.cause is ReplicaCause.UNDER_REPLICATED
    assert follower.evidence == ("broker 2: the log directory is full and takes no writes (/data/b)",)
    assert follower.advice == (MAKE_ROOM,)


def test_too_few_are_in_sync() -> None:
    facts = replace(with_replica(with_replica(HEALTHY, 2, is_alive=False), 3, lag=5), isr=(1,))
    found = only(facts)
    assert found.cause is ReplicaCause.BELOW_MIN_ISR
    assert "1 in sync, 2 needed: writes with acks=all are refused" in found.summary
    assert found.evidence == ("broker 2 is down", "broker 3 lacks 5 records")
    assert len(found.advice) == 2
    never = only(replace(HEALTHY, min_isr=4))
    assert never.advice == ("min.insync.replicas is 4, and there are 3 replicas: reduce it, or add replicas",)


def test_an_offline_partition_names_the_brokers_that_can_lead() -> None:
    """KIP-966: those that have every acknowledged record, else the last leader."""
    dead = replace(
        HEALTHY,
        leader=None,
        isr=(),
        elr=(2, 3),
        replicas=tuple(ReplicaFacts(broker_id, False) for broker_id in (1, 2, 3)),
    )
    found = only(dead)
    assert found.cause is ReplicaCause.OFFLINE
    assert found.advice[0] == "start broker 2 or 3: each has every acknowledged record, and can lead"
    assert "--election-type unclean --topic orders --partition 0" in found.advice[-1]
    assert only(replace(dead, elr=(), isr=(3,))).advice[0].startswith("start broker 3: it was the last one")
    assert "start broker 1, which led it last" in only(replace(dead, elr=(), last_known_leader=1)).advice[0]
    assert only(replace(dead, elr=())).advice[0] == "start the brokers of its replicas"
    failed = with_replica(replace(dead, elr=(1,)), 1, is_alive=True, offline="/data")
    assert "repair the log directory" in only(failed).advice[1]


def test_a_reassignment_that_waits_for_a_broker() -> None:
    four = ReplicaFacts(4, True, lag=900)
    moving = replace(HEALTHY, replicas=(*HEALTHY.replicas, four), adding=(4,), removing=(3,))
    found = only(moving)
    assert found.cause is ReplicaCause.REASSIGNING
    assert not found.cause.is_problem
    assert found.summary == "orders-0: its reassignment waits for broker 4"
    assert found.evidence == ("to replicas 1,2,4; adding 4, removing 3", "broker 4 lacks 900 records")
    assert only(replace(moving, throttle=1_000)).evidence[-1] == "throttled to 1000 bytes per second"
    assert only(replace(moving, throttle=1_000)).advice[-1] == FASTER
    down = only(with_replica(moving, 4, is_alive=False))
    assert down.advice == ("start broker 4, or cancel it: barnabas reassign-partitions --cancel",)


def test_another_leader_than_the_preferred_one() -> None:
    found = only(replace(HEALTHY, leader=2))
    assert found.cause is ReplicaCause.NOT_PREFERRED
    assert found.advice == ("barnabas leader-election --election-type preferred moves it back",)
    both = diagnose_replicas([replace(HEALTHY, leader=2, isr=(2, 3)), HEALTHY])
    assert [diagnosis.cause for diagnosis in both] == [
        ReplicaCause.UNDER_REPLICATED,
        ReplicaCause.NOT_PREFERRED,
    ]
    assert both[1].advice == ()
