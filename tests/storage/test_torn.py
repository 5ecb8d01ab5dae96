"""Two thousand damaged folders; and one by one the faults that damage of this kind has brought to light."""

from __future__ import annotations

import contextlib
import logging
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable

import pytest

from barnabas.batch.view import CorruptBatch
from barnabas.broker.modes.kraft.metadata_folder_loader import read_bootstrap
from barnabas.metadata.bootstrap import BOOTSTRAP_FILE, bootstrap_checkpoint
from barnabas.protocol.records.metadata import FeatureLevelRecord
from barnabas.raft.quorum_state_file import (
    DamagedQuorumState,
    ElectionState,
    decode_quorum_state,
    encode_quorum_state,
)
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.planted import patched
from barnabas.runtime.random import SeededRandom
from barnabas.storage.directories import checkpoints
from barnabas.storage.directories.clean_shutdown import CLEAN_SHUTDOWN_FILE, clean_shutdown_epoch
from barnabas.storage.directories.meta_properties import V1, MetaProperties, MetaPropertiesEnsemble
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import EpochEntry
from barnabas.storage.log.log import Log
from barnabas.storage.refused import DamagedFile, FolderRefused
from barnabas.storage.segment import batch_chain, segment_search
from barnabas.testing.torn import torn
from barnabas.testing.torn.checker import TornFault
from barnabas.testing.torn.damage import ACTIONS, kind_of
from barnabas.testing.torn.folders import START_MS, DataFolder, build_folders, open_manager
from tests.storage.logs import (
    FOLDER,
    T0,
    HandClock,
    batch,
    end_transaction,
    offsets,
    open_log,
    transactional,
)
from tests.storage.torn_logs import SHORT, flip, path, read, stopped
from tests.storage.worlds import COMPACTED, cleaner_of, contents, put, steps
from tools import torn as campaign

ROUNDS = 2000
PARTS = 8


@pytest.fixture(scope="module")
def folders() -> list[DataFolder]:
    return build_folders()


@pytest.mark.parametrize("part", range(PARTS))
def test_damage_is_recovered_or_refused_and_no_bad_crc_is_returned(  # M-E4
    part: int, folders: list[DataFolder]
) -> None:
    counts = Counter(torn.run_round(seed, folders).outcome for seed in range(part, ROUNDS, PARTS))
    assert counts.total() == ROUNDS // PARTS
    assert len(counts) >= len(torn.Outcome) - 1, counts


def test_the_folders_hold_every_kind_of_file(folders: list[DataFolder]) -> None:
    assert {kind_of(path) for folder in folders for path in folder.files} >= {
        *log_files.SEGMENT_FILES,
        log_files.SNAPSHOT,
        log_files.LEADER_EPOCHS,
        checkpoints.RECOVERY_POINT_CHECKPOINT,
        checkpoints.LOG_START_CHECKPOINT,
        checkpoints.REPLICATION_CHECKPOINT,
        checkpoints.CLEANER_CHECKPOINT,
        checkpoints.GAP_CHECKPOINT,
        CLEAN_SHUTDOWN_FILE,
        "meta.properties",
        "partition.metadata",
    }


def test_a_round_is_decided_by_its_seed(folders: list[DataFolder]) -> None:
    first = [torn.run_round(seed, folders) for seed in range(8)]
    assert [torn.run_round(seed, folders) for seed in range(8)] == first
    assert len({str(report) for report in first}) == 8


def blind(*_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "planted"),
    [
        (batch_chain, "crc_ok", blind),
        (segment_search.SegmentSearch, "ends_whole", blind),
        (segment_search.SegmentSearch, "largest_indexed_time", lambda self: self._indexes.times().last),
        (
            segment_search.SegmentSearch,
            "_confirmed",
            lambda self, entry: self._records.headers(entry.position),
        ),
    ],
)
def test_storage_that_believes_what_it_reads_is_found_out(
    owner: object, name: str, planted: Callable[..., object], folders: list[DataFolder]
) -> None:
    with patched(owner, name, planted), pytest.raises(TornFault, match=r"again: python -m tools\.torn"):
        for seed in range(ROUNDS):
            torn.run_round(seed, folders)


