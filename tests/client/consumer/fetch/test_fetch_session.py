"""A fetch session (KIP-227): what each request carries, and when the session starts over."""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.client.consumer.fetch.fetch_session import FetchPart, FetchSession
from barnabas.client.model import TopicPartition

LAST_EPOCH = 2**31 - 1
FIRST, SECOND, THIRD = (Uuid(bytes([number]) * 16) for number in (1, 2, 3))


def part(topic_id: Uuid = FIRST, offset: int = 0) -> FetchPart:
    return FetchPart(topic_id, offset, -1, 1000, 5)


def sent(session: FetchSession, wanted: dict[TopicPartition, FetchPart]) -> tuple[list[object], list[object]]:
    """The partitions a request names, with their offsets, and those it forgets."""
    topics, forgotten = session.next(wanted)
    return (
        [
            (topic.topic, topic.topic_id, each.partition, each.fetch_offset)
            for topic in topics
            for each in topic.partitions
        ],
        [(topic.topic, topic.topic_id, number) for topic in forgotten for number in topic.partitions],
    )


def test_a_session_carries_only_changes() -> None:
    session = FetchSession()
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    everything = [("t", FIRST, 0, 0), ("t", FIRST, 1, 0)]
    assert sent(session, {zero: part(), one: part()}) == (everything, [])
    session.accepted(77)
    assert (session.id, session.epoch) == (77, 1)
    assert sent(session, {zero: part(), one: part(offset=9)}) == ([("t", FIRST, 1, 9)], [])
    session.accepted(77)
    assert session.epoch == 2
    assert sent(session, {zero: part()}) == ([], [("t", FIRST, 1)])


def test_a_topic_created_again_is_forgotten_and_added() -> None:
    session = FetchSession()
    zero, other = TopicPartition("t", 0), TopicPartition("u", 0)
    unchanged = part(THIRD)
    sent(session, {zero: part(), other: unchanged})
    session.accepted(77)
    assert session.name_of(FIRST) == "t"
    assert sent(session, {zero: part(SECOND), other: unchanged}) == ([("t", SECOND, 0, 0)], [("t", FIRST, 0)])
    assert (session.name_of(FIRST), session.name_of(SECOND)) == (None, "t")


def test_the_epoch_after_the_last_one_is_the_second() -> None:
    """An epoch has 32 bits, and 0 would start a new session."""
    session = FetchSession()
    session.accepted(77)
    session.epoch = LAST_EPOCH - 1
    session.accepted(77)
    assert session.epoch == LAST_EPOCH
    session.accepted(77)
    assert session.epoch == 1


def test_a_broker_without_a_session_gets_everything_each_time() -> None:
    session = FetchSession()
    zero = TopicPartition("t", 0)
    for _ in range(2):
        assert sent(session, {zero: part(ZERO_UUID)}) == ([("t", ZERO_UUID, 0, 0)], [])
        session.accepted(0)
        assert (session.id, session.epoch) == (0, 0)


def test_after_a_reset_the_next_request_names_everything() -> None:
    session = FetchSession()
    zero = TopicPartition("t", 0)
    sent(session, {zero: part()})
    session.accepted(77)
    session.reset()
    assert (session.id, session.epoch) == (0, 0)
    assert sent(session, {zero: part()}) == ([("t", FIRST, 0, 0)], [])
