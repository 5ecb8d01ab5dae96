"""The follower's fetch session: which partitions a request names."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.replica.fetching.fetch_session import FollowerSession
from tests.replica.fetching.world import TOPIC_ID, replicas, settle


def test_a_session_begins_with_all_partitions_and_then_names_changes() -> None:
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    first = follower.request()
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert [one.partitions[0].fetch_offset for one in first.topics] == [0]
    follower.take(leader.serve(first))
    # Its high watermark has not changed, so there is nothing to say.
    second = follower.request()
    assert second.session_id == follower.fetcher.session.id != 0
    assert (second.session_epoch, second.topics, second.forgotten_topics_data) == (1, [], [])
    leader.append(3)
    follower.take(leader.serve(second))
    third = follower.request()
    assert third.session_epoch == 2
    assert [one.partitions[0].fetch_offset for one in third.topics] == [3]


def test_a_removed_partition_is_forgotten() -> None:
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    follower.fetch_from(leader)
    follower.fetcher.remove((TOPIC_ID, 0))
    request = follower.request()
    assert request.topics == []
    assert [(one.topic_id, one.partitions) for one in request.forgotten_topics_data] == [(TOPIC_ID, [0])]
    assert request.max_wait_ms == 0
    # The leader drops a session without partitions; nothing is left to request.
    follower.take(leader.serve(request))
    assert follower.fetcher.next_request(follower.now_ns) is None
    assert follower.fetcher.wake_ns(follower.now_ns) is None


def test_a_session_that_the_leader_has_lost_begins_again() -> None:
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    follower.fetch_from(leader)
    request = follower.request()
    leader.append(2)
    leader.sessions = type(leader)(1).sessions  # the leader has restarted
    assert follower.take(leader.serve(request)) == []
    again = follower.request()
    assert (again.session_id, again.session_epoch) == (0, 0)
    assert len(again.topics) == 1
    follower.take(leader.serve(again))
    assert follower.content == leader.content


def test_a_wrong_session_epoch_closes_the_session() -> None:
    session = FollowerSession()
    session.accepted(7)
    session.refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert (session.id, session.epoch, session.is_full) == (7, 0, True)
    session.accepted(8)
    session.refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (session.id, session.epoch) == (0, 0)


def test_without_a_session_every_request_is_full() -> None:
    """The leader's cache is full."""
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    leader.sessions._slots = 0
    follower.fetch_from(leader)
    leader.append(1)
    follower.fetch_from(leader)
    request = follower.request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert request.topics[0].partitions[0].fetch_offset == 1


def test_after_a_broken_connection_the_session_is_unknown() -> None:
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    follower.fetch_from(leader)
    follower.request()
    delays = [follower.fetcher.failed(follower.now_ns) for _ in range(9)]
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]
    assert follower.fetcher.next_request(follower.now_ns) is None
    assert follower.fetcher.wake_ns(follower.now_ns) == follower.now_ns + 1_000_000_000
    follower.fetcher.retry_now()
    assert follower.request().session_epoch == 0


def test_a_partition_that_starts_again_in_a_session_gets_the_high_watermark_again() -> None:
    """The leader leaves out what it has sent before; the follower may not have applied it."""
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    leader.append(2)
    settle(leader, follower)
    request = follower.request()
    follower.log.high_watermark = 0
    leader.lead(1)
    follower.take(leader.serve(request))  # fenced
    follower.follow(1, 1)
    for _ in range(3):
        follower.fetch_from(leader)
    assert follower.fetcher.session.epoch > 1
    assert follower.log.high_watermark == 2
