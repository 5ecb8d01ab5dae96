"""Folders that Apache Kafka 3.9.1 and 4.1.0 wrote, opened by our log; and ours, written with the same batches."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.view import BatchView
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.storage.log import log_files
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.producers.producer_append import ProducerEntry
from tests.storage.logs import HandClock, open_log, read_all

MODES = ("kraft-3.9.1", "kraft-4.1.0", "zk-3.9.1")
# What the recorded topics were created with; see the list of options in the recorded commands.
KEEP = {"retention_ms": -1, "index_interval_bytes": 0}
TOPICS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("plain", "idempotent", "txn", "defaults"), KEEP),
    **{f"codec-{codec}": KEEP for codec in ("none", "gzip", "snappy", "lz4", "zstd")},
    "rolled": {**KEEP, "segment_ms": 60_000},
    "compacted": {**KEEP, "segment_ms": 60_000},
    "recompress": {},
    "logappend": {},
    "__consumer_offsets": {},
    "__transaction_state": {},
}
FOLDERS = sorted(
    [f"{topic}-0" for topic in TOPICS]
    + ["__consumer_offsets-1", "__transaction_state-1", "__cluster_metadata-0"]
)
# The recorded producers wrote in 2023: they shall not expire.
OPTIONS = LogOptions(producer_id_expiration_ms=2**62)
# After all that was recorded.
NOW_MS = 1_800_000_000_000


@dataclasses.dataclass(frozen=True)
class Recorded:
    """One partition of one recorded data folder."""

    mode: Path
    name: str

    @property
    def folder(self) -> Path:
        return self.mode / "data" / self.name

    @property
    def log_start_offset(self) -> int:
        lines = (self.mode / "data" / "log-start-offset-checkpoint").read_text("utf-8").splitlines()[2:]
        starts = {f"{topic}-{partition}": int(start) for topic, partition, start in map(str.split, lines)}
        return starts.get(self.name, 0)

    @property
    def options(self) -> LogOptions:
        return dataclasses.replace(OPTIONS, **TOPICS.get(self.name.rpartition("-")[0], {}))

    def dump_lines(self) -> Iterator[str]:
        for path in sorted((self.mode / "dump").glob(f"{self.name}_*.log.txt")):
            yield from path.read_text("utf-8").splitlines()

    def files(self) -> dict[str, bytes]:
        return contents(self.folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# ZooKeeper mode has no metadata log.
RECORDED = [
    f"{mode}/{name}"
    for mode in MODES
    for name in FOLDERS
    if (mode[:2], name) != ("zk", "__cluster_metadata-0")
]


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest, golden_logs: Path) -> Recorded:
    mode, _, name = str(request.param).partition("/")
    return Recorded(golden_logs / mode, name)


def opened(recorded: Recorded, tmp_path: Path, *, clean: bool = True) -> Log:
    folder = tmp_path / recorded.name
    shutil.copytree(recorded.folder, folder)
    return open_log(
        FolderDisk(),
        recorded.options,
        folder=str(folder),
        clock=HandClock(NOW_MS),
        clean=clean,
        log_start_offset=recorded.log_start_offset,
    )


def described(one: BatchView) -> str:
    """A batch as Apache Kafka's dump-log describes it, but for its position."""
    kind = one.timestamp_type.config_name
    return (
        f"baseOffset: {one.base_offset} lastOffset: {one.last_offset} count: {one.record_count} "
        f"baseSequence: {one.base_sequence} lastSequence: {one.last_sequence} producerId: {one.producer_id} "
        f"producerEpoch: {one.producer_epoch} partitionLeaderEpoch: {one.leader_epoch} "
        f"isTransactional: {str(one.is_transactional).lower()} isControl: {str(one.is_control).lower()} "
        f"deleteHorizonMs: {_optional(one.delete_horizon_ms)} "
        f"{kind}: {one.max_timestamp} size: {one.size} magic: 2 compresscodec: {one.codec.name.lower()} "
        f"crc: {one.crc} isvalid: {str(one.crc_ok()).lower()}"
    )


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def test_every_batch_record_and_time_is_there(recorded: Recorded, tmp_path: Path) -> None:
    log = opened(recorded, tmp_path)
    found = read_all(log)
    expected = [
        re.sub(r"position: \d+ ", "", line)
        for line in recorded.dump_lines()
        if line.startswith("baseOffset:")
    ]
    assert [described(one) for one in found] == expected
    lines = [line for line in recorded.dump_lines() if line.startswith("| offset:")]
    rows = [(record, one) for one in found for record in one.records()]
    assert len(rows) == len(lines)
    for (record, one), line in zip(rows, lines, strict=True):
        kind = one.timestamp_type.config_name
        sizes = [-1 if part is None else len(part) for part in (record.key, record.value)]
        assert line.startswith(
            f"| offset: {record.offset} {kind}: {record.timestamp} keySize: {sizes[0]} valueSize: {sizes[1]} "
        )
        assert f"headerKeys: [{','.join(name for name, _ in record.headers)}]" in line


