"""All logs of a broker: opened, made, moved, deleted, failed, closed."""

from __future__ import annotations

import contextlib
import errno
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.runtime.disk.disk import SYNCED_ONE_BY_ONE_MAX, Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind, PowerLost
from barnabas.storage.directories.checkpoints import MAX_POSSIBLE
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import before_log_start
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_truncation import truncate_log
from barnabas.storage.refused import StorageRefused
from tests.storage.logs import T0, HandClock
from tests.storage.worlds import COMPACTED, compacted_log, contents, manager_of, put

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPIC_ID = Uuid.parse("k4UaK_bzSu6FNC6colHb3w")
DIR_ID = Uuid.parse("QNZvo6frfTevFH-wvw6L1w")


def with_directory_ids(disk: Disk, ids: dict[str, Uuid]) -> LogManager:
    dirs = LogDirs(disk, list(ids))
    dirs.open()
    manager = LogManager(disk, HandClock(), SeededRandom(1), dirs, lambda topic: COMPACTED, directory_ids=ids)
    manager.open()
    return manager


# Opening and closing


def test_a_clean_stop_and_start_gives_everything_back() -> None:
    # M-E4
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, topic_id=TOPIC_ID, is_new=True)
    put(log, (b"k", b"1"), (b"k", b"2"), (b"l", b"3"))
    log.advance_log_start(1)
    manager.close(broker_epoch=42)
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\na 0 3\n"
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\na 0 1\n"
    assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n1\na 0 3\n"
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    again = manager_of(disk)
    assert again.live["/data"].was_clean
    assert again.checkpointed_high_watermarks == {A0: 3}
    assert not disk.exists("/data/.kafka_cleanshutdown"), "a crash from now on is no clean stop"
    log = again.logs[A0]
    assert (log.log_start_offset, log.end_offset, log.recovery_point) == (1, 3, 3)
    assert again.topic_ids == {A0: TOPIC_ID}


@pytest.mark.parametrize("seed", range(6))
def test_many_logs_are_closed_with_one_sync_and_outlive_a_power_loss(seed: int) -> None:
    # M-E4
    disk = SimulatedDisk(SeededRandom(seed))
    manager = manager_of(disk)
    partitions = [TopicPartition("many", number) for number in range(SYNCED_ONE_BY_ONE_MAX + 8)]
    for number, partition in enumerate(partitions):
        log = manager.get_or_create(partition, topic_id=TOPIC_ID, is_new=True)
        if number % 2:
            put(log, (b"k", b"%d" % number))
    ends = {partition: log.end_offset for partition, log in manager.logs.items()}
    manager.close(broker_epoch=42)
    disk.power_loss()
    disk.restart()
    again = manager_of(disk)
    assert again.live["/data"].was_clean
    assert {partition: log.end_offset for partition, log in again.logs.items()} == ends
    assert {log.recovery_point - log.end_offset for log in again.logs.values()} == {0}
    assert again.topic_ids == dict.fromkeys(partitions, TOPIC_ID)
    written = [log for log in again.logs.values() if log.end_offset]
    assert {tuple(log.epochs.entries) for log in written} == {((0, 0),)}
    assert contents(again.logs[partitions[1]]) == [(0, b"k", b"1")]


