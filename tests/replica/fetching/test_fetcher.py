"""What a fetcher does with a response, and with errors of the leader."""

from __future__ import annotations

import logging

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.replica.fetching.fetch_state import Phase
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import NOTHING
from barnabas.replica.fetching.requests import identified
from barnabas.replica.partition import Partition
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from tests.replica.fetching.world import (
    MS,
    OPTIONS,
    OTHER_ID,
    TOPIC,
    TOPIC_ID,
    Replica,
    answer,
    elect,
    replicas,
    response_of,
    rules,
    settle,
    state_of,
)
from tests.storage.logs import SMALL, batch, open_log, read_all


def two(epoch: int = 0) -> tuple[Replica, Replica]:
    nodes = replicas(2, epoch=epoch)
    return nodes[1], nodes[2]


def test_a_follower_takes_over_records_and_watermarks() -> None:
    # M-D2
    nodes = replicas(3)
    leader, second, third = nodes.values()
    leader.append(3, 2)
    assert second.fetch_from(leader)[0].bytes_appended == len(leader.content)
    assert second.content == leader.content
    assert second.log.high_watermark == 0
    third.fetch_from(leader)
    second.fetch_from(leader)
    third.fetch_from(leader)
    assert leader.log.high_watermark == 5
    (outcome,) = second.fetch_from(leader)
    assert outcome.high_watermark_advanced
    assert second.log.high_watermark == 5
    assert second.state.lag == 0


def test_a_request_says_where_the_follower_is() -> None:
    leader, follower = two(epoch=4)
    leader.append(2)
    follower.fetch_from(leader)
    (topic,) = follower.request().topics
    (partition,) = topic.partitions
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.current_leader_epoch) == (2, 4, 4)
    assert partition.partition_max_bytes == OPTIONS.partition_max_bytes


def test_a_request_has_its_sender_as_the_version_wants_it() -> None:
    """KIP-903: the broker epoch from version 15 on."""
    request = identified(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 15, 2, 77)
    assert (request.replica_id, request.replica_state.replica_id, request.replica_state.replica_epoch) == (
        -1,
        2,
        77,
    )
    request = identified(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[]), 14, 2, 77)
    assert (request.replica_id, request.replica_state.replica_id) == (2, -1)
    with pytest.raises(KafkaError, match="replication needs 13"):
        identified(request, 12, 2, 77)


def test_the_log_start_follows_the_leaders() -> None:
    leader, follower = two()
    leader.append(*[1] * 5)
    settle(leader, follower)
    leader.log.advance_log_start(3)
    follower.fetch_from(leader)
    assert follower.log.log_start_offset == 3


def test_a_high_watermark_follows_the_leaders_downwards() -> None:
    """M-D2: a follower's high watermark is the smaller of its log end and the leader's high watermark."""
    leader, follower = two()
    leader.append(5)
    settle(leader, follower)
    leader.log.high_watermark = 2
    (outcome,) = follower.fetch_from(leader)
    assert follower.log.high_watermark == 2
    assert not outcome.high_watermark_advanced


def test_cluster_1_truncation_goes_by_epoch_and_not_by_high_watermark() -> None:
    """cluster.md 1 (KIP-101): the leader dies after a fetch, before the follower knows the new HW."""
    nodes = replicas(2)
    leader, follower = nodes[1], nodes[2]
    leader.append(2)
    follower.fetch_from(leader)  # both have the records; the leader commits them with the next fetch
    leader.serve(follower.request())
    assert (leader.log.high_watermark, follower.log.high_watermark) == (2, 0)
    elect(nodes, leader=2, epoch=1)
    leader.catch_up_with(follower)
    assert leader.log.end_offset == 2
    # And the other way round: the follower restarts, and keeps what it has.
    elect(nodes, leader=1, epoch=2)
    follower.catch_up_with(leader)
    assert follower.log.end_offset == 2


