"""ListOffsets: the responses that Apache Kafka 4.1 gave to the same requests."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.compression import Codec
from barnabas.broker.handlers import list_offsets
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from tests.broker.worlds.data_world import T0, Forbid, World, batch_of, codes

VERSIONS = range(1, 11)
NONE = (ErrorCode.NONE, -1, -1)


def partition(index: int, timestamp: int, epoch: int = -1) -> ListOffsetsRequest.Partition:
    return ListOffsetsRequest.Partition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )


def ask(
    world: World,
    *partitions: ListOffsetsRequest.Partition,
    version: int = 10,
    replica_id: int = -1,
    isolation: int = 0,
    topic: str = "orders",
) -> list[ListOffsetsResponse.PartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=[ListOffsetsRequest.Topic(name=topic, partitions=list(partitions))],
    )
    answers: list[ListOffsetsResponse.PartitionResponse] = (
        world.ask(list_offsets, request, version).topics[0].partitions
    )
    return answers


def found(world: World, timestamp: int, version: int = 10) -> tuple[ErrorCode, int, int]:
    (one,) = ask(world, partition(0, timestamp), version=version)
    return ErrorCode(one.error_code), one.timestamp, one.offset


def world_with_times() -> World:
    """Offsets 0 and 1 at T0, T0+1; 2 and 3 at T0+5000; 4 and 5 at T0+2000; 6 and 7 compressed at T0+6000."""
    world = World()
    world.topic("orders", 2)
    for delay in (0, 5000, 2000):
        world.produce("orders", batch_of(b"a", b"b", time=T0 + delay))
    world.produce("orders", batch_of(b"a", b"b", time=T0 + 6000, codec=Codec.LZ4))
    return world


@pytest.mark.trap
def test_by_timestamp() -> None:
    """Trap 10: ListOffsets by timestamp: first offset with timestamp >= t, max-timestamp, earliest/latest, also
    in compressed batches."""
    world = world_with_times()
    for version in VERSIONS:
        assert found(world, 0, version) == (ErrorCode.NONE, T0, 0)
        assert found(world, T0, version) == (ErrorCode.NONE, T0, 0)
        assert found(world, T0 + 1, version) == (ErrorCode.NONE, T0 + 1, 1)
        assert found(world, T0 + 2, version) == (ErrorCode.NONE, T0 + 5000, 2)
        assert found(world, T0 + 5001, version) == (ErrorCode.NONE, T0 + 5001, 3)
        assert found(world, T0 + 6001, version) == (ErrorCode.NONE, T0 + 6001, 7)
        assert found(world, T0 + 6002, version) == NONE
        assert found(world, -1, version) == (ErrorCode.NONE, -1, 8)
        assert found(world, -2, version) == (ErrorCode.NONE, -1, 0)
    assert found(world, -3) == (ErrorCode.NONE, T0 + 6001, 7)


def test_special_times_come_with_their_versions() -> None:
    world = world_with_times()
    unsupported = (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
    for timestamp, first, answer in (
        (-3, 7, (ErrorCode.NONE, T0 + 6001, 7)),
        (-4, 8, (ErrorCode.NONE, -1, 0)),
        (-5, 9, NONE),
        (-6, 11, NONE),
        (-7, 11, NONE),
    ):
        for version in VERSIONS:
            assert found(world, timestamp, version) == (answer if version >= first else unsupported)


def test_leader_epochs_are_returned_and_checked() -> None:
    world = world_with_times()
    world.partition_change("orders", leader=1)
    world.produce("orders", batch_of(b"a", time=T0 + 7000))
    answers = [ask(world, partition(0, timestamp))[0] for timestamp in (-1, -2, T0, T0 + 7000, T0 + 9999)]
    assert [one.leader_epoch for one in answers] == [1, 0, 0, 1, -1]
    assert ask(world, partition(0, -1), version=3)[0].leader_epoch == -1
    for epoch, code in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        assert codes(ask(world, partition(0, -1, epoch))) == [code]


def test_an_empty_partition() -> None:
    world = world_with_times()
    answers = [ask(world, partition(1, timestamp))[0] for timestamp in (-1, -2, -3, T0)]
    assert [(one.error_code, one.offset) for one in answers] == [(0, 0), (0, 0), (0, -1), (0, -1)]


def test_errors() -> None:
    world = world_with_times()
    assert codes(ask(world, partition(9, -1))) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes(ask(world, partition(0, -1), topic="nothing")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    twice = ask(world, partition(0, -1), partition(0, -2), partition(1, -1))
    assert codes(twice) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    world.topic("elsewhere", replicas=[2], leader=2)
    assert codes(ask(world, partition(0, -1), topic="elsewhere")) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    world.topic("followed", replicas=[1, 2], leader=2)
    assert codes(ask(world, partition(0, -1), topic="followed")) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert codes(ask(world, partition(0, -1), topic="followed", replica_id=-2)) == [ErrorCode.NONE]
    world.authorizer = Forbid((Operation.DESCRIBE, Resource.TOPIC, "orders"))
    assert codes(ask(world, partition(0, -1))) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_consumers_see_committed_offsets_only() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a", time=T0), batch_of(b"b", time=T0 + 10))
    hosted = world.replicas.find("orders", 0)
    hosted.follower_fetched(hosted.followers[2], 1, log_start_offset=0, broker_epoch=-1, now_ns=0)
    assert found(world, -1) == (ErrorCode.NONE, -1, 1)
    assert found(world, T0 + 10) == NONE
    assert ask(world, partition(0, -1), replica_id=2)[0].offset == 2
    assert ask(world, partition(0, T0 + 10), replica_id=2)[0].offset == 1


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    world = World()
    world.topic("orders")
    log = world.log("orders")
    batch = batch_of(b"t", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True, time=T0)
    world.produce("orders", batch_of(b"a", time=T0 - 5))
    log.append_as_leader(batch, 0, verification=log.start_verification(5, 0, 0))
    world.replicas.find("orders", 0).advance(0)
    assert ask(world, partition(0, -1), isolation=1)[0].offset == 1
    assert ask(world, partition(0, -1))[0].offset == 2
    assert ask(world, partition(0, T0), isolation=1)[0].offset == -1


# KIP-207
def test_a_new_leader_without_a_high_watermark_returns_offset_not_available() -> None:
    # cluster.md 4
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a", time=T0))
    world.partition_change("orders", leader=2)
    world.partition_change("orders", leader=1)
    assert codes(ask(world, partition(0, -1))) == [ErrorCode.OFFSET_NOT_AVAILABLE]
    assert codes(ask(world, partition(0, -1), version=4)) == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert codes(ask(world, partition(0, T0))) == [ErrorCode.OFFSET_NOT_AVAILABLE]
    assert found(world, -2) == (ErrorCode.NONE, -1, 0)
    assert ask(world, partition(0, -1), replica_id=2)[0].offset == 1


def test_a_request_that_fails_as_a_whole_has_the_error_in_every_partition() -> None:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsRequest.Topic(name="orders", partitions=[partition(0, -1), partition(1, -1)])],
    )
    response = list_offsets.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    assert codes(response.topics[0].partitions) == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