def test_a_fresh_directory_has_apache_kafkas_files_and_one_of_ours() -> None:
    # M-E1
    disk = MemoryDisk()
    manager_of(disk)
    names = [
        ".lock",
        "cleaner-offset-checkpoint",
        "gap-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert disk.names("/data") == names
    # Our own says that no log has gaps: without a word it would say nothing.
    assert disk.read_bytes("/data/gap-offset-checkpoint") == b"0\n0\n"
    names.remove("gap-offset-checkpoint")
    assert all(disk.size(f"/data/{name}") == 0 for name in names)


def test_after_a_crash_logs_are_recovered_with_progress() -> None:
    # M-E4
    disk = MemoryDisk()
    manager = manager_of(disk)
    for partition in (A0, A1, B0):
        put(manager.get_or_create(partition, is_new=True), (b"k", b"1"))
    dirs = LogDirs(disk, ["/data"])
    manager.dirs.close()
    dirs.open()
    again = LogManager(disk, HandClock(), SeededRandom(1), dirs, lambda topic: COMPACTED)
    assert all(call.is_done for call in list(again.load()))
    assert (again.loading.opened, again.loading.total) == (3, 3)
    assert set(again.logs) == {A0, A1, B0}
    assert all(contents(log) == [(0, b"k", b"1")] for log in again.logs.values())
    assert not again.live["/data"].was_clean


def test_a_start_that_is_interrupted_is_no_clean_stop() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    for partition in (A0, B0):
        put(manager.get_or_create(partition, is_new=True), (b"k", b"1"))
    manager.dirs.close()
    dirs = LogDirs(disk, ["/data"])
    dirs.open()
    half = LogManager(disk, HandClock(), SeededRandom(1), dirs, lambda topic: COMPACTED)
    next(half.load())
    half.close()
    assert not disk.exists("/data/.kafka_cleanshutdown"), "the second log was never recovered"


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"],
)
def test_a_damaged_checkpoint_costs_time_not_data(name: str, caplog: pytest.LogCaptureFixture) -> None:
    # M-E4
    disk = MemoryDisk()
    manager = manager_of(disk)
    put(manager.get_or_create(A0, is_new=True), (b"k", b"1"))
    manager.close()
    disk.write_atomically(f"/data/{name}", b"0\n1\ngarbage\n")
    again = manager_of(disk)
    assert f"/data/{name}, line 3: malformed entry 'garbage'; " in caplog.text
    assert contents(again.logs[A0]) == [(0, b"k", b"1")]


def test_recorded_folders_of_apache_kafka_open(golden_logs: Path, tmp_path: Path) -> None:
    # M-E1
    folder = tmp_path / "data"
    shutil.copytree(golden_logs / "kraft-4.1.0" / "data", folder)
    manager = manager_of(FolderDisk(), str(folder), options=LogOptions())
    assert manager.live[str(folder)].was_clean
    assert len(manager.logs) == 17
    assert manager.logs[TopicPartition("plain", 0)].log_start_offset == 1
    assert manager.checkpointed_high_watermarks[TopicPartition("txn", 0)] == 10
    assert len(manager.folders_to_delete) == 3
    assert all(log.recovery_point == log.end_offset for log in manager.logs.values())
    manager.close(10)


def test_a_damaged_partition_metadata_takes_its_directory_offline() -> None:
    # M-E5
    disk = MemoryDisk()
    manager = manager_of(disk, "/x", "/y")
    for partition in (A0, A1):
        manager.get_or_create(partition, is_new=True)
    manager.close()
    disk.write_atomically("/x/a-0/partition.metadata", b"version: 0\ntopic_id: what")
    again = manager_of(disk, "/x", "/y")
    assert again.dirs.offline["/x"].startswith("/x/a-0/partition.metadata, line 2: the id 'what'")
    assert list(again.logs) == [A1]


def test_a_folder_that_does_not_belong_refuses_the_start() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data/lost+found")
    with pytest.raises(StorageRefused, match=r"^/data: the folder 'lost\+found' is not of the form"):
        manager_of(disk)


def test_a_partition_in_two_directories_refuses_the_start() -> None:
    disk = MemoryDisk()
    for log_dir in ("/x", "/y"):
        manager = manager_of(disk, log_dir)
        manager.get_or_create(A0, is_new=True)
        manager.close()
    with pytest.raises(StorageRefused, match=r"the partition a-0 is in both /x/a-0 and /y/a-0"):
        manager_of(disk, "/x", "/y")


# Making


def test_new_partitions_spread_over_the_directories() -> None:
    # M-E1
    manager = manager_of(MemoryDisk(), "/x", "/y", "/z")
    for number in range(7):
        manager.get_or_create(TopicPartition("t", number), is_new=True)
    counts = [len(manager.logs_in(log_dir)) for log_dir in ("/x", "/y", "/z")]
    assert counts == [3, 2, 2]
    assert manager.get_or_create(TopicPartition("t", 3)) is manager.logs[TopicPartition("t", 3)]