def test_cluster_2_two_failovers_within_one_fetch() -> None:
    """cluster.md 2 (KAFKA-6361): logs are equal again, byte for byte."""
    nodes = replicas(3)
    first, second, third = nodes.values()
    first.append(4)
    second.catch_up_with(first)
    third.catch_up_with(first)
    first.append(3)  # only here, in epoch 0
    elect(nodes, leader=2, epoch=1)
    second.append(2, 2)  # only here, in epoch 1
    # Broker 1 comes back and leads before it has fetched from 2.
    elect(nodes, leader=1, epoch=2)
    first.append(1)
    second.catch_up_with(first)
    third.catch_up_with(first)
    assert second.content == third.content == first.content
    assert second.log.epochs.entries == third.log.epochs.entries == first.log.epochs.entries


def test_two_logs_with_several_epochs_that_only_one_has_find_their_common_part() -> None:
    """KIP-279: the leader's epoch is unknown to the follower, which asks again with a lower one."""
    nodes = replicas(2)
    first, second = nodes[1], nodes[2]
    first.append(1)
    second.catch_up_with(first)
    for epoch in (1, 3):
        first.partition.leader_epoch = epoch
        first.append(2)
    for epoch in (2, 4):
        second.partition.leader_epoch = epoch
        second.log.append_as_leader(batch(3), epoch)
    elect(nodes, leader=1, epoch=5)
    first.append(1)
    second.catch_up_with(first)
    assert second.log.epochs.entries == first.log.epochs.entries


def test_cluster_3_a_zombie_fetcher_is_fenced() -> None:
    """cluster.md 3 (KAFKA-7395): nothing is applied, and fetching continues with the next metadata."""
    leader, follower = two()
    request = follower.request()
    leader.lead(1)
    leader.append(2)
    follower.take(leader.serve(request))
    assert follower.log.end_offset == 0
    assert follower.state.phase is Phase.FENCED
    assert follower.is_idle
    assert follower.fetcher.wake_ns(follower.now_ns) is None
    follower.follow(1, 1)
    follower.catch_up_with(leader)


def test_cluster_3_a_zombie_leader_is_not_followed() -> None:
    """cluster.md 3 (KAFKA-7395): UNKNOWN_LEADER_EPOCH, nothing applied; retried a little later."""
    leader, follower = two()
    leader.append(2)
    follower.follow(1, 1)
    follower.take(leader.serve(follower.request()))
    assert follower.log.end_offset == 0
    assert follower.is_idle
    assert follower.fetcher.wake_ns(follower.now_ns) == follower.now_ns + 10 * MS
    leader.lead(1)
    follower.catch_up_with(leader)


def test_a_response_that_comes_after_a_change_of_leader_is_ignored() -> None:
    """cluster.md 3: the old leader's records arrive when the follower already follows another."""
    nodes = replicas(3)
    first, second, third = nodes.values()
    first.append(3)
    response = first.serve(third.request(), 3)
    elect(nodes, leader=2, epoch=1)
    assert third.fetchers[1].received(response, third.now_ns) == []
    fetched = third.fetcher.received(first_answer(third, second), third.now_ns)
    third.lead(2)
    assert third.fetcher.process(fetched[0], third.now_ns) is NOTHING


def first_answer(follower: Replica, leader: Replica) -> FetchResponse:
    leader.append(1)
    return leader.serve(follower.request(), follower.id)


def test_batches_of_a_later_epoch_than_the_followers_are_not_appended() -> None:
    leader, follower = two()
    leader.append(2)
    response = leader.serve(follower.request())
    later = open_log()
    later.append_as_leader(batch(2), 9)
    records = b"".join(one.copy() for one in read_all(later))
    response.responses[0].partitions[0].records = records
    follower.take(response)
    assert follower.log.end_offset == 0
    assert follower.state.ready_ns > follower.now_ns


