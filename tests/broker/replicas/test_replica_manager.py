"""Replicas of a broker: deltas, appends, options, directories that fail."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import UNASSIGNED_DIR, Uuid
from barnabas.broker.replicas.hosted_partition import Become, Hosted, Transition
from barnabas.broker.replicas.transitions import FIRST_RETRY_MS
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.records import metadata as records
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.directories.clean_shutdown import clean_shutdown_epoch
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.space_watch import INTERVAL_MS
from tests.broker.worlds.data_world import (
    BROKER,
    DIRECTORY,
    OTHER_DIRECTORY,
    World,
    batch_of,
    codes,
    config,
    fetch_request,
    partition_answers,
    register,
    result_of,
    values_in,
)


def code_of(world: World, topic: str, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        world.replicas.find(topic, index)
    return refused.value.code


# Deltas


def test_a_new_topic_gets_logs_and_leaders() -> None:
    world = World()
    topic_id = world.topic("orders", 2)
    hosted = world.replicas.find("orders", 1)
    assert hosted.is_leader
    assert hosted.topic_id == topic_id
    assert (hosted.leader_epoch, hosted.leader_epoch_start) == (0, 0)
    assert hosted.log is not None
    assert hosted.log.epochs.entries == [(0, 0)]
    world.tick(5)
    world.work()
    assert f"topic_id: {topic_id}".encode() in world.disk.read_bytes("/data/orders-1/partition.metadata")


def test_partitions_elsewhere_are_known_as_such() -> None:
    world = World()
    world.topic("orders", replicas=[2, 3], leader=2)
    assert code_of(world, "orders") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(world, "orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(world, "nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_takes_no_records_and_serves_no_old_consumer() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], leader=2)
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0}), 10))
    assert codes(found.values()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0}), 11))  # KIP-392
    assert codes(found.values()) == [ErrorCode.NONE]


def test_a_leader_steps_down_and_comes_back_with_a_new_epoch() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a", b"b"))
    world.partition_change("orders", leader=2)
    hosted = world.replicas.find("orders", 0)
    assert (hosted.is_leader, hosted.leader, hosted.leader_epoch) == (False, 2, 1)
    world.partition_change("orders", leader=1, isr=[1])
    assert (hosted.is_leader, hosted.leader_epoch, hosted.leader_epoch_start) == (True, 2, 2)
    assert world.log("orders").high_watermark == 2


def test_a_deleted_topic_goes_with_its_folder() -> None:
    world = World()
    topic_id = world.topic("orders")
    world.produce("orders", batch_of(b"a"))
    waiting = world.fetch(fetch_request("orders", {0: 1}, max_wait_ms=1000))
    world.change(records.RemoveTopicRecord(topic_id=topic_id))
    assert code_of(world, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    world.tick()
    answer = partition_answers(result_of(waiting, 12))
    assert codes(answer.values()) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (folder,) = [name for name in world.disk.names("/data") if name.startswith("orders")]
    assert folder.endswith("-delete")
    world.tick(60_001)
    world.work()
    assert not [name for name in world.disk.names("/data") if name.startswith("orders")]


def test_a_topic_deleted_and_made_again_in_one_delta_starts_anew() -> None:
    world = World()
    old_id = world.topic("orders")
    world.produce("orders", batch_of(b"old"))
    new_id = Uuid(bytes(15) + b"\x77")
    partition = world.image.topics[old_id].partitions[0]
    world.change(
        records.RemoveTopicRecord(topic_id=old_id),
        records.TopicRecord(name="orders", topic_id=new_id),
        partition.to_record(new_id, 0, world.image.metadata_version),
    )
    world.settle()
    assert world.replicas.find("orders", 0).topic_id == new_id
    assert world.log("orders").end_offset == 0


def test_a_replica_that_moves_away_is_deleted_here() -> None:
    world = World()
    world.topic("orders")
    world.partition_change("orders", replicas=[2], isr=[2], leader=2, directories=[DIRECTORY])
    assert code_of(world, "orders") is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert TopicPartition("orders", 0) not in world.replicas.storage.manager.logs


def test_traffic_is_counted_by_topic_and_goes_with_it() -> None:
    world = World()
    topic_id = world.topic("orders", 2)
    size = len(batch_of(b"a", b"b"))
    world.produce("orders", batch_of(b"a", b"b"))
    world.produce("orders", batch_of(b"a", b"b"), index=1)
    world.fetch(fetch_request("orders", {0: 0}))
    traffic = world.replicas.traffic["orders"]
    assert (traffic.bytes_in, traffic.records_in, traffic.produces) == (2 * size, 4, 2)
    assert (traffic.bytes_out, traffic.fetches) == (size, 1)
    world.change(records.RemoveTopicRecord(topic_id=topic_id))
    assert world.replicas.traffic == {}


# Starting and stopping


def restarted(world: World, **fields: Any) -> World:
    again = World(disk=world.disk, start=False, **fields)
    again.clock.now_ms = world.clock.now_ms
    again.image = world.image
    again.broker_epoch = 200
    return again


def test_records_and_high_watermarks_survive_a_clean_stop() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a"), batch_of(b"b"))
    hosted = world.replicas.find("orders", 0)
    hosted.follower_fetched(
        hosted.followers[2], 1, log_start_offset=0, broker_epoch=100, now_ns=world.clock.monotonic_ns()
    )
    world.stop()
    assert clean_shutdown_epoch(world.disk, "/data") == 100
    again = restarted(world)
    again.start()
    log = again.log("orders")
    assert (log.end_offset, log.high_watermark) == (2, 1)


def test_damage_is_told_to_clients_and_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.topic("orders")
    large = batch_of(b"a" * 5_000)
    # The end of a log is looked at when it is opened; this is before it.
    world.produce("orders", large, batch_of(b"b" * 5_000), batch_of(b"c"))
    world.stop()
    file = world.disk.open("/data/orders-0/00000000000000000000.log")
    file.write_at(len(large) - 1, b"?")
    file.close()
    again = restarted(world)
    again.start()
    for _ in range(3):
        answer = again.fetch(fetch_request("orders", {0: 0}))
        assert partition_answers(answer)["orders", 0].error_code == ErrorCode.CORRUPT_MESSAGE
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert (
        "orders-0: /data/orders-0/00000000000000000000.log: the batch at position 0 has a wrong CRC" in line
    )


def test_a_log_of_no_topic_is_put_aside_at_the_start() -> None:
    world = World()
    topic_id = world.topic("orders")
    world.topic("kept")
    world.tick(5)
    world.work()
    world.stop()
    again = restarted(world)
    again.change(records.RemoveTopicRecord(topic_id=topic_id))
    again.start()
    (folder,) = [name for name in world.disk.names("/data") if name.startswith("orders")]
    assert folder.endswith("-stray")
    assert again.replicas.find("kept", 0).is_leader


@pytest.mark.parametrize("has_id", [True, False])
def test_a_topic_made_again_while_logs_are_opened_starts_anew(has_id: bool) -> None:
    """The log of the deleted one was no stray when the start began, whether its topic id was written or not."""
    world = World()
    old_id = world.topic("orders")
    world.produce("orders", batch_of(b"old"))
    world.tick(5)
    world.work()
    world.stop()
    if not has_id:
        world.disk.remove("/data/orders-0/partition.metadata")
    again = restarted(world)
    again.replicas.start()
    if has_id:
        again.workers.run()  # its folder is known, and the log is to be opened
    new_id = Uuid(bytes(15) + b"\x77")
    partition = again.image.topics[old_id].partitions[0]
    again.change(
        records.RemoveTopicRecord(topic_id=old_id),
        records.TopicRecord(name="orders", topic_id=new_id),
        partition.to_record(new_id, 0, again.image.metadata_version),
    )
    again.work()
    again.settle()
    assert again.replicas.find("orders", 0).topic_id == new_id
    assert again.log("orders").end_offset == 0


def test_a_replica_that_moves_away_while_logs_are_opened_is_deleted() -> None:
    world = World()
    world.topic("orders")
    world.stop()
    again = restarted(world)
    again.replicas.start()
    again.partition_change("orders", replicas=[2], isr=[2], leader=2, directories=[DIRECTORY])
    again.work()
    again.settle()
    assert TopicPartition("orders", 0) not in again.replicas.storage.manager.logs
    (folder,) = [name for name in world.disk.names("/data") if name.startswith("orders")]
    assert folder.endswith("-delete")


def test_deltas_before_the_start_are_not_lost() -> None:
    world = World(start=False)
    world.topic("orders")
    assert world.replicas.partitions == {}
    world.start()
    assert world.replicas.find("orders", 0).is_leader


def test_loading_that_is_refused_fails_the_start() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data/not a partition")
    world = World(disk=disk, start=False)
    done = world.replicas.start()
    errors: list[BaseException] = []
    done.then(lambda _: None, errors.append)
    world.work()
    assert "not a partition" in str(errors[0])


# Options


def test_topic_options_reach_logs_and_partitions() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1], retention_ms="1234", min_insync_replicas="2")
    hosted = world.replicas.find("orders", 0)
    assert world.log("orders").options.retention_ms == 1234
    assert (hosted.min_isr, hosted.is_under_min_isr) == (2, True)
    world.change(config("orders", "min.insync.replicas", "1"), config("orders", "retention.ms", None))
    assert not hosted.is_under_min_isr
    assert world.log("orders").options.retention_ms == 604_800_000


def test_a_lower_min_insync_replicas_commits_what_waited() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1], min_insync_replicas="2")
    world.produce("orders", batch_of(b"a"))
    waiting = world.fetch(fetch_request("orders", {0: 0}, max_wait_ms=1000))
    world.change(config("orders", "min.insync.replicas", "1"))
    world.tick()
    assert values_in(partition_answers(result_of(waiting, 12))["orders", 0]) == [(0, b"a")]


def test_a_higher_min_insync_replicas_counts_before_a_smaller_isr_of_the_same_delta() -> None:
    # M-D2, KIP-966: who has left the ISR is in the ELR, without the record
    world = World()
    topic_id = world.topic("orders", replicas=[1, 2], min_insync_replicas="1")
    world.produce("orders", batch_of(b"a"))
    world.change(
        config("orders", "min.insync.replicas", "2"),
        records.PartitionChangeRecord(
            topic_id=topic_id, partition_id=0, isr=[1], eligible_leader_replicas=[2]
        ),
    )
    log = world.log("orders")
    assert (log.high_watermark, log.end_offset) == (0, 1)


def test_a_higher_min_insync_replicas_of_the_cluster_counts_before_a_smaller_isr_too() -> None:
    # M-D2, KIP-966
    from barnabas.config.layers import Layers

    world = World()
    topic_id = world.topic("orders", replicas=[1, 2])
    world.topic("own", replicas=[1, 2], min_insync_replicas="1")
    world.produce("orders", batch_of(b"a"))
    least = "min.insync.replicas"
    world.settings = Layers(world.node.settings.given).with_cluster({least: "2"}).settings()
    world.change(
        records.ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="", name=least, value="2"),
        records.PartitionChangeRecord(
            topic_id=topic_id, partition_id=0, isr=[1], eligible_leader_replicas=[2]
        ),
    )
    log = world.log("orders")
    assert (log.high_watermark, log.end_offset) == (0, 1)
    assert world.replicas.find("own", 0).min_isr == 1


def test_the_brokers_own_settings_are_the_defaults_of_topics() -> None:
    world = World()
    world.topic("orders")
    world.topic("special", retention_ms="99")
    from barnabas.config.layers import Layers

    world.settings = Layers(world.node.settings.given).with_cluster({"log.retention.ms": "777"}).settings()
    world.change(
        records.ConfigRecord(
            resource_type=ConfigResource.BROKER, resource_name="", name="log.retention.ms", value="777"
        )
    )
    assert world.log("orders").options.retention_ms == 777
    assert world.log("special").options.retention_ms == 99


def test_an_option_that_cannot_be_read_does_not_stop_the_partition(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.topic("orders", retention_ms="soon", segment_ms="5000")
    assert world.log("orders").options.segment_ms == 5000
    assert "retention.ms" in caplog.text


# Followers (the seams of a cluster)


def follower_fetch(offset: int, *, epoch: int = 100, **fields: Any) -> FetchRequest:
    request = fetch_request("orders", {0: offset}, **fields)
    request.replica_state = FetchRequest.ReplicaState(replica_id=2, replica_epoch=epoch)
    request.topics[0].topic = ""
    request.topics[0].topic_id = Uuid(bytes(14) + b"\0\x01")
    return request


# M-D1, M-D2
def test_a_followers_fetch_commits_and_lets_it_into_the_isr() -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1])
    world.produce("orders", batch_of(b"a"))
    answer = world.fetch(follower_fetch(0), 17).responses[0].partitions[0]
    assert values_in(answer) == [(0, b"a")]
    world.fetch(follower_fetch(1), 17)
    world.tick()
    (asked,) = [one for one in world.metadata.asked if isinstance(one, AlterPartitionRequest)]
    partition = asked.topics[0].partitions[0]
    assert [(one.broker_id, one.broker_epoch) for one in partition.new_isr_with_epochs] == [
        (1, 100),
        (2, 100),
    ]
    hosted = world.replicas.find("orders", 0)
    assert hosted.isr == {1, 2}
    assert hosted.partition_epoch == 1


def test_acks_all_waits_for_the_isr() -> None:
    from barnabas.broker.handlers import produce
    from tests.broker.worlds.data_world import produce_request

    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = world.ask(produce, produce_request("orders", {0: batch_of(b"a")}, acks=-1), 12)
    world.tick()
    assert not waiting.done
    world.fetch(follower_fetch(1), 17)
    world.tick()
    answer = result_of(waiting, 12).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_a_lagging_follower_leaves_the_isr_and_what_waited_is_committed() -> None:
    from barnabas.broker.handlers import produce
    from tests.broker.worlds.data_world import produce_request

    world = World(options={"replica.lag.time.max.ms": "10000"})
    topic_id = world.topic("orders", replicas=[1, 2], isr=[1, 2])
    waiting = world.ask(
        produce, produce_request("orders", {0: batch_of(b"a")}, acks=-1, timeout_ms=60_000), 12
    )
    for _ in range(4):
        world.tick(5000)
    assert world.replicas.find("orders", 0).isr == {1}
    assert not waiting.done  # the controller has agreed, and the image does not say so yet
    world.change(records.PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1]))
    world.tick()
    assert result_of(waiting, 12).responses[0].partition_responses[0].error_code == 0


def test_a_fetch_of_an_earlier_life_is_refused() -> None:
    # cluster.md 10
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1])
    world.change(register(2, epoch=555))
    answer = world.fetch(follower_fetch(0, epoch=100), 17).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.replicas.find("orders", 0).proposal is None


def test_a_fetch_that_diverges_does_not_say_what_the_follower_has() -> None:
    """cluster.md 7 (KAFKA-13141): records of another leader at these offsets commit nothing."""
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1, 2])
    world.produce("orders", batch_of(b"a"))
    world.partition_change("orders", leader=2)
    world.partition_change("orders", leader=1)
    world.produce("orders", batch_of(b"b"), batch_of(b"c"))
    request = follower_fetch(3)
    request.topics[0].partitions[0].last_fetched_epoch = 1
    answer = world.fetch(request, 17).responses[0].partitions[0]
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)
    hosted = world.replicas.find("orders", 0)
    assert hosted.log is not None
    assert hosted.log.high_watermark == 0
    world.fetch(follower_fetch(1), 17)
    assert hosted.log.high_watermark == 1


# Directories


def test_the_controller_is_told_where_a_log_lies() -> None:
    world = World(dirs=("/data", "/more"))
    topic_id = world.topic("orders", directory=UNASSIGNED_DIR)
    world.topic("placed", directory=OTHER_DIRECTORY)
    world.tick()
    assert world.disk.exists("/more/placed-0")
    (asked,) = [one for one in world.metadata.asked if isinstance(one, AssignReplicasToDirsRequest)]
    assert [one.id for one in asked.directories] == [DIRECTORY]
    assert asked.directories[0].topics[0].topic_id == topic_id
    assert (asked.broker_id, asked.broker_epoch) == (BROKER, 100)


def failing_world() -> tuple[World, SimulatedDisk]:
    disk = SimulatedDisk(SeededRandom(5))
    for path in ("/data", "/more"):
        disk.make_folder(path)
    world = World(disk=disk, dirs=("/data", "/more"))
    world.topic("good", directory=OTHER_DIRECTORY)
    world.topic("bad")
    world.produce("bad", batch_of(b"a"))
    world.produce("good", batch_of(b"a"))
    return world, disk


# M-E5
def test_a_directory_that_fails_takes_its_partitions_offline_and_no_others() -> None:
    world, _ = failing_world()
    waiting = world.fetch(fetch_request("bad", {0: 1}, max_wait_ms=1000))
    world.replicas.storage.manager.fail("/data", OSError(errno.EIO, "broken"))
    world.tick()
    assert codes(partition_answers(result_of(waiting, 12)).values()) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.failed_dirs == ["/data"]
    assert code_of(world, "bad") is ErrorCode.KAFKA_STORAGE_ERROR
    assert codes(world.produce("bad", batch_of(b"b"))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert codes(world.produce("good", batch_of(b"b"))) == [ErrorCode.NONE]
    world.partition_change("bad", leader=1)
    assert code_of(world, "bad") is ErrorCode.KAFKA_STORAGE_ERROR
    found = partition_answers(world.fetch(fetch_request("bad", {0: 0}), 5))
    assert codes(found.values()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]  # clients before 6 know no other word


def test_a_log_that_may_be_in_an_offline_directory_is_not_made_anew() -> None:
    world, _ = failing_world()
    world.replicas.storage.manager.fail("/data", OSError(errno.EIO, "broken"))
    world.topic("unlucky", directory=DIRECTORY)
    assert code_of(world, "unlucky") is ErrorCode.KAFKA_STORAGE_ERROR
    world.topic("lucky", directory=UNASSIGNED_DIR)
    assert world.replicas.find("lucky", 0).is_leader
    assert world.disk.exists("/more/lucky-0")


def test_a_write_that_fails_takes_the_directory_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    # cluster.md 16: and nothing is appended to it again.
    world, _ = failing_world()
    log = world.log("bad")
    tried: list[object] = []

    def fail(*args: object) -> None:
        tried.append(args)
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(type(log.active.file()), "append", fail)
    assert codes(world.produce("bad", batch_of(b"b"))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.failed_dirs == ["/data"]
    assert codes(world.produce("bad", batch_of(b"c"))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(tried) == 1


def full_world() -> tuple[World, SimulatedDisk]:
    """A record is in `orders`, and then the disk is full."""
    disk = SimulatedDisk(SeededRandom(1))
    world = World(disk=disk)
    world.topic("orders")
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.NONE]
    fill(disk)
    return world, disk


def fill(disk: SimulatedDisk) -> None:
    disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE, Kind.CREATE}, path="/data/*", times=10**6, kept_bytes=9)


def make_room(world: World, disk: SimulatedDisk) -> None:
    disk.clear_faults()
    for _ in range(3):
        world.tick(INTERVAL_MS)
        world.settle()
    assert not world.replicas.storage.manager.full


def test_a_full_disk_refuses_writes_serves_reads_and_accepts_writes_again() -> None:
    world, disk = full_world()
    for _ in range(2):
        assert codes(world.produce("orders", batch_of(b"b"))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert world.failed_dirs == []
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0}), 10))
    assert values_in(found["orders", 0]) == [(0, b"a")]
    world.tick(INTERVAL_MS)
    world.settle()
    assert list(world.replicas.storage.manager.full) == ["/data"]
    make_room(world, disk)
    assert codes(world.produce("orders", batch_of(b"b"))) == [ErrorCode.NONE]
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0}), 10))
    assert values_in(found["orders", 0]) == [(0, b"a"), (1, b"b")]


def test_a_topic_is_deleted_and_a_new_one_waits_for_room() -> None:
    world, disk = full_world()
    assert codes(world.produce("orders", batch_of(b"b"))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.topic("late")
    assert code_of(world, "late") is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.replicas.failed_count == 1
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["orders"]))
    world.settle()
    assert code_of(world, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "orders-0" not in disk.names("/data")
    make_room(world, disk)
    assert world.replicas.failed_count == 0
    assert codes(world.produce("late", batch_of(b"c"))) == [ErrorCode.NONE]


def test_a_leader_without_space_resigns_if_the_others_can_take_writes() -> None:
    world, disk = full_world()
    disk.clear_faults()
    world.topic("three", replicas=[1, 2, 3])
    world.topic("two", replicas=[1, 2])
    world.topic("strict", replicas=[1, 2], min_insync_replicas="2")
    fill(disk)
    for topic in ("three", "two", "strict", "orders"):
        assert codes(world.produce(topic, batch_of(b"b"), acks=1)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    world.settle()
    asked = [one for one in world.metadata.asked if isinstance(one, AlterPartitionRequest)]
    proposed = {
        topic.topic_id: [member.broker_id for member in topic.partitions[0].new_isr_with_epochs]
        for one in asked
        for topic in one.topics
    }
    ids = {name: world.image.topic_ids[name] for name in ("three", "two", "strict")}
    assert proposed == {ids["three"]: [2, 3], ids["two"]: [2]}


# Transitions that fail


def plant(monkeypatch: pytest.MonkeyPatch, *names: str, method: str = "lead", times: int = 1) -> list[str]:
    """Makes a transition of these partitions raise so often; returns the list of failures."""
    raised: list[str] = []
    healthy = getattr(Hosted, method)

    def faulty(self: Hosted, *given: object) -> object:
        name = f"{self.topic}-{self.index}"
        if name in names and raised.count(name) < times:
            raised.append(name)
            raise ZeroDivisionError(f"planted for {name}")
        return healthy(self, *given)

    monkeypatch.setattr(Hosted, method, faulty)
    return raised


def test_one_partition_that_fails_in_a_delta_fails_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F6: it and all later ones of the delta stayed unserved, though CreateTopics had said ok."""
    world = World()
    plant(monkeypatch, "orders-1")
    world.topic("orders", 4)
    for index in (0, 2, 3):
        assert codes(world.produce("orders", batch_of(b"a"), index=index)) == [ErrorCode.NONE]
    assert codes(world.produce("orders", batch_of(b"a"), index=1)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert code_of(world, "orders", 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders-1 could not become leader" in caplog.text
    assert "planted for orders-1" in caplog.text
    assert world.replicas.failed_count == 1
    assert not world.failed_dirs, "the directory is not to blame"


def test_what_failed_is_tried_again_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: nothing tried again what a fault had left unserved."""
    world = World()
    raised = plant(monkeypatch, "orders-0", times=3)
    world.topic("orders", 1)
    for ms in (FIRST_RETRY_MS, 2 * FIRST_RETRY_MS):
        world.tick(ms)
        assert code_of(world, "orders") is ErrorCode.KAFKA_STORAGE_ERROR
    world.tick(4 * FIRST_RETRY_MS)
    assert len(raised) == 3
    hosted = world.replicas.find("orders", 0)
    assert (hosted.is_leader, hosted.leader_epoch, hosted.leader_epoch_start) == (True, 0, 0)
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.NONE]
    assert world.replicas.failed_count == 0
    assert world.replicas.traffic["orders"].partitions == 1


def test_a_partition_in_use_keeps_its_records_and_its_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.topic("orders", replicas=[1, 2], isr=[1])
    world.produce("orders", batch_of(b"a", b"b"))
    log = world.log("orders")
    assert log.high_watermark == 2
    plant(monkeypatch, "orders-0")
    world.partition_change("orders", leader=BROKER)
    assert code_of(world, "orders") is ErrorCode.KAFKA_STORAGE_ERROR
    world.tick(FIRST_RETRY_MS)
    assert world.log("orders") is log
    assert (log.end_offset, log.high_watermark) == (2, 2)
    assert world.replicas.find("orders", 0).leader_epoch == 1


def test_a_later_delta_is_a_new_try(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    plant(monkeypatch, "orders-0")
    world.topic("orders", replicas=[1, 2])
    world.partition_change("orders", leader=2)
    hosted = world.replicas.find("orders", 0)
    assert (hosted.is_leader, hosted.leader) == (False, 2)
    assert world.replicas.failed_count == 0


def test_a_removal_that_failed_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    topic_id = world.topic("orders", 2)
    with monkeypatch.context() as patch:
        plant(patch, "orders-0", method="lose_log", times=9)
        world.change(records.RemoveTopicRecord(topic_id=topic_id))
        assert world.replicas.failed_count == 1
        assert "orders-1" not in world.disk.names("/data")
        assert "orders-0" in world.disk.names("/data")
    world.tick(FIRST_RETRY_MS)
    assert world.replicas.failed_count == 0
    assert "orders-0" not in world.disk.names("/data")
    world.settle()
    world.topic("orders", 1)
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.NONE]


def test_a_failed_partition_whose_topic_is_deleted_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    plant(monkeypatch, "orders-0", times=1)
    old = world.topic("orders", 1)
    world.change(records.RemoveTopicRecord(topic_id=old))
    new = world.topic("orders", 1)
    world.settle()
    assert world.replicas.find("orders", 0).topic_id == new
    world.tick(FIRST_RETRY_MS)
    assert world.replicas.find("orders", 0).topic_id == new
    assert codes(world.produce("orders", batch_of(b"a"))) == [ErrorCode.NONE]


def test_every_transition_has_its_own_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """As LeaderAndIsr and StopReplica answer."""
    disk = MemoryDisk()
    world = World(disk=disk, dirs=("/data", "/more"))
    world.topic("orders", 3)
    world.replicas.storage.manager.fail("/more", OSError(errno.EIO, "gone"))
    topic_id = world.image.topic_ids["orders"]
    topic = world.image.topics[topic_id]
    lost = replace(topic.partitions[1], directories=(OTHER_DIRECTORY,))
    transitions = [
        Transition(Become.FOLLOWER, "orders", topic_id, 0, replace(topic.partitions[0], leader=2)),
        Transition(Become.LEADER, "unknown", Uuid.from_words(4, 4), 0, lost),
        Transition(Become.LEADER, "orders", topic_id, 1, topic.partitions[1]),
        Transition(Become.REMOVED, "orders", topic_id, 2, None),
    ]
    plant(monkeypatch, "orders-1")
    heard: list[object] = []
    world.replicas.transitions.carry_out(transitions).then(heard.append, heard.append)
    (results,) = heard
    assert isinstance(results, list)
    assert [result.transition for result in results] == transitions
    assert [result.error for result in results] == [
        ErrorCode.NONE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NONE,
    ]
    assert not world.replicas.find("orders", 0).is_leader
    assert ("orders", 2) not in world.replicas.partitions


def test_a_fault_at_the_start_leaves_the_others_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: the same walk makes leaders when a broker starts."""
    disk = MemoryDisk()
    world = World(disk=disk, start=False)
    world.topic("orders", 3)
    plant(monkeypatch, "orders-0")
    world.start()
    assert code_of(world, "orders", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    for index in (1, 2):
        assert codes(world.produce("orders", batch_of(b"a"), index=index)) == [ErrorCode.NONE]
    world.tick(FIRST_RETRY_MS)
    assert world.replicas.find("orders", 0).is_leader


def test_options_that_one_partition_cannot_take_reach_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F6: a fault of one partition left all later ones with their old options."""
    world = World()
    world.topic("orders", 3)
    plant(monkeypatch, "orders-0", method="set_min_isr", times=2)
    world.change(config("orders", "min.insync.replicas", "2"))
    assert [world.replicas.find("orders", index).min_isr for index in range(3)] == [1, 2, 2]
    assert "orders-0 keeps its old options" in caplog.text


def test_a_directory_that_fails_takes_all_its_partitions_offline_whoever_fails_to_hear_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F6 once more: one listener's fault left the other partitions of the directory in service."""
    world = World()
    world.topic("orders", 3)

    def fault(partition: Hosted) -> None:
        raise ZeroDivisionError(f"planted for {partition.name}")

    world.replicas.on_changed.append(fault)
    world.replicas.storage.manager.fail("/data", OSError(errno.EIO, "gone"))
    assert {code_of(world, "orders", index) for index in range(3)} == {ErrorCode.KAFKA_STORAGE_ERROR}
    assert world.failed_dirs == ["/data"]
    assert "orders-2: a listener failed" in caplog.text


def test_a_listener_that_fails_keeps_no_other_from_hearing_of_a_failed_directory() -> None:
    """F5, of its kind: one listener that failed left the later ones without the news."""
    world = World()
    world.topic("orders", 3)
    replicas = world.replicas

    def broken(path: str, directory_id: Uuid | None) -> None:
        raise RuntimeError("planted")

    replicas.on_dir_failed.insert(0, broken)
    with pytest.raises(RuntimeError, match="planted"):
        replicas.storage.manager.fail("/data", OSError(errno.EIO, "broken"))
    assert [replicas.partitions["orders", index].is_offline for index in range(3)] == [True] * 3
    assert world.failed_dirs == ["/data"]
