"""From facts to diagnoses: which cause, in which order, with what evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.client.explain import (
    Cause,
    Denial,
    Facts,
    Group,
    GroupEvent,
    Member,
    OpenTransaction,
    PartitionFacts,
    diagnose,
)
from barnabas.client.model import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(3)]
MEMBER = Member("m-1", "billing", "10.0.0.1", frozenset(ORDERS))
STABLE = Group("g", "Stable", "Classic", (MEMBER,))
# Caught up, with everything in order.
WELL = PartitionFacts(
    topic_partition=ORDERS[0],
    leader=1,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    min_isr=2,
    log_start=0,
    log_end=10,
    high_watermark=10,
    last_stable=10,
    committed_before=10,
    committed=10,
)


def causes(*partitions: PartitionFacts, group: Group = STABLE, **more: Any) -> list[Cause]:
    return [one.cause for one in diagnose(facts(*partitions, group=group, **more))]


def facts(*partitions: PartitionFacts, group: Group = STABLE, **more: Any) -> Facts:
    return Facts(group, partitions, watched_ms=1_000, now_ms=100_000, **more)


def at(offset: int, **changes: Any) -> PartitionFacts:
    return replace(WELL, committed_before=offset, committed=offset, **changes)


def test_nothing_is_wrong() -> None:
    assert causes(WELL) == [Cause.CAUGHT_UP]
    assert not Cause.CAUGHT_UP.is_stuck
    assert causes() == [Cause.CAUGHT_UP]


@pytest.mark.parametrize(
    ("partition", "cause"),
    [
        (replace(WELL, leader=None), Cause.NO_LEADER),
        (at(3, log_start=4), Cause.BELOW_LOG_START),
        (at(11), Cause.BEYOND_LOG_END),
        (at(8, isr=(1,), high_watermark=8, last_stable=8), Cause.HELD_BY_ISR),
        (at(7, last_stable=7), Cause.OPEN_TRANSACTION),
        (at(5, next_fault="no JSON"), Cause.UNDECODABLE),
        (replace(WELL, committed=None, committed_before=None), Cause.RESET_LATEST),
        (at(5), Cause.PAUSED),
        (at(5, is_paused=True), Cause.PAUSED),
        (replace(at(6), committed_before=5), Cause.BEHIND),
    ],
)
def test_each_cause(partition: PartitionFacts, cause: Cause) -> None:
    assert causes(partition) == [cause]


def test_a_bound_holds_back_only_a_group_that_has_reached_it() -> None:
    # There are unread records before the transaction, or before the watermark.
    assert causes(at(5, last_stable=7)) == [Cause.PAUSED]
    assert causes(at(5, isr=(1,), high_watermark=8, last_stable=8)) == [Cause.PAUSED]
    # And few replicas are in sync, but all is visible.
    assert causes(at(10, isr=(1,))) == [Cause.CAUGHT_UP]


def test_fewer_replicas_than_min_isr_are_enough_if_there_are_no_more() -> None:
    alone = at(8, replicas=(1,), isr=(1,), high_watermark=8, last_stable=8)
    assert causes(alone) == [Cause.CAUGHT_UP]


def test_a_record_that_was_passed_is_not_to_blame() -> None:
    assert causes(replace(at(6, next_fault="no JSON"), committed_before=5)) == [Cause.BEHIND]


def test_a_consumer_that_says_it_has_not_paused_is_believed() -> None:
    assert causes(at(5, is_paused=False)) == [Cause.BEHIND]


def test_a_single_observation_does_not_show_progress() -> None:
    assert [one.cause for one in diagnose(replace(facts(at(5)), watched_ms=0))] == [Cause.BEHIND]


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"])
def test_a_rebalance_explains_the_lack_of_progress(state: str) -> None:
    events = (GroupEvent(97_500, "member joined", "m-2", "a pod was started"),)
    found = diagnose(facts(at(5), group=replace(STABLE, state=state), events=events))
    assert [one.cause for one in found] == [Cause.REBALANCING]
    assert "2.5 s ago: member joined m-2 (a pod was started)" in found[0].evidence


def test_who_has_still_to_do_something_is_named() -> None:
    slow = replace(MEMBER, target=frozenset(ORDERS[:1]))
    (found,) = diagnose(facts(WELL, group=replace(STABLE, state="Reconciling", members=(slow,))))
    assert "billing at 10.0.0.1 (m-1) must still revoke 2 partitions" in found.evidence


def test_idle_members_are_reported_besides_other_causes() -> None:
    group = replace(STABLE, members=(MEMBER, Member("m-2", "spare", "10.0.0.2")))
    assert causes(at(7, last_stable=7), group=group) == [Cause.OPEN_TRANSACTION, Cause.IDLE_MEMBER]
    assert causes(WELL, group=group) == [Cause.IDLE_MEMBER]


def test_without_members_only_deeper_causes_are_reported() -> None:
    empty = Group("g", "Empty")
    assert causes(at(5), group=empty) == [Cause.NO_MEMBERS]
    assert causes(at(5, next_fault="no JSON"), group=empty) == [Cause.UNDECODABLE, Cause.NO_MEMBERS]


def test_what_is_denied_or_missing_comes_first() -> None:
    denial = Denial("topic orders", "READ", "User:bob", "no rule allows it")
    found = diagnose(facts(replace(WELL, leader=None), denials=(denial,), missing_topics=("ordres",)))
    assert [one.cause for one in found] == [Cause.DENIED, Cause.NO_TOPIC, Cause.NO_LEADER]
    assert "--allow-principal User:bob --operation READ --topic orders" in found[0].advice[0]
    # A group that may not be looked at is not a group that is not there.
    assert causes(group=Group("g", None), denials=(denial,)) == [Cause.DENIED]
    assert causes(group=Group("g", None)) == [Cause.NO_GROUP]


def test_partitions_with_the_same_cause_are_reported_together() -> None:
    (found,) = diagnose(
        facts(*(replace(WELL, topic_partition=topic_partition, leader=None) for topic_partition in ORDERS))
    )
    assert found.partitions == tuple(ORDERS)
    assert found.summary == "partitions have no leader (3 partitions: orders-0, orders-1, orders-2)"


def test_the_transaction_is_named() -> None:
    open_one = OpenTransaction(77, 7, "pay-1", "Ongoing", started_ms=95_000, timeout_ms=60_000)
    (found,) = diagnose(facts(at(7, last_stable=7, transactions=(open_one,))))
    expected = "producer 77 has a transaction open since offset 7, transactional.id pay-1, state Ongoing, "
    assert expected + "open for 5.0 s, time-out 60 s" in found.evidence
    assert "--transactional-id pay-1" in found.advice[0]


def test_every_diagnosis_says_what_to_do() -> None:
    for partition in (at(5), at(11), at(3, log_start=4), at(7, last_stable=7), replace(WELL, leader=None)):
        for one in diagnose(facts(partition)):
            assert one.summary
            assert one.evidence
            assert one.advice


@pytest.mark.trap
def test_lag_counts_no_deleted_records() -> None:
    """Trap 23: lag is max(HW − max(committed, log start), 0)."""
    assert at(5).lag == 5
    assert at(5, log_start=8).lag == 2
    assert at(5, log_start=None).lag == 5
    assert at(20).lag == 0
    assert at(5, log_start=8).readable == 2


@pytest.mark.parametrize(
    ("partition", "summary"),
    [
        (replace(WELL, leader=None), "orders-0 has no leader: it cannot be read or written"),
        (at(3, log_start=4), "orders-0: committed offset 3 is below the log start 4"),
        (at(11), "orders-0: committed offset 11 is beyond the log end 10"),
        (
            at(8, isr=(1,), high_watermark=8, last_stable=8),
            "orders-0: 2 written records are not visible yet: too few replicas are in sync",
        ),
        (
            at(7, last_stable=7),
            "orders-0: an open transaction hides 3 records from read_committed consumers",
        ),
        (at(5, next_fault="no JSON"), "orders-0: the next record, at offset 5, cannot be decoded"),
        (
            replace(WELL, committed=None, committed_before=None),
            "orders-0: nothing is committed, and 10 records were written before the consumer started",
        ),
        (
            at(5),
            (
                "orders-0: 5 records can be read, but billing at 10.0.0.1 reads or commits none: "
                "it is paused, busy with one, or does not commit"
            ),
        ),
        (replace(WELL, committed_before=3, committed=5), "orders-0: 5 records behind, and making progress"),
    ],
)
def test_a_summary_has_the_numbers(partition: PartitionFacts, summary: str) -> None:
    assert [one.summary for one in diagnose(facts(partition))] == [summary]


def test_replicas_that_are_missing_are_named() -> None:
    (found,) = diagnose(facts(at(8, isr=(2,), high_watermark=8, last_stable=8)))
    assert "in sync 2 of replicas 1,2,3, but min.insync.replicas=2" in found.evidence
    assert "high watermark 8, log end 10" in found.evidence
    assert found.advice[0].startswith("start the missing brokers (1,3), or ")


def test_of_a_transaction_only_what_is_known_is_reported() -> None:
    """The oldest one holds the others back; without a name it is to be found first."""
    bare = OpenTransaction(77, 6, None, None)
    named = OpenTransaction(78, 7, "pay-1", None)
    (found,) = diagnose(facts(at(6, last_stable=6, transactions=(named, bare))))
    assert found.evidence == (
        "last stable offset 6, high watermark 10",
        "producer 78 has a transaction open since offset 7, transactional.id pay-1",
        "producer 77 has a transaction open since offset 6",
    )
    assert "find-hanging" in found.advice[0]


def test_what_is_not_known_is_no_lag() -> None:
    assert replace(WELL, committed=None).lag is replace(WELL, committed=None).readable is None
    assert replace(WELL, high_watermark=None).lag is None
    assert replace(WELL, last_stable=None, high_watermark=None).readable is None
    assert at(4, last_stable=None, high_watermark=9).readable == 5
    assert at(4, last_stable=6, high_watermark=9).readable == 2
    assert replace(WELL, min_isr=None).wanted_isr is None
    assert replace(WELL, min_isr=5).wanted_isr == 3