def test_a_wanted_directory_is_taken() -> None:
    other = Uuid.parse("RxgtMUQgSieL2aL8kgzE3w")
    manager = with_directory_ids(MemoryDisk(), {"/x": other, "/y": DIR_ID})
    assert manager.get_or_create(A0, is_new=True, directory_id=DIR_ID).folder == "/y/a-0"
    manager.prefer(A1, "/y")
    assert manager.get_or_create(A1, is_new=True, directory_id=other).folder == "/y/a-1"
    assert manager.get_or_create(B0, is_new=True).folder == "/x/b-0"
    with pytest.raises(KafkaError) as refusal:
        manager.prefer(B0, "/nowhere")
    assert refusal.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_the_topic_id_is_written_and_must_not_change() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    manager.get_or_create(A0, is_new=True)
    manager.get_or_create(A0, topic_id=TOPIC_ID)
    manager.write_topic_ids()
    assert disk.read_bytes("/data/a-0/partition.metadata") == b"version: 0\ntopic_id: k4UaK_bzSu6FNC6colHb3w"
    assert manager.take_unwritten_ids() == []
    with pytest.raises(KafkaError) as refusal:
        manager.get_or_create(A0, topic_id=DIR_ID)
    assert refusal.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


# Failing


def failing_world() -> tuple[SimulatedDisk, LogManager, list[object]]:
    disk = SimulatedDisk(SeededRandom(1))
    manager = manager_of(disk, "/x", "/y", options=replace(COMPACTED, segment_index_bytes=240))
    for partition in (A0, A1):
        put(manager.get_or_create(partition, is_new=True), (b"k", b"1"))
    reported: list[object] = []
    manager.on_offline(lambda *what: reported.append(what))
    return disk, manager, reported


def test_a_failed_directory_takes_its_partitions_offline_not_the_broker() -> None:
    # M-E5
    disk, manager, reported = failing_world()
    disk.fail(1, errno.EIO, kinds={Kind.WRITE, Kind.CREATE}, path="/x/*", times=99)
    manager.checkpoint_recovery_points("/x")
    reason = "/x: the device reports an input/output error; check it and restart"
    assert reported == [("/x", reason, [A0])]
    assert list(manager.logs) == [A1]
    assert contents(manager.logs[A1]) == [(0, b"k", b"1")]
    with pytest.raises(KafkaError, match=r"may be in a directory that is offline: /x") as refusal:
        manager.get_or_create(A0)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.get_or_create(B0, is_new=True).folder == "/y/b-0"
    with pytest.raises(KafkaError, match=r"offline"):
        manager.delete(A0)
    manager.close()
    assert not disk.exists("/x/.kafka_cleanshutdown")
    assert disk.exists("/y/.kafka_cleanshutdown")


def test_a_directory_that_cannot_take_a_new_log_fails_and_the_next_takes_it() -> None:
    # M-E5
    disk, manager, reported = failing_world()
    disk.fail(1, errno.EROFS, kinds={Kind.MAKE_FOLDER}, path="/x/*", times=99)
    assert manager.get_or_create(B0, is_new=True).folder == "/y/b-0"
    assert len(reported) == 1
    disk.fail(1, errno.ENOSPC, kinds={Kind.MAKE_FOLDER}, path="/y/*", times=99)
    with pytest.raises(KafkaError, match=r"no log directory can take c-0; tried /y"):
        manager.get_or_create(TopicPartition("c", 0), is_new=True)


def test_a_topic_recreated_after_its_directory_failed_has_its_own_id() -> None:
    # M-E5
    disk, manager, _ = failing_world()
    for partition, log_dir in ((A0, "/x"), (A1, "/y")):
        assert manager.get_or_create(partition, topic_id=TOPIC_ID).folder.startswith(log_dir)
    manager.prefer(B0, "/x")
    manager.fail("/x", OSError(errno.EIO, "broken"))
    assert manager.topic_ids == {A1: TOPIC_ID}
    assert manager.get_or_create(A0, topic_id=DIR_ID, is_new=True).folder == "/y/a-0"
    assert manager.get_or_create(B0, is_new=True).folder == "/y/b-0", "the wish for /x is in vain"
    manager.write_topic_ids()
    assert disk.read_bytes("/y/a-0/partition.metadata").endswith(str(DIR_ID).encode())


