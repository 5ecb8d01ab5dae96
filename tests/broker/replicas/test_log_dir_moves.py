"""Replicas move from one directory to another: nothing is lost, nothing comes twice, stops interrupt nothing."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import UNASSIGNED_DIR
from barnabas.batch.view import batches
from barnabas.broker.handlers import alter_replica_log_dirs, describe_log_dirs
from barnabas.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from barnabas.protocol.records.metadata import RemoveTopicRecord
from barnabas.storage.log.names import TopicPartition
from tests.broker.worlds.data_world import OTHER_DIRECTORY, World, batch_of

T0 = TopicPartition("t", 0)
DIRS = ("/data", "/other")


def world(**more: Any) -> World:
    made = World(dirs=DIRS, **more)
    made.topic("t", 2)
    return made


def move(at: World, path: str, topic: str = "t", index: int = 0) -> int:
    dirs = [
        AlterReplicaLogDirsRequest.AlterReplicaLogDir(
            path=path,
            topics=[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name=topic, partitions=[index])],
        )
    ]
    answer = at.ask(alter_replica_log_dirs, AlterReplicaLogDirsRequest(dirs=dirs), 2)
    code: int = answer.results[0].partitions[0].error_code
    return code


def places(at: World) -> dict[str, list[tuple[str, int, bool]]]:
    answer = at.ask(describe_log_dirs, DescribeLogDirsRequest(topics=None), 4)
    return {
        one.log_dir: sorted(
            (topic.name, partition.partition_index, partition.is_future_key)
            for topic in one.topics
            for partition in topic.partitions
        )
        for one in answer.results
    }


def finish(at: World) -> None:
    for _ in range(50):
        at.tick(25)
        at.work()
    assert not at.replicas.storage.manager.futures


def records_of(at: World) -> list[bytes | None]:
    log = at.replicas.find("t", 0).log
    assert log is not None
    found = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, upper_bound=log.end_offset).slice
        assert piece is not None
        for one in batches(piece.read()):
            found += [record.value for record in one.records()]
            offset = one.next_offset
    return found


def test_a_replica_moves_with_all_its_records_while_more_come() -> None:
    at = world()
    at.produce("t", *(batch_of(b"%d" % number) for number in range(20)))
    assert move(at, "/other") == 0
    assert places(at) == {"/data": [("t", 0, False), ("t", 1, False)], "/other": [("t", 0, True)]}
    at.produce("t", batch_of(b"while it moves"))
    finish(at)
    assert places(at) == {"/data": [("t", 1, False)], "/other": [("t", 0, False)]}
    at.produce("t", batch_of(b"behind it"))
    expected = [*(f"{number}".encode() for number in range(20)), b"while it moves", b"behind it"]
    assert records_of(at) == expected
    log = at.replicas.find("t", 0).log
    assert log is not None and log.folder == "/other/t-0"
    assert log.high_watermark == log.end_offset == 22
    assignments = [one for one in at.metadata.asked if isinstance(one, AssignReplicasToDirsRequest)]
    assert [one.directories[0].id for one in assignments] == [OTHER_DIRECTORY]


def test_a_copy_takes_over_only_when_it_is_on_stable_storage() -> None:
    at = world()
    at.produce("t", batch_of(b"a"))
    move(at, "/other")
    for _ in range(20):
        at.tick(25)
    assert T0 in at.replicas.storage.manager.futures, "it has not been flushed"
    at.work()
    finish(at)
    log = at.replicas.find("t", 0).log
    assert log is not None and log.recovery_point == 1


def test_a_move_goes_on_after_a_restart() -> None:
    at = world()
    at.produce("t", *(batch_of(b"%d" % number) for number in range(5)))
    move(at, "/other")
    at.stop()
    again = World(dirs=DIRS, disk=at.disk, start=False)
    again.image = at.image
    again.start()
    assert T0 in again.replicas.storage.manager.futures
    finish(again)
    assert records_of(again) == [f"{number}".encode() for number in range(5)]
    assert places(again)["/other"] == [("t", 0, False)]


def test_a_move_is_taken_back_by_moving_to_where_it_is() -> None:
    at = world()
    at.produce("t", batch_of(b"a"))
    move(at, "/other")
    assert move(at, "/data") == 0
    assert places(at) == {"/data": [("t", 0, False), ("t", 1, False)], "/other": []}
    finish(at)
    assert records_of(at) == [b"a"]


def test_records_that_are_deleted_meanwhile_stay_deleted() -> None:
    at = world()
    at.produce("t", *(batch_of(b"%d" % number) for number in range(6)))
    move(at, "/other")
    at.replicas.delete_records(at.replicas.find("t", 0), 4)
    finish(at)
    log = at.replicas.find("t", 0).log
    assert log is not None and log.log_start_offset == 4
    assert records_of(at)[-2:] == [b"4", b"5"]


def test_a_topic_that_goes_takes_its_copy_along() -> None:
    at = world()
    at.produce("t", batch_of(b"a"))
    move(at, "/other")
    at.change(RemoveTopicRecord(topic_id=at.image.topic_ids["t"]))
    assert not at.replicas.storage.manager.futures
    at.topic("t", 1)
    finish(at)
    assert records_of(at) == []


@pytest.mark.parametrize(
    ("path", "topic", "code"),
    [
        ("/nowhere", "t", ErrorCode.LOG_DIR_NOT_FOUND),
        ("/other", "unknown", ErrorCode.REPLICA_NOT_AVAILABLE),
        ("/other", "x" * 220, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("/data", "t", ErrorCode.NONE),
    ],
)
def test_what_cannot_be_moved_is_told(path: str, topic: str, code: ErrorCode) -> None:
    at = world()
    assert move(at, path, topic) == code
    assert not at.replicas.storage.manager.futures


def test_a_replica_to_come_is_made_where_it_is_wanted() -> None:
    at = world()
    assert move(at, "/other", "new") == ErrorCode.REPLICA_NOT_AVAILABLE
    at.topic("new", 1, directory=UNASSIGNED_DIR)
    assert ("new", 0, False) in places(at)["/other"]


def test_a_directory_that_fails_takes_only_the_copy() -> None:
    at = world()
    at.produce("t", batch_of(b"a"))
    move(at, "/other")
    at.replicas.storage.manager.fail("/other", OSError("gone"))
    assert not at.replicas.find("t", 0).is_offline
    assert move(at, "/other") == ErrorCode.KAFKA_STORAGE_ERROR
    finish(at)
    assert records_of(at) == [b"a"]


def test_a_directory_that_fails_under_its_log_leaves_the_copy_alone() -> None:
    at = world()
    at.produce("t", batch_of(b"a"))
    move(at, "/other")
    at.replicas.storage.manager.fail("/data", OSError("gone"))
    at.tick(100)
    at.work()
    with pytest.raises(KafkaError):
        at.replicas.find("t", 0)
    assert move(at, "/other") == ErrorCode.KAFKA_STORAGE_ERROR