def test_cluster_6_a_diverging_response_truncates_before_its_offsets_count() -> None:
    """cluster.md 6 (KAFKA-14704): one response carries a high watermark and a divergence."""
    leader, follower = two()
    leader.append(2)
    settle(leader, follower)
    follower.fetcher.session.reset()
    follower.log.append_as_leader(batch(5), 0)
    follower.fetcher.remove(follower.state.key)
    follower.follow(1, 0)
    request = follower.request()
    data = answer(log=leader.log, diverging=(0, 2))
    data.high_watermark, data.log_start_offset = 6, 4
    (fetched,) = follower.fetcher.received(response_of(data), follower.now_ns)
    outcome = follower.fetcher.process(fetched, follower.now_ns)
    assert request.topics[0].partitions[0].fetch_offset == 7
    assert outcome.truncation is not None
    assert outcome.truncation.offset == 2
    assert (follower.log.high_watermark, follower.log.log_start_offset) == (2, 0)
    # Nothing is fetched before the truncation is carried out.
    assert follower.is_idle


def test_a_truncation_that_changes_nothing_is_not_repeated_at_once() -> None:
    """A leader that contradicts itself must not make a busy loop."""
    leader, follower = two()
    leader.append(2)
    follower.catch_up_with(leader)
    follower.request()
    follower.take(response_of(answer(log=leader.log, diverging=(0, 9)), session_id=1))
    assert follower.log.end_offset == 2
    assert follower.is_idle
    assert follower.fetcher.wake_ns(follower.now_ns) is not None


def test_cluster_8_an_empty_response_keeps_the_last_fetched_epoch() -> None:
    """cluster.md 8 (KAFKA-15510)."""
    leader, follower = two(epoch=3)
    leader.append(2)
    follower.fetch_from(leader)
    assert follower.state.last_epoch == 3
    follower.fetch_from(leader)
    leader.log.advance_high_watermark(2)
    follower.fetch_from(leader)
    assert (follower.state.offset, follower.state.last_epoch) == (2, 3)


def test_cluster_9_a_follower_that_is_behind_the_leaders_log_start_begins_there() -> None:
    """cluster.md 9 (KAFKA-9491, KAFKA-7414): all records go, the high watermark follows."""
    leader, follower = two()
    leader.append(2)
    follower.catch_up_with(leader)
    leader.append(*[1] * 8)
    leader.log.set_high_watermark(10)
    leader.log.advance_log_start(6)
    follower.fetcher.session.reset()
    follower.catch_up_with(leader)
    assert (follower.log.log_start_offset, follower.log.end_offset) == (6, 10)
    assert follower.log.high_watermark == 10