def test_epochs_producers_and_aborted_transactions_are_known(recorded: Recorded, tmp_path: Path) -> None:
    log = opened(recorded, tmp_path)
    dumped = recorded.mode / "dump" / f"{recorded.name}_{log.end_offset:020d}.snapshot.txt"
    if dumped.exists():
        lines = [line for line in dumped.read_text("utf-8").splitlines() if line.startswith("producerId")]
        assert [_producer_line(entry) for entry in log.producers.entries.values()] == lines
    aborted = [
        f"version: 0 producerId: {one.producer_id} firstOffset: {one.first_offset} "
        f"lastOffset: {one.last_offset} lastStableOffset: {one.last_stable_offset}"
        for one in log.aborted_transactions(0, 2**62)
    ]
    indexes = (recorded.mode / "dump").glob(f"{recorded.name}_*.txnindex.txt")
    assert aborted == [
        line
        for path in indexes
        for line in path.read_text("utf-8").splitlines()
        if line.startswith("version")
    ]
    if log.end_offset > log.log_start_offset:
        epochs = recorded.files()[log_files.LEADER_EPOCHS].decode().split("\n")[2:-1]
        assert [f"{entry.epoch} {entry.start_offset}" for entry in log.epochs.entries] == epochs


def _producer_line(entry: ProducerEntry) -> str:
    text = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {_optional(entry.current_transaction_first_offset)} "
        f"lastTimestamp: {entry.last_timestamp} "
    )
    for last in list(entry.batches)[-1:]:
        text += (
            f"firstSequence: {last.first_sequence} lastSequence: {last.last_sequence} "
            f"lastOffset: {last.last_offset} offsetDelta: {last.offset_delta} timestamp: {last.timestamp}"
        )
    return text


def without_what_a_start_removes(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if not name.endswith(log_files.DELETED)}


@pytest.mark.trap
def test_start_and_stop_change_no_file(
    recorded: Recorded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Trap 27: no rebuild, recover or truncate line, and the files are unchanged after a clean stop."""
    log = opened(recorded, tmp_path)
    read_all(log)
    log.offset_for_time(1_700_000_000_001)
    log.close()
    expected = without_what_a_start_removes(recorded.files())
    if log.end_offset == log.log_start_offset:
        # An unwritten epoch goes at the start; Apache Kafka does the same before the next leader adds its own.
        assert expected[log_files.LEADER_EPOCHS] == b"0\n1\n0 0\n"
        expected[log_files.LEADER_EPOCHS] = b"0\n0\n"
    assert contents(tmp_path / recorded.name) == expected
    assert caplog.text == ""


def test_recovery_of_a_recorded_folder_finds_nothing_to_change(recorded: Recorded, tmp_path: Path) -> None:
    """As after kill -9, with the recovery point at 0: every index is rebuilt, to what it was."""
    log = opened(recorded, tmp_path, clean=False)
    log.flush()
    log.close()
    expected = without_what_a_start_removes(recorded.files())
    found = contents(tmp_path / recorded.name)
    for name in (*expected, *found):
        if name not in (log_files.LEADER_EPOCHS,):
            assert found.get(name) == expected.get(name), name


# The segments of `compacted` were rewritten by the cleaner.
@pytest.mark.parametrize("recorded", [one for one in RECORDED if "compacted" not in one], indirect=True)
def test_the_same_batches_make_the_same_files(recorded: Recorded, tmp_path: Path) -> None:  # M-E1
    """Index entries, rolling, snapshots, epochs: all of it byte for byte."""
    source = opened(recorded, tmp_path / "theirs")
    log = open_log(
        FolderDisk(),
        recorded.options,
        folder=str(tmp_path / recorded.name),
        clock=HandClock(NOW_MS),
    )
    log.assign_epoch(source.epochs.entries[0].epoch if source.epochs.entries else 0, 0)
    for one in [
        view.copy() for segment in source.segments for view in views(segment.read_at(0, segment.size))
    ]:
        log.append_as_follower(one, 10)
    log.set_high_watermark(log.end_offset)
    log.advance_log_start(recorded.log_start_offset)
    log.epochs.start_is_durable(recorded.log_start_offset)  # as if log-start-offset-checkpoint had it
    log.flush()
    log.close()
    expected = {name: data for name, data in recorded.files().items() if _is_ours(name)}
    assert contents(tmp_path / recorded.name) == expected


def views(data: bytes) -> Iterator[BatchView]:
    start = 0
    while start < len(data):
        one = BatchView(data, start)
        yield one
        start = one.end


def _is_ours(name: str) -> bool:
    return not name.endswith((".checkpoint", "partition.metadata", "quorum-state", log_files.DELETED))
