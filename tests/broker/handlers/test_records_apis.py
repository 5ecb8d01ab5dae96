"""DeleteRecords, OffsetForLeaderEpoch, DescribeLogDirs, DescribeProducers, InitProducerId."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers import (
    delete_records,
    describe_log_dirs,
    describe_producers,
    init_producer_id,
    offset_for_leader_epoch,
)
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.broker.worlds.data_world import (
    ANY_NAME,
    OTHER_DIRECTORY,
    Forbid,
    World,
    batch_of,
    codes,
    result_of,
)

# DeleteRecords


def deletion(offsets: dict[int, int], topic: str = "orders", timeout_ms: int = 500) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        timeout_ms=timeout_ms,
        topics=[
            DeleteRecordsRequest.Topic(
                name=topic,
                partitions=[
                    DeleteRecordsRequest.Partition(partition_index=index, offset=offset)
                    for index, offset in offsets.items()
                ],
            )
        ],
    )


def delete(world: World, offset: int, version: int = 2, **fields: Any) -> tuple[ErrorCode, int]:
    (one,) = world.ask(delete_records, deletion({0: offset}, **fields), version).topics[0].partitions
    return ErrorCode(one.error_code), one.low_watermark


def world_with_records(**fields: Any) -> World:
    world = World()
    world.topic("orders", **fields)
    world.produce("orders", batch_of(b"a", b"b", b"c"), batch_of(b"d"))
    return world


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_before_an_offset_go(version: int) -> None:
    world = world_with_records()
    assert delete(world, 2, version) == (ErrorCode.NONE, 2)
    assert delete(world, 1, version) == (ErrorCode.NONE, 2)  # deleted already
    assert world.log("orders").log_start_offset == 2
    assert delete(world, -1, version) == (ErrorCode.NONE, 4)


def test_records_that_cannot_be_deleted() -> None:
    world = world_with_records()
    world.topic("table", cleanup_policy="compact")
    world.topic("__consumer_offsets")
    assert delete(world, 99) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(world, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(world, 0, topic="table") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(world, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    assert delete(world, 0, topic="nothing") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    world.authorizer = Forbid((Operation.DELETE, Resource.TOPIC, "orders"))
    assert delete(world, 0) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)


def replicated() -> World:
    world = world_with_records(replicas=[1, 2], isr=[1, 2])
    fetched(world, start=0)
    return world


def fetched(world: World, start: int) -> None:
    hosted = world.replicas.find("orders", 0)
    hosted.follower_fetched(hosted.followers[2], 4, log_start_offset=start, broker_epoch=-1, now_ns=0)
    world.replicas.purgatory.changed(hosted)


def test_the_response_waits_for_every_live_replica() -> None:
    world = replicated()
    waiting = world.ask(delete_records, deletion({0: 3}), 2)
    world.tick()
    assert not waiting.done
    fetched(world, start=3)
    world.tick()
    (one,) = result_of(waiting, 2).topics[0].partitions
    assert (one.error_code, one.low_watermark) == (0, 3)


def test_a_replica_that_does_not_follow_times_the_request_out() -> None:
    world = replicated()
    waiting = world.ask(delete_records, deletion({0: 3}), 2)
    world.tick(500)
    (one,) = result_of(waiting, 2).topics[0].partitions
    assert (one.error_code, one.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_leader_that_steps_down_returns_an_error() -> None:
    world = replicated()
    waiting = world.ask(delete_records, deletion({0: 3}), 2)
    world.partition_change("orders", leader=2)
    world.tick()
    assert codes(result_of(waiting, 2).topics[0].partitions) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# OffsetForLeaderEpoch


def epochs(
    world: World, *requested: tuple[int, int, int], topic: str = "orders"
) -> list[tuple[int, int, int]]:
    """(partition, current leader epoch, leader epoch) -> (error, epoch, end offset)"""
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                        partition=index, current_leader_epoch=current, leader_epoch=epoch
                    )
                    for index, current, epoch in requested
                ],
            )
        ],
    )
    answer = world.ask(offset_for_leader_epoch, request, 4)
    return [(one.error_code, one.leader_epoch, one.end_offset) for one in answer.topics[0].partitions]


def test_where_epochs_ended() -> None:
    world = world_with_records()
    world.partition_change("orders", leader=1)
    world.partition_change("orders", leader=1)
    world.produce("orders", batch_of(b"new"))
    assert epochs(world, (0, -1, 0), (0, -1, 1), (0, -1, 2), (0, -1, 3), (0, -1, -1)) == [
        (0, 0, 4),
        (0, 0, 4),  # nothing was written in epoch 1
        (0, 2, 5),
        (0, -1, -1),
        (0, -1, -1),
    ]
    assert epochs(world, (0, 2, 0), (0, 1, 0), (0, 3, 0)) == [
        (0, 0, 4),
        (ErrorCode.FENCED_LEADER_EPOCH, -1, -1),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1),
    ]
    assert epochs(world, (7, -1, 0)) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
    assert epochs(world, (0, -1, 0), topic="nothing") == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)]
    world.authorizer = Forbid(
        (Operation.DESCRIBE, Resource.TOPIC, "orders"),
        (Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME),
    )
    assert epochs(world, (0, -1, 0)) == [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1)]


# DescribeLogDirs


def log_dirs(world: World, topics: dict[str, list[int]] | None = None, version: int = 4) -> Any:
    requested = None
    if topics is not None:
        requested = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in topics.items()
        ]
    return world.ask(describe_log_dirs, DescribeLogDirsRequest(topics=requested), version)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_folders_with_their_partitions(version: int) -> None:
    world = World(dirs=("/data", "/more"))
    world.topic("orders", 2)
    world.topic("other", directory=OTHER_DIRECTORY)
    world.produce("orders", batch_of(b"a"))
    first, second = log_dirs(world, version=version).results
    assert (first.error_code, first.log_dir, second.log_dir) == (0, "/data", "/more")
    (topic,) = first.topics
    assert [
        (one.partition_index, one.partition_size, one.offset_lag, one.is_future_key)
        for one in topic.partitions
    ] == [
        (0, len(batch_of(b"a")), 0, False),
        (1, 0, 0, False),
    ]
    assert [topic.name for topic in second.topics] == ["other"]
    if version >= 4:
        assert 0 < first.usable_bytes <= first.total_bytes


def test_only_requested_partitions_are_described() -> None:
    world = World()
    world.topic("orders", 2)
    world.topic("other")
    (result,) = log_dirs(world, {"orders": [1, 7]}).results
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in result.topics] == [
        ("orders", [1])
    ]
    assert log_dirs(world, {}).results[0].topics == []


def test_an_offline_folder_says_so() -> None:
    world = World(dirs=("/data", "/more"))
    world.replicas.storage.manager.fail("/more", OSError(errno.EIO, "broken"))
    assert codes(log_dirs(world).results) == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]


def test_folders_are_not_for_everybody() -> None:
    world = World()
    world.authorizer = Forbid((Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME))
    answer = log_dirs(world)
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


# DescribeProducers


def producers(world: World, topic: str = "orders", index: int = 0) -> Any:
    request = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=[index])]
    )
    return world.ask(describe_producers, request, 0).topics[0].partitions[0]


def test_active_producers_of_a_partition() -> None:
    world = World()
    world.topic("orders")
    world.produce(
        "orders",
        batch_of(b"a", b"b", producer_id=7, producer_epoch=2, base_sequence=0, time=1_700_000_000_000),
    )
    log = world.log("orders")
    batch = batch_of(b"t", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    log.append_as_leader(batch, 0, verification=log.start_verification(5, 0, 0))
    plain, open_one = producers(world).active_producers
    assert (plain.producer_id, plain.producer_epoch, plain.last_sequence) == (7, 2, 1)
    assert (plain.last_timestamp, plain.coordinator_epoch, plain.current_txn_start_offset) == (
        1_700_000_000_001,
        -1,
        -1,
    )
    assert (open_one.producer_id, open_one.current_txn_start_offset) == (5, 2)


def test_producers_of_unknown_or_unauthorized_partitions() -> None:
    world = World()
    world.topic("orders")
    answer = producers(world, "nothing")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message == "This server does not host this topic-partition."
    answer = producers(world, index=4)
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    answer = producers(world, "a b")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message.startswith("Topic name is invalid: 'a b' contains")
    world.authorizer = Forbid((Operation.READ, Resource.TOPIC, "orders"))
    assert producers(world).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# InitProducerId


def init(world: World, transactional_id: str | None = None, timeout_ms: int = 1000, **fields: Any) -> Any:
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **fields
    )
    return world.ask(init_producer_id, request, 5)


def refused(world: World, *args: Any, **fields: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        init(world, *args, **fields)
    answer = init_producer_id.refuse(None, caught.value.code, "")  # type: ignore[arg-type]  # it is not looked at
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    return ErrorCode(answer.error_code)


def test_every_idempotent_producer_gets_an_id_of_its_own() -> None:
    world = World()
    answers = [result_of(init(world), 5) for _ in range(3)]
    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]
    again = result_of(init(world, producer_id=0, producer_epoch=3), 5)  # a new one all the same
    assert (again.producer_id, again.producer_epoch) == (3, 0)


def test_no_ids_to_be_had() -> None:
    world = World()
    world.metadata.producer_ids_error = ErrorCode.STALE_BROKER_EPOCH
    errors: list[BaseException] = []
    init(world).then(lambda _: None, errors.append)
    assert isinstance(errors[0], KafkaError)
    assert errors[0].code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.trap
def test_transactional_ids_are_checked() -> None:
    """Trap 20: INVALID_TRANSACTION_TIMEOUT."""
    world = World()
    assert refused(world, "tx", 0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert refused(world, "tx", 900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert refused(world, "") is ErrorCode.INVALID_REQUEST
    assert refused(world, None, producer_id=5) is ErrorCode.INVALID_REQUEST


def test_authorization_of_producer_ids() -> None:
    world = World()
    world.authorizer = Forbid(
        (Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME),
        (Operation.WRITE, Resource.TOPIC, ANY_NAME),
        (Operation.WRITE, Resource.TRANSACTIONAL_ID, "tx"),
    )
    assert refused(world) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused(world, "tx") is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