def test_cluster_9_a_follower_beyond_the_leaders_end_truncates_to_it() -> None:
    """cluster.md 9: after an unclean election the leader's log may be shorter, and know no such epoch."""
    leader, follower = two()
    leader.append(2)
    settle(leader, follower)
    follower.fetcher.session.reset()
    follower.log.append_as_leader(batch(4), 0)
    follower.fetcher.remove(follower.state.key)
    follower.follow(1, 0)
    follower.request()
    follower.take(response_of(answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    request = follower.fetcher.next_request(follower.now_ns)
    assert isinstance(request, ListOffsetsRequest)
    assert request.replica_id == 2
    assert (
        request.topics[0].partitions[0].timestamp,
        request.topics[0].partitions[0].current_leader_epoch,
    ) == (
        -1,
        0,
    )
    follower.catch_up_with(leader)
    assert follower.log.end_offset == 2


def test_cluster_9_an_offset_in_range_after_all_is_fetched_again_a_little_later() -> None:
    # cluster.md 9
    leader, follower = two()
    leader.append(2)
    follower.request()
    follower.take(response_of(answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    follower.fetch_from(leader)
    follower.fetch_from(leader)
    assert follower.is_idle
    follower.catch_up_with(leader)


def test_offsets_that_the_leader_refuses_to_give_are_asked_for_again() -> None:
    leader, follower = two()
    leader.append(2)
    follower.request()
    follower.take(response_of(answer(error=ErrorCode.OFFSET_OUT_OF_RANGE)))
    leader.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower.fetch_from(leader)
    assert follower.state.phase is Phase.FETCHING
    leader.error = ErrorCode.NONE
    follower.catch_up_with(leader)


def test_a_log_start_within_a_batch_begins_with_that_batch() -> None:
    """The leader's log start, after DeleteRecords, is not the start of a batch."""
    leader, follower = two()
    leader.append(10)
    leader.log.set_high_watermark(10)
    leader.log.advance_log_start(4)
    follower.catch_up_with(leader)
    assert (follower.log.log_start_offset, follower.log.end_offset) == (4, 10)
    assert follower.log.segments[0].base_offset == 0


def test_a_log_that_diverges_before_a_log_start_within_a_batch_takes_that_batch() -> None:
    """Truncated to the leader's log start, it ends where no batch begins: it was stuck there."""
    nodes = replicas(2, leader=2)
    leader, follower = nodes[1], nodes[2]
    follower.append(8)
    elect(nodes, 1, 1)
    leader.append(10)
    leader.log.set_high_watermark(10)
    leader.log.advance_log_start(4)
    follower.catch_up_with(leader)
    assert (follower.log.log_start_offset, follower.log.end_offset) == (4, 10)
    assert follower.content == leader.content


def test_a_lost_high_watermark_does_not_keep_out_a_batch_around_the_log_start() -> None:
    """cluster.md 9: after an unclean election the follower's high watermark may be of what is lost."""
    nodes = replicas(2, leader=2)
    leader, follower = nodes[1], nodes[2]
    follower.append(8)
    follower.log.set_high_watermark(8)
    elect(nodes, 1, 1)
    leader.append(10)
    leader.log.set_high_watermark(10)
    leader.log.advance_log_start(4)
    follower.catch_up_with(leader)
    assert (follower.log.log_start_offset, follower.log.end_offset) == (4, 10)
    assert follower.content == leader.content


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ],
)
def test_errors_that_pass_are_retried_soon_and_then_less_often(error: ErrorCode) -> None:
    leader, follower = two()
    leader.error = error
    delays: list[int] = []
    while len(delays) < 9:
        before = follower.state.failures
        follower.fetch_from(leader)
        if follower.state.failures > before:
            delays.append((follower.state.ready_ns - follower.now_ns) // MS)
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]
    leader.error = ErrorCode.NONE
    leader.append(1)
    follower.catch_up_with(leader)
    assert follower.state.failures == 0


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_partitions_refused_in_one_response_are_one_line_of_the_log(
    error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    leader, follower = two()
    for index in (1, 2):
        partition: Partition[Log] = Partition(TOPIC, index, TOPIC_ID, rules(2))
        partition.follow(state_of(1, 0), open_log(folder=f"/data/{TOPIC}-{index}"))
        follower.fetcher.add(partition)
    leader.error = error
    with caplog.at_level(logging.INFO):
        while follower.state.phase is Phase.FETCHING and follower.state.failures < 2:
            follower.fetch_from(leader)
    assert [record.getMessage() for record in caplog.records] == [
        f"{error.name} from the leader for {TOPIC}-0 at offset 0 in epoch 0 and 2 more; waiting for metadata"
    ]


@pytest.mark.parametrize("error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_other_errors_wait_for_the_whole_back_off(error: ErrorCode) -> None:
    leader, follower = two()
    leader.error = error
    follower.fetch_from(leader)
    assert follower.fetcher.wake_ns(follower.now_ns) == follower.now_ns + 1_000 * MS


def test_a_damaged_batch_is_fetched_again() -> None:
    leader, follower = two()
    leader.append(2, 2)
    response = leader.serve(follower.request())
    records = bytearray(leader.content)
    records[-1] ^= 1
    response.responses[0].partitions[0].records = bytes(records)
    follower.take(response)
    assert follower.log.end_offset == 0
    assert follower.fetcher.wake_ns(follower.now_ns) == follower.now_ns + 1_000 * MS
    follower.catch_up_with(leader)


def test_one_partition_in_trouble_does_not_hold_up_the_others() -> None:
    leader, follower = two()
    leader.append(2)
    other: Partition[Log] = Partition("payments", 0, OTHER_ID, rules(2))
    other.follow(state_of(1, 0), open_log(folder="/data/payments-0"))
    follower.fetcher.add(other)
    request = follower.request()
    assert [topic.topic_id for topic in request.topics] == [follower.state.key[0], OTHER_ID]
    refused = FetchResponse.FetchableTopicResponse(
        topic_id=OTHER_ID, partitions=[answer(error=ErrorCode.UNKNOWN_TOPIC_ID)]
    )
    response = response_of(answer(log=leader.log, records=leader.content), session_id=5)
    response.responses.append(refused)
    follower.take(response)
    assert follower.content == leader.content
    request = follower.request()
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [OTHER_ID]
    # The leader does not wait for longer than the other partition.
    assert request.max_wait_ms == 10
    follower.take(response_of(session_id=5))
    follower.clock.now_ms += 10
    assert [topic.topic_id for topic in follower.request().topics] == [OTHER_ID]


def test_a_new_epoch_restarts_at_the_end_of_the_log() -> None:
    nodes = replicas(3)
    first, second, third = nodes.values()
    first.append(3)
    second.catch_up_with(first)
    third.catch_up_with(first)
    before = third.state
    third.follow(2, 1)
    assert third.state is not before
    assert (third.state.offset, third.state.last_epoch, third.state.leader_epoch) == (3, 0, 1)
    # Another ISR in the same epoch changes nothing.
    same = third.state
    third.follow(2, 1)
    assert third.state is same


def test_a_log_without_epochs_is_truncated_to_its_high_watermark() -> None:
    """Batches of format 0 and 1 have no epochs."""
    follower = Replica(2)
    follower.log.append_as_leader(batch(4), 0)
    follower.log.set_high_watermark(3)
    follower.log.epochs.clear()
    follower.partition.follow(state_of(1, 1), follower.log)
    truncation = follower.fetcher.add(follower.partition)
    assert truncation is not None
    assert truncation.offset == 3


def test_with_flush_messages_the_leader_counts_only_what_is_flushed() -> None:
    """What the next fetch acknowledges must be on stable storage here, too."""
    leader, follower = two()
    follower.partition.flush_messages = 1
    leader.append(2)
    (outcome,) = follower.fetch_from(leader)
    assert outcome.must_flush
    request = follower.request()
    assert (request.topics, len(request.forgotten_topics_data)) == ([], 1)
    follower.take(leader.serve(request))
    assert not follower.fetcher.flushed(follower.state.key)
    follower.log.flush()
    assert follower.fetcher.flushed(follower.state.key)
    assert follower.request().topics[0].partitions[0].fetch_offset == 2


def test_more_than_a_segment_holds_is_appended_in_parts() -> None:
    """The follower's segment.bytes may be smaller than the leader's was."""
    leader = Replica(1)
    follower = Replica(2, options=LogOptions(segment_bytes=200, segment_index_bytes=1200))
    nodes = {1: leader, 2: follower}
    elect(nodes, 1, 0)
    leader.append(1, 1, 1, 20)
    follower.catch_up_with(leader)
    assert len(follower.log.segments) > 2
    assert SMALL.segment_bytes > 200


def test_a_refused_fetch_is_retried_later() -> None:
    leader, follower = two()
    follower.request()
    follower.take(
        FetchResponse(throttle_time_ms=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, responses=[])
    )
    assert follower.is_idle
    follower.clock.now_ms += 10
    follower.fetch_from(leader)


def test_a_leader_without_partitions_is_not_asked() -> None:
    fetcher = Fetcher(2, OPTIONS)
    assert fetcher.next_request(0) is None
    assert fetcher.wake_ns(0) is None
    assert len(fetcher) == 0


def test_a_follower_without_space_waits_for_it_and_goes_on() -> None:
    leader, follower = two()
    leader.append(2)
    follower.fetch_from(leader)
    follower.log.full = "no space is left on the device"
    # Nothing is to be written: it is fetched on, and so stays in the ISR.
    follower.fetch_from(leader)
    assert follower.state.phase is Phase.FETCHING
    leader.append(3)
    with pytest.raises(DirectoryFull):
        follower.fetch_from(leader)
    assert follower.state.phase is Phase.NO_ROOM
    assert follower.is_idle
    follower.log.full = None
    assert follower.fetcher.has_room(follower.state.key)
    assert not follower.fetcher.has_room(follower.state.key)
    follower.fetch_from(leader)
    assert follower.content == leader.content