def test_ids_of_a_directory_that_fails_while_it_is_opened_are_forgotten() -> None:
    # M-E5
    disk, manager, _ = failing_world()
    manager.get_or_create(A0, topic_id=TOPIC_ID)
    manager.close()
    disk.fail(1, errno.EIO, kinds={Kind.OPEN}, path="/x/a-0/*.log", times=99)
    again = manager_of(disk, "/x", "/y")
    assert again.topic_ids == {}
    assert again.get_or_create(A0, topic_id=DIR_ID, is_new=True).folder == "/y/a-0"


def test_a_future_log_that_outlived_its_partition_takes_the_id_along() -> None:
    manager = manager_of(MemoryDisk(), "/x", "/y")
    manager.get_or_create(A0, topic_id=TOPIC_ID, is_new=True)
    manager.prefer(A0, "/y")
    manager.get_or_create(A0, future=True)
    manager.fail("/x", OSError(errno.EIO, "broken"))
    assert manager.topic_ids == {A0: TOPIC_ID}
    manager.delete(A0, future=True)
    assert manager.topic_ids == {}


def test_a_topic_id_that_is_refused_leaves_no_log_behind() -> None:
    manager = manager_of(MemoryDisk(), "/x", "/y")
    manager.get_or_create(A0, topic_id=TOPIC_ID, is_new=True)
    manager.prefer(A0, "/y")
    with pytest.raises(KafkaError, match=r"belongs to the topic id k4UaK_bzSu6FNC6colHb3w"):
        manager.get_or_create(A0, topic_id=DIR_ID, future=True)
    assert manager.futures == {}


def test_a_directory_that_fails_while_it_is_opened_is_offline() -> None:
    # M-E5
    disk, manager, _ = failing_world()
    manager.close()
    disk.fail(1, errno.EIO, kinds={Kind.OPEN}, path="/x/a-0/*.log", times=99)
    again = manager_of(disk, "/x", "/y")
    assert list(again.logs) == [A1]
    assert list(again.live) == ["/y"]


def test_when_the_last_directory_fails_at_start_it_is_refused() -> None:
    # M-E5
    disk, manager, _ = failing_world()
    manager.close()
    disk.fail(1, errno.EIO, kinds={Kind.REMOVE}, times=99)
    with pytest.raises(StorageRefused, match=r"no log directory is left: /x: the device .*; /y: the device"):
        manager_of(disk, "/x", "/y")


def test_a_stop_during_which_a_directory_fails_does_not_mark_it_clean() -> None:
    # M-E4
    disk, manager, _ = failing_world()
    disk.fail(1, errno.EIO, kinds={Kind.SYNC}, path="/x/a-0/*", times=99)
    manager.close()
    assert not disk.exists("/x/.kafka_cleanshutdown")
    assert disk.exists("/y/.kafka_cleanshutdown")


# Changing


def test_a_deleted_partition_is_renamed_and_forgotten() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, topic_id=TOPIC_ID, is_new=True)
    put(log, (b"k", b"1"))
    manager.get_or_create(B0, is_new=True)
    manager.delete(A0)
    (name,) = [name for name in disk.names("/data") if name.endswith("-delete")]
    assert len(name) == len("a-0.") + 32 + len("-delete")
    assert manager.folders_to_delete == [(T0, f"/data/{name}")]
    assert A0 not in manager.logs
    assert A0 not in manager.topic_ids
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nb 0 0\n"
    manager.delete(A0)
    # The same name can be used again at once, and a restart still removes the old folder.
    manager.get_or_create(A0, is_new=True)
    manager.close()
    again = manager_of(disk)
    assert [folder for _, folder in again.folders_to_delete] == [f"/data/{name}"]
    assert set(again.logs) == {A0, B0}


