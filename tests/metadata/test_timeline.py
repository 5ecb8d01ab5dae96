"""What committed records mean as events, and how the timelines of several nodes become one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.ids import Uuid
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.metadata.timeline import (
    MAX_PARTITION_EVENTS,
    Event,
    Kind,
    merge,
    read_event,
    record_events,
)
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

TOPIC = Uuid(b"t" * 16)
TIME_MS = 1_700_000_000_000


def registration(broker_id: int, incarnation: bytes = b"a") -> records.RegisterBrokerRecord:
    return records.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=Uuid(incarnation * 16),
        broker_epoch=7,
        end_points=[],
        features=[],
        rack=None,
        fenced=True,
    )


def change(broker_id: int, *, fenced: int = 0, stopping: int = 0) -> records.BrokerRegistrationChangeRecord:
    return records.BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=7, fenced=fenced, in_controlled_shutdown=stopping
    )


def partition(number: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> records.PartitionRecord:
    return records.PartitionRecord(
        partition_id=number,
        topic_id=TOPIC,
        replicas=list(replicas),
        isr=list(replicas),
        removing_replicas=[],
        adding_replicas=[],
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def partition_change(
    *, leader: int | None = None, isr: list[int] | None = None, number: int = 0, recovery: int = -1
) -> records.PartitionChangeRecord:
    record = records.PartitionChangeRecord(
        partition_id=number, topic_id=TOPIC, isr=isr, leader_recovery_state=recovery
    )
    if leader is not None:
        record.leader = leader
    return record


def image_of(*applied: Message) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for record in applied:
        delta.replay(record)
    return delta.image


def cluster(*more: Message) -> Image:
    """Three unfenced brokers, and the topic t with a partition on all of them."""
    brokers = [registration(broker_id) for broker_id in (1, 2, 3)]
    unfenced = [change(broker_id, fenced=-1) for broker_id in (1, 2, 3)]
    return image_of(*brokers, *unfenced, records.TopicRecord(name="t", topic_id=TOPIC), partition(), *more)


def batch(*batch_records: Message, last_offset: int = 99, epoch: int = 4) -> MetadataBatch:
    return MetadataBatch(last_offset, epoch, TIME_MS, batch_records, 0)


def texts(image: Image, *batch_records: Message) -> list[tuple[str, str, str, str]]:
    events = record_events(image, batch(*batch_records))
    return [(event.kind.value, event.subject, event.detail, event.cause) for event in events]


def test_a_fenced_broker_loses_its_leaderships() -> None:
    """The records of one decision explain each other; each event has the offset of its record."""
    events = record_events(cluster(), batch(partition_change(leader=2, isr=[2, 3]), change(1, fenced=1)))
    leader, fenced = events
    assert (leader.kind, leader.subject, leader.cause) == (
        Kind.PARTITION_LEADER,
        "t-0",
        "broker 1 was fenced",
    )
    assert leader.detail == "leader 1 -> 2, leader epoch 1, ISR [2, 3]"
    assert (fenced.kind, fenced.subject) == (Kind.BROKER_FENCED, "broker 1")
    assert [(event.epoch, event.offset, event.time_ms) for event in events] == [
        (4, 98, TIME_MS),
        (4, 99, TIME_MS),
    ]


@pytest.mark.parametrize(
    ("has_expired", "cause"),
    [
        (True, "it sent no heartbeat within broker.session.timeout.ms"),
        (False, "it stops"),
        (None, "it stopped, or sent no heartbeat in time"),
    ],
)
def test_only_the_active_controller_knows_why_it_fences(has_expired: bool | None, cause: str) -> None:
    (event,) = record_events(cluster(), batch(change(1, fenced=1)), lambda _: has_expired)
    assert (event.cause, event.is_first_hand) == (cause, has_expired is not None)


def test_a_controlled_shutdown() -> None:
    """First its leaderships move, then it is fenced."""
    moved = texts(cluster(), change(1, stopping=1), partition_change(leader=2, isr=[2, 3]))
    assert [(kind, cause) for kind, _, _, cause in moved] == [
        ("broker-stopping", "it asked for a controlled shutdown"),
        ("partition-leader", "controlled shutdown of broker 1"),
    ]
    assert texts(cluster(change(1, stopping=1)), change(1, fenced=1)) == [
        ("broker-fenced", "broker 1", "", "its controlled shutdown is complete")
    ]


@pytest.mark.parametrize(
    ("changed", "detail", "cause"),
    [
        (partition_change(isr=[1, 2]), "ISR [1, 2, 3] -> [1, 2]", "broker 3 has fallen behind"),
        (partition_change(leader=2), "leader 1 -> 2, leader epoch 1, ISR [1, 2, 3]", "election"),
        (
            partition_change(leader=-1, isr=[]),
            "leader 1 -> none, leader epoch 1, ISR []",
            "no replica of the ISR is alive",
        ),
        (
            partition_change(leader=3, isr=[3], recovery=1),
            "leader 1 -> 3, leader epoch 1, ISR [3]",
            "unclean election: no replica that surely has all records is alive",
        ),
    ],
)
def test_changes_of_a_partition(changed: Message, detail: str, cause: str) -> None:
    ((_, subject, *said),) = texts(cluster(), changed)
    assert (subject, said) == ("t-0", [detail, cause])


def test_a_follower_and_the_preferred_leader_come_back() -> None:
    away = cluster(partition_change(leader=2, isr=[2, 3]))
    assert texts(away, partition_change(isr=[2, 3, 1])) == [
        ("partition-isr", "t-0", "ISR [2, 3] -> [2, 3, 1]", "broker 1 has caught up")
    ]
    back = cluster(partition_change(leader=2))
    assert texts(back, partition_change(leader=1))[0][3] == "election of the preferred leader"
    offline = cluster(change(1, fenced=1), partition_change(leader=-1, isr=[1]))
    unfenced = texts(offline, change(1, fenced=-1), partition_change(leader=1))
    assert unfenced[1][3] == "broker 1 is back"


def test_two_changes_of_a_partition_in_one_batch_follow_each_other() -> None:
    changes = texts(cluster(), partition_change(isr=[1, 2]), partition_change(isr=[1]))
    assert [detail for _, _, detail, _ in changes] == ["ISR [1, 2, 3] -> [1, 2]", "ISR [1, 2] -> [1]"]


def test_a_broker_that_comes_back_after_a_crash_leads_no_more() -> None:
    """It registers again before it was fenced."""
    moved = texts(cluster(), registration(1, b"b"), partition_change(leader=2, isr=[2, 3]))
    assert moved[1][3] == "broker 1 has restarted"


def test_registrations() -> None:
    assert texts(EMPTY_IMAGE, registration(1)) == [
        ("broker-registered", "broker 1", "broker epoch 7", "it is new")
    ]
    assert texts(cluster(), registration(1, b"b"))[0][3] == "it has restarted"
    assert texts(cluster(), registration(1))[0][3] == "it registered again"
    gone = records.UnregisterBrokerRecord(broker_id=1, broker_epoch=7)
    assert texts(cluster(), gone)[0][:2] == ("broker-unregistered", "broker 1")


def test_records_without_events() -> None:
    """Creation is no change, and what leaves leader and ISR alone neither."""
    assert texts(EMPTY_IMAGE, records.TopicRecord(name="t", topic_id=TOPIC), partition()) == []
    assert texts(cluster(), partition_change(isr=[3, 2, 1])) == []
    assert texts(cluster(), partition_change(isr=[1], number=7)) == []


def test_a_batch_about_very_many_partitions_is_summed_up() -> None:
    count = MAX_PARTITION_EVENTS + 10
    image = cluster(*(partition(number) for number in range(1, count)))
    changes = [partition_change(leader=2, isr=[2, 3], number=number) for number in range(count)]
    events = record_events(image, batch(*changes, change(1, fenced=1)))
    assert len(events) == MAX_PARTITION_EVENTS + 2
    assert events[-1].subject == "10 other partitions changed in the same batch"
    assert events[-2].kind is Kind.BROKER_FENCED


# Several nodes ----------------------------------------------------------------------------------------------


def event(
    time_ms: int,
    kind: Kind = Kind.BROKER_FENCED,
    *,
    epoch: int | None = None,
    offset: int | None = None,
    node: int = 1,
    subject: str = "broker 9",
) -> Event:
    return Event(time_ms, kind, subject, epoch=epoch, offset=offset, nodes=(node,))


def test_an_event_that_several_nodes_have_seen_is_one() -> None:
    heard = event(5, epoch=2, offset=7)
    decided = replace(event(5, epoch=2, offset=7, node=3), cause="it stops", is_first_hand=True)
    (merged,) = merge([[heard], [decided], [replace(heard, nodes=(2,))]])
    assert (merged.nodes, merged.cause) == ((1, 2, 3), "it stops")


def test_the_order_of_the_log_beats_the_clocks() -> None:
    """The controller of epoch 3 has a clock that is behind."""
    earlier = [event(1_000, epoch=2, offset=7), event(1_001, epoch=2, offset=8)]
    elected = event(900, Kind.LEADER_ELECTED, epoch=3, node=2, subject="controller 2")
    later = event(901, epoch=3, offset=10, node=2)
    assert merge([[later, elected], earlier]) == [*earlier, elected, later]


def test_an_epoch_begins_with_its_election_and_ends_with_a_resignation() -> None:
    resigned = event(50, Kind.LEADER_RESIGNED, epoch=2)
    record = event(50, epoch=2, offset=7)
    elected = event(50, Kind.LEADER_ELECTED, epoch=2)
    stood = event(50, Kind.ELECTION_STARTED, epoch=2)
    assert merge([[resigned, record, elected, stood]]) == [stood, elected, record, resigned]


def test_candidates_of_one_epoch_are_two_events() -> None:
    stood = [event(5, Kind.ELECTION_STARTED, epoch=2, node=node) for node in (1, 2)]
    assert len(merge([[stood[0]], [stood[1]]])) == 2


def test_events_without_an_epoch_are_placed_by_their_time() -> None:
    started = event(20, Kind.NODE_STARTED, node=2)
    before, after = event(10, epoch=1, offset=1), event(30, epoch=1, offset=2)
    assert merge([[before, after], [started]]) == [before, started, after]


def test_an_event_is_one_line() -> None:
    written = event(5, epoch=2, offset=7, subject="a\nb")
    assert written.line().count(b"\n") == 1
    assert read_event(written.line()) == written


@pytest.mark.parametrize(
    "line", [b"", b'{"time_ms": 1', b'{"kind": "from the future", "nodes": []}', b"[]", b"7"]
)
def test_a_line_that_is_no_event_is_skipped(line: bytes) -> None:
    assert read_event(line) is None


def test_a_session_with_zookeeper_that_ended_explains_what_follows() -> None:
    """The broker is fenced first; its partitions change in later batches, and then it is unregistered."""

    def told(image: Image, *batch_records: Message) -> list[tuple[str, str, str]]:
        events = record_events(image, batch(*batch_records), on_zookeeper=True)
        return [(event.kind.value, event.subject, event.cause) for event in events]

    dead = cluster(change(1, fenced=1))
    ended = "its session with ZooKeeper has ended"
    assert told(cluster(), change(1, fenced=1)) == [("broker-fenced", "broker 1", ended)]
    assert told(dead, partition_change(leader=2, isr=[2, 3])) == [
        ("partition-leader", "t-0", "the session of broker 1 has ended")
    ]
    assert told(dead, records.UnregisterBrokerRecord(broker_id=1, broker_epoch=1)) == []
    assert told(EMPTY_IMAGE, registration(1)) == [
        ("broker-registered", "broker 1", "it has a session with ZooKeeper")
    ]