def test_no_length_is_believed_before_it_is_checked(folders: list[DataFolder]) -> None:
    """Every batch claims two gigabytes: nothing of that size is asked for or made."""
    for folder in folders:
        disk = torn.WatchedDisk(SeededRandom(1), wall_ms=lambda: START_MS)
        disk.restore(folder.snapshot)
        for content in folder.contents.values():
            for base_offset, rows in content.segments.items():
                name = f"{content.folder}/{log_files.of_offset(base_offset, log_files.LOG)}"
                damaged = bytearray(folder.files[name])
                for position, _ in rows:
                    damaged[position + 8 : position + 12] = b"\x7f\xff\xff\xf0"
                torn.put(disk, name, bytes(damaged))
        tracemalloc.start()
        try:
            for log in open_manager(disk).logs.values():
                with contextlib.suppress(CorruptBatch):
                    log.read(log.log_start_offset, 1 << 20, upper_bound=log.end_offset)
                with contextlib.suppress(CorruptBatch):
                    log.offset_for_time(START_MS)
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


# One by one


def test_what_follows_a_segments_last_batch_costs_no_later_segment() -> None:
    """Room that was reserved and not given back, for one: a power loss may undo the cut."""
    disk = MemoryDisk()
    stopped(disk)
    disk.open(path(3)).append([bytes(100)])
    log = open_log(disk, SHORT, clean=False)
    assert offsets(log) == list(range(12))


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_start_that_the_log_never_reached_is_not_believed(
    clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    stopped(disk)
    with caplog.at_level(logging.WARNING):
        log = Log.open(
            disk,
            HandClock(),
            FOLDER,
            SHORT,
            random=SeededRandom(1),
            clean=clean,
            recovery_point=12,
            log_start_offset=92,
            high_watermark=12,
        )
    assert "never reached 92" in caplog.text
    assert offsets(log) == list(range(12))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "content", [None, b"", b"0\n0\n", b"0\n2\n1 4\n0 0\n", b"0\n3\n0 0\n1 4\n7 8\n", b"0\n1\n0 0\n"]
)
def test_leader_epochs_that_the_batches_contradict_are_rebuilt(content: bytes | None, clean: bool) -> None:
    disk = MemoryDisk()
    stopped(disk)
    disk.remove(f"{FOLDER}/{log_files.LEADER_EPOCHS}")
    if content is not None:
        disk.write_atomically(f"{FOLDER}/{log_files.LEADER_EPOCHS}", content)
    log = open_log(disk, SHORT, clean=clean, recovery_point=12)
    assert log.epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 4), EpochEntry(2, 8)]


def test_one_batch_alone_does_not_contradict_the_leader_epochs() -> None:
    disk = MemoryDisk()
    size = stopped(disk)
    flip(disk, path(9), 2 * size + 12, 0x10)
    assert open_log(disk, SHORT).epochs.latest_epoch == 2


def producers(disk: Disk) -> Log:
    log = open_log(disk, SHORT)
    for number in range(4):
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, base_sequence=number), 0)
    transactional(log, 9, 0)
    log.flush()
    log.close()
    return log


def test_producers_are_known_without_any_snapshot() -> None:
    disk = MemoryDisk()
    before = producers(disk)
    for name in disk.names(FOLDER):
        if name.endswith(log_files.SNAPSHOT):
            disk.remove(f"{FOLDER}/{name}")
    log = open_log(disk, SHORT)
    assert log.producers.entries.keys() == {7, 9}
    assert log.producers.entries[7].last_sequence == 3
    assert log.first_unstable_offset == before.first_unstable_offset == 4