def test_a_stray_partition_is_kept_out_of_the_way(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    for partition in (A0, B0):
        manager.get_or_create(partition, topic_id=TOPIC_ID, is_new=True)
    manager.delete(B0, stray=True)
    manager.close()
    dirs = LogDirs(disk, ["/data"])
    dirs.open()
    again = LogManager(disk, HandClock(), SeededRandom(9), dirs, lambda topic: COMPACTED)
    for _ in again.load(is_stray=lambda partition, topic_id: partition == A0 and topic_id == TOPIC_ID):
        pass
    assert again.logs == {}
    assert sorted(again.strays) == [A0, B0]
    assert all(folder.endswith("-stray") and disk.is_folder(folder) for folder in again.strays.values())
    assert caplog.text.count("is no partition of this broker") == 2


def truncate(manager: LogManager, partition: TopicPartition, offset: int, **fields: int) -> None:
    for _ in truncate_log(manager, partition, offset, **fields):  # type: ignore[arg-type]
        pass


def test_truncation_moves_the_checkpoints() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    for value in (b"1", b"2", b"3"):
        put(log, (b"k", value))
        log.roll()
    log.flush()
    assert manager.cleaner is not None
    while manager.cleaner.step() == 0:
        pass
    assert manager.cleaner.clean_up_to(A0) == 3
    manager.checkpoint_recovery_points("/data")
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\na 0 3\n"
    truncate(manager, A0, 1)
    assert (log.end_offset, manager.cleaner.clean_up_to(A0)) == (1, 0)
    # The segment that was cut is the active one again, and read again after a crash.
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\na 0 0\n"
    truncate(manager, A0, 10, log_start_offset=10)
    assert (log.log_start_offset, log.end_offset) == (10, 10)
    truncate(manager, B0, 0)


def test_truncation_writes_no_checkpoint_that_claims_nothing_of_it() -> None:
    """With ten thousand logs each is long, and after an election as many logs may be truncated."""
    disk = SimulatedDisk(SeededRandom(1))
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    for value in (b"1", b"2", b"3"):
        put(log, (b"k", value))
    log.flush()
    manager.checkpoint_recovery_points("/data")
    disk.journal.clear()
    truncate(manager, A0, 1)
    put(log, (b"k", b"4"))
    assert log.end_offset == 2
    written = {operation.path.rpartition("/")[2] for operation in disk.journal}
    assert written
    assert not {name for name in written if name.startswith("recovery-point")}, written
    disk.power_loss()
    disk.restart()
    assert manager_of(disk).logs[A0].end_offset >= 1


def test_truncation_takes_back_a_recovery_point_whose_write_waits() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    put(log, (b"k", b"1"), (b"k", b"2"))
    log.roll()
    log.flush()
    late = manager.live["/data"].plan_recovery_points(manager.logs)
    truncate(manager, A0, 1)
    late()
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\na 0 0\n"


def test_recovery_points_that_cannot_be_written_do_not_pile_up() -> None:
    disk = SimulatedDisk(SeededRandom(1))
    manager = manager_of(disk)
    points = manager.live["/data"].recovery_points
    points.write({A0: 7})
    disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE, Kind.CREATE}, path="/data/*", times=10**6)
    for number in range(100):
        with pytest.raises(DirectoryFull):
            points.write({A0: number % 5, A1: 9})
    assert len(points._possible) <= MAX_POSSIBLE
    assert points.may_exceed(A0, 6), "this is in the file still"
    assert points.may_exceed(A1, 8)
    disk.clear_faults()
    points.write({A0: 3})
    assert not points.may_exceed(A0, 3)
    assert not points.may_exceed(A1, 0)


def test_a_log_start_that_is_written_late_releases_no_epochs_of_a_namesake() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    put(log, (b"k", b"1"), (b"k", b"2"))
    log.advance_log_start(1)
    directory = manager.live["/data"]
    late = directory.plan_log_starts(manager.logs)
    directory.plan_log_starts({})()  # it was deleted
    late()
    other = compacted_log()
    put(other, (b"k", b"1"), (b"k", b"2"), (b"k", b"3"))
    other.advance_log_start(2)
    directory.plan_log_starts({A0: other})
    assert other.epochs._deleted == [(0, 0)]


def test_truncation_removes_an_epoch_without_records_from_the_file() -> None:
    """A broker that led an epoch without a record follows: batches of earlier epochs come, and the append,
    on the loop, must not have to sync the epochs."""
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    log.assign_epoch(4, 0)
    log.flush()
    log.epochs.write_out()
    assert b"4 0" in disk.read_bytes(f"{log.folder}/leader-epoch-checkpoint")
    truncate(manager, A0, 0)
    assert b"4 0" not in disk.read_bytes(f"{log.folder}/leader-epoch-checkpoint")


def test_a_future_log_takes_the_place_of_the_current_one() -> None:
    """KIP-113."""
    disk = MemoryDisk()
    manager = manager_of(disk, "/x", "/y")
    current = manager.get_or_create(A0, topic_id=TOPIC_ID, is_new=True)
    put(current, (b"k", b"1"))
    with pytest.raises(ValueError, match=r"needs a current log and another directory"):
        manager.get_or_create(A0, future=True)
    manager.prefer(A0, "/y")
    future = manager.get_or_create(A0, future=True)
    assert future.folder.startswith("/y/a-0.")
    assert future.folder.endswith("-future")
    put(future, (b"k", b"1"))
    manager.replace_with_future(A0)
    assert manager.logs == {A0: future}
    assert manager.futures == {}
    assert future.folder == "/y/a-0"
    assert [folder[:6] for _, folder in manager.folders_to_delete] == ["/x/a-0"]
    assert contents(future) == [(0, b"k", b"1")]
    manager.close()
    assert contents(manager_of(disk, "/x", "/y").logs[A0]) == [(0, b"k", b"1")]


def test_a_future_log_is_found_again() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk, "/x", "/y")
    manager.get_or_create(A0, is_new=True)
    manager.prefer(A0, "/y")
    manager.get_or_create(A0, future=True)
    manager.close()
    again = manager_of(disk, "/x", "/y")
    assert list(again.logs) == list(again.futures) == [A0]


def test_log_starts_within_the_first_segment_only_are_checkpointed() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    for partition in (A0, A1):
        log = manager.get_or_create(partition, is_new=True)
        put(log, (b"k", b"1"), (b"l", b"1"))
    manager.logs[A1].advance_log_start(1)
    manager.checkpoint_log_starts("/data")
    manager.checkpoint_high_watermarks("/data")
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\na 1 1\n"
    assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n2\na 0 2\na 1 2\n"


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_leader_epochs_of_deleted_records_stay_on_file_until_the_log_start_is_in_its_checkpoint(
    is_checkpointed: bool,
) -> None:
    disk = SimulatedDisk(SeededRandom(1))
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    put(log, (b"k", b"1"), (b"k", b"2"))
    log.assign_epoch(7, 2)
    log.append_as_leader(build([Record(0, T0, b"k", b"3"), Record(1, T0, b"k", b"4")]), 7)
    log.set_high_watermark(4)
    log.advance_log_start(3)
    if is_checkpointed:
        manager.checkpoint_log_starts("/data")
    log.flush()
    manager.checkpoint_recovery_points("/data")
    kept = b"0\n1\n7 3\n" if is_checkpointed else b"0\n2\n0 0\n7 2\n"
    assert disk.open(f"{log.folder}/leader-epoch-checkpoint").read_at(0, 100) == kept
    disk.power_loss()
    disk.restart()
    again = manager_of(disk).logs[A0]
    assert again.log_start_offset == (3 if is_checkpointed else 0)
    assert again.end_offset_for_epoch(0) == (0, 3 if is_checkpointed else 2)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_log_start_stays_in_its_checkpoint_until_the_removed_segment_cannot_come_back(
    is_killed: bool,
) -> None:
    """Otherwise the segment would come back without its epochs, and epoch 0 would seem to end at 3, not at 2."""
    came_back = 0
    for seed in range(10):
        disk = SimulatedDisk(SeededRandom(seed))
        manager = manager_of(disk)
        log = manager.get_or_create(A0, is_new=True)
        put(log, (b"k", b"1"), (b"k", b"2"))
        log.assign_epoch(7, 2)
        log.append_as_leader(build([Record(0, T0, b"k", b"3"), Record(1, T0, b"k", b"4")]), 7)
        log.roll()
        log.set_high_watermark(4)
        log.flush()
        log.advance_log_start(3)
        manager.checkpoint_log_starts("/data")
        log.epochs.write_out()
        assert log.remove_segments([log.segments[0]], "of a test") == 1
        if is_killed:
            manager.checkpoint_log_starts("/data")
            disk.restart()
            manager = manager_of(disk)
        manager.checkpoint_log_starts("/data")
        disk.power_loss()
        disk.restart()
        again = manager_of(disk)
        log = again.logs[A0]
        came_back += log.segments[0].base_offset == 0
        assert log.log_start_offset == 4
        log.remove_segments(before_log_start(log), "of a test")
        log.append_as_leader(build([Record(0, T0, b"k", b"5")]), 7)
        log.flush()
        again.checkpoint_log_starts("/data")
        assert disk.open("/data/log-start-offset-checkpoint").read_at(0, 100) == b"0\n0\n"
    assert came_back > 0