def test_a_batch_with_a_bad_crc_says_nothing_of_its_producer(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    producers(disk)
    for name in disk.names(FOLDER):
        if name.endswith(log_files.SNAPSHOT):
            disk.remove(f"{FOLDER}/{name}")
    flip(disk, path(0), 50)  # its producer
    with caplog.at_level(logging.WARNING):
        log = open_log(disk, SHORT)
    assert log.producers.entries.keys() <= {7, 9}
    assert "skipping it and the batches after it" in caplog.text


def cleaned(log: Log, disk: Disk) -> bool:
    """Whether the cleaner gets through."""
    cleaner, failures = cleaner_of(disk, HandClock(), log, backoff_ms=1000, dedupe_buffer_size=1 << 16)
    for _ in steps(cleaner):
        pass
    assert not failures
    return not cleaner.uncleanable


@pytest.mark.parametrize(("position", "mask"), [(66, 1), (5, 1), (7, 0x40)])
def test_the_cleaner_leaves_a_log_with_a_damaged_batch_alone(position: int, mask: int) -> None:
    """A record whose offset leapt would outdate all later ones of its key."""
    disk = MemoryDisk()
    log = open_log(disk, COMPACTED)
    for number in range(6):
        put(log, (b"a", b"%d" % number))
        log.roll()
    log.flush()
    log.close()
    flip(disk, path(2), position, mask)
    log = open_log(disk, COMPACTED)
    log.set_high_watermark(log.end_offset)
    assert not cleaned(log, disk)
    assert read(log, 5) == [5]
    with pytest.raises(CorruptBatch):
        read(log, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_the_cleaner_does_not_believe_an_index_that_markers_contradict(commit: bool) -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACTED)
    for producer_id in (5, 6):
        put(
            log,
            (b"a", b"%d" % producer_id),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        end_transaction(log, producer_id, commit=commit)
    log.roll()
    log.flush()
    log.close()
    index = struct.pack(">hqqqq", 0, 6, 2, 3, 4) if commit else b""
    disk.write_atomically(path(0, log_files.TRANSACTION_INDEX), index)
    log = open_log(disk, COMPACTED)
    log.set_high_watermark(log.end_offset)
    before = contents(log)
    assert not cleaned(log, disk)
    assert contents(log) == before


def test_a_refusal_is_one_line_whatever_the_file_holds() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    identity = MetaProperties(V1, "evil\ncluster\x07", 1)
    disk.write_atomically("/data/meta.properties", identity.encode(T0))
    with pytest.raises(FolderRefused) as refusal:
        MetaPropertiesEnsemble.load(disk, ["/data"]).verify(cluster_id="mine", node_id=1)
    assert str(refusal.value).isprintable()
    assert r"'evil\ncluster\x07'" in str(refusal.value)


@pytest.mark.parametrize("content", [b"[" * 4096, b'{"brokerEpoch":%s}' % (b"9" * 1000)])
def test_a_hostile_mark_of_a_clean_stop_has_no_epoch(content: bytes) -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    disk.write_atomically(f"/data/{CLEAN_SHUTDOWN_FILE}", content)
    assert clean_shutdown_epoch(disk, "/data") is None


def test_a_damaged_checkpoint_of_the_cleaner_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    disk.write_atomically(f"/data/{checkpoints.CLEANER_CHECKPOINT}", b"0\nmany\n")
    for expected in (1, 1):
        with caplog.at_level(logging.WARNING):
            cleaner_of(disk, HandClock())
        assert caplog.text.count("cleaned from their start") == expected


def test_the_files_of_a_quorum_are_read_or_refused() -> None:
    """Of the metadata log's folder those that are no log: their readers say which one is damaged."""
    state = encode_quorum_state(ElectionState(epoch=7, leader_id=1), (1, 2, 3), 0)
    records = [FeatureLevelRecord(name="metadata.version", feature_level=level) for level in range(20, 26)]
    bootstrap = bootstrap_checkpoint(records, T0)
    disk, random = MemoryDisk(), SeededRandom(11)
    disk.make_folder("/data")
    refused = Counter[str]()
    for _ in range(600):
        action = ACTIONS[random.integer(0, len(ACTIONS) - 1)]
        try:
            decode_quorum_state(action(random, state) or b"")
        except DamagedQuorumState:
            refused["state"] += 1
        disk.write_atomically(f"/data/{BOOTSTRAP_FILE}", action(random, bootstrap) or b"")
        try:
            found = read_bootstrap(disk, "/data")
        except DamagedFile as error:
            refused["bootstrap"] += 1
            assert BOOTSTRAP_FILE in str(error)
            assert str(error).isprintable()
        else:
            assert found == records
    assert min(refused.values()) > 300


def test_a_campaign_counts_and_ends_with_1_on_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["torn", "--rounds", "40", "--seed", "5"])
    assert campaign.main() == 0
    assert "40 rounds from seed 5, 0 violations" in capsys.readouterr().out
    with patched(batch_chain, "crc_ok", blind):
        assert campaign.main() == 1
    assert "again: python -m tools.torn --rounds 1 --seed" in capsys.readouterr().out