def test_a_clean_stop_leaves_no_leader_epochs_of_deleted_records() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk)
    log = manager.get_or_create(A0, is_new=True)
    put(log, (b"k", b"1"), (b"k", b"2"))
    log.assign_epoch(7, 2)
    log.set_high_watermark(2)
    log.advance_log_start(2)
    manager.close()
    assert disk.read_bytes(f"{log.folder}/leader-epoch-checkpoint") == b"0\n1\n7 2\n"


def test_the_mark_needs_logs_that_were_opened() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    directory = LogDir(disk, "/data", None)
    directory.open()
    directory.mark_clean(3)
    assert not disk.exists("/data/.kafka_cleanshutdown")
    directory.is_loaded = True
    directory.mark_clean(3)
    assert disk.exists("/data/.kafka_cleanshutdown")


def test_opening_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        manager_of(MemoryDisk())
        assert "opening" not in caplog.text
        disk = MemoryDisk()
        disk.make_folder("/data/t-0")
        manager_of(disk)
    assert "/data: opening 1 logs, which were not closed cleanly and are recovered" in caplog.text


# Power loss


def test_power_loss_anywhere_keeps_what_was_flushed() -> None:
    """After every operation of a life: make, append, flush, settle, checkpoint, clean, delete, stop, start."""
    # M-E4
    total = 10**6
    count = 0
    while count < total:
        count += 1
        disk = SimulatedDisk(SeededRandom(count))
        flushed: dict[TopicPartition, int] = {}
        deleted: set[TopicPartition] = set()
        disk.crash_after(count)
        try:
            live(disk, flushed, deleted)
            total = min(total, disk.operations)
            disk.power_loss()
        except PowerLost:
            pass
        disk.clear_faults()
        disk.restart()
        again = manager_of(disk, "/x", "/y", options=TINY)
        assert not again.dirs.offline, (count, again.dirs.offline)
        for partition, end_offset in flushed.items():
            if partition not in deleted:
                log = again.logs[partition]
                assert log.end_offset >= end_offset, (count, partition)
                assert {key for _, key, _ in contents(log)} >= {b"k", b"l"}, (count, partition)
    assert total > 150


def test_the_clean_mark_comes_after_all_that_it_vouches_for() -> None:
    """Whenever the power fails during a stop: where the mark is, the checkpoints are those of the stop."""
    marks = 0
    for count in range(1, 200):
        disk = SimulatedDisk(SeededRandom(count))
        manager = manager_of(disk)
        log = manager.get_or_create(A0, is_new=True)
        put(log, (b"k", b"1"), (b"k", b"2"), (b"l", b"3"))
        log.flush()
        log.advance_log_start(1)
        disk.crash_after(count)
        with contextlib.suppress(PowerLost):
            manager.close()
            disk.power_loss()
        disk.clear_faults()
        disk.restart()
        if disk.exists("/data/.kafka_cleanshutdown"):
            marks += 1
            again = manager_of(disk)
            assert again.logs[A0].log_start_offset == 1, count
            assert again.checkpointed_high_watermarks == {A0: 3}, count
            assert again.logs[A0].recovery_point == 3, count
    assert marks > 100


TINY = replace(COMPACTED, segment_index_bytes=240)


def live(disk: SimulatedDisk, flushed: dict[TopicPartition, int], deleted: set[TopicPartition]) -> None:
    manager = manager_of(disk, "/x", "/y", options=TINY)
    for partition in (A0, A1, B0):
        log = manager.get_or_create(partition, topic_id=TOPIC_ID, is_new=True)
        put(log, (b"k", b"1"), (b"l", b"2"))
        log.roll()
        put(log, (b"k", b"3"))
        log.roll()
        log.flush()
        flushed[partition] = log.end_offset
    manager.write_topic_ids()
    for log_dir in ("/x", "/y"):
        manager.checkpoint_recovery_points(log_dir)
        manager.checkpoint_log_starts(log_dir)
    assert manager.cleaner is not None
    while manager.cleaner.step() == 0:
        pass
    deleted.add(B0)
    manager.delete(B0)
    manager.close(3)
    manager = manager_of(disk, "/x", "/y", options=TINY)
    assert all(directory.was_clean for directory in manager.live.values())
    put(manager.logs[A0], (b"k", b"4"))
    manager.close(4)


def test_a_new_partition_does_not_inherit_the_checkpoints_of_a_deleted_one() -> None:
    # M-E4: the power fails after the folder was renamed and before the checkpoints were written.
    disk = SimulatedDisk(SeededRandom(1))
    manager = manager_of(disk)
    put(manager.get_or_create(A0, is_new=True), *[(b"k", b"%d" % number) for number in range(9)])
    manager.logs[A0].flush()
    manager.logs[A0].advance_log_start(7)
    manager.checkpoint_log_starts("/data")
    manager.checkpoint_recovery_points("/data")
    disk.fail(1, errno.EIO, kinds=(Kind.CREATE,), path="*recovery-point*")
    manager.delete(A0)
    disk.clear_faults()
    disk.restart()
    again = manager_of(disk)
    put(again.get_or_create(A0, is_new=True), (b"k", b"new"))
    disk.restart()
    last = manager_of(disk)
    assert contents(last.logs[A0]) == [(0, b"k", b"new")]
    assert last.logs[A0].log_start_offset == 0


def test_folders_of_a_killed_process_last_once_their_logs_are_flushed() -> None:
    # M-E4
    disk = SimulatedDisk(SeededRandom(2))
    put(manager_of(disk).get_or_create(A0, is_new=True), (b"k", b"1"))
    disk.restart()
    manager_of(disk).logs[A0].flush()
    disk.power_loss()
    disk.restart()
    assert contents(manager_of(disk).logs[A0]) == [(0, b"k", b"1")]


def test_many_deletions_share_the_waiting_for_the_device() -> None:
    disk = MemoryDisk()
    manager = manager_of(disk, "/x")
    partitions = [TopicPartition("orders", index) for index in range(20)]
    for partition in partitions:
        manager.get_or_create(partition)
    manager.checkpoint_recovery_points("/x")
    synced: list[str] = []
    real = disk.sync_folder
    disk.sync_folder = lambda path: (synced.append(path), real(path))[1]  # type: ignore[method-assign]  # a spy
    for partition in partitions[:19]:
        manager.begin_delete(partition)
    assert synced == []
    assert b"orders 0 0" in disk.read_bytes("/x/recovery-point-offset-checkpoint")
    manager.finish_deletes()
    assert disk.read_bytes("/x/recovery-point-offset-checkpoint") == b"0\n1\norders 19 0\n"
    assert len(synced) == 4  # the new names, and three checkpoints
    manager.finish_deletes()
    assert len(synced) == 4
