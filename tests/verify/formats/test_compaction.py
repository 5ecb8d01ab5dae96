"""Our cleaner and Apache Kafka's on the same logs: the files they leave are the same (M-E3)."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import BatchView, batches
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.cleaner.cleaning_plan import LogToClean, dirty_range, plan
from barnabas.storage.cleaner.cleaning_round import CleaningRound, RoundLimits
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions

JAVA = Path(__file__).parents[1] / "java" / "Compact.java"
# Of late, or the producers would be forgotten when the log is opened.
START_MS = SystemClock().wall_ms() - 3_600_000
DELETE_RETENTION_MS = 1000
ROUNDS = 6
SEEDS = 24
BATCHES_PER_ROUND = 30
SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex|txnindex)")


@dataclass
class Life:
    """A random history of one log, the same for both cleaners."""

    seed: int
    folder: Path
    clean_up_to: int | None = None
    sequences: dict[int, int] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    open_transactions: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.options = LogOptions(
            cleanup_compact=True,
            cleanup_delete=False,
            segment_bytes=self.draw.choice([900, 4000]),
            index_interval_bytes=self.draw.choice([0, 300, 4096]),
            delete_retention_ms=DELETE_RETENTION_MS,
            segment_index_bytes=10 << 20,
        )
        self.map_bytes = self.draw.choice([24 * 8, 24 * 40, 1 << 16])
        self.plain_only = self.seed % 2 == 0

    def open(self, folder: Path) -> Log:
        folder.mkdir(parents=True, exist_ok=True)
        log = Log.open(
            FolderDisk(),
            SystemClock(),
            str(folder),
            self.options,
            random=SeededRandom(1),
            clean=True,
            recovery_point=2**62,
            log_start_offset=0,
        )
        log.set_high_watermark(log.end_offset)
        return log

    def grow(self, log: Log, count: int) -> None:
        """Append random batches."""
        for _ in range(count):
            log.append_as_follower(self._batch(log.end_offset), 0)
        log.set_high_watermark(log.end_offset)

    def _batch(self, offset: int) -> bytearray:
        draw = self.draw
        kind = draw.random()
        if self.open_transactions and kind < 0.25:
            producer_id = draw.choice(sorted(self.open_transactions))
            self.open_transactions.discard(producer_id)
            if draw.random() < 0.5:  # with transaction.version 2 the marker has the next epoch (KIP-890)
                self.epochs[producer_id] += 1
                self.sequences[producer_id] = 0
            marker = EndTransactionMarker(commit=draw.random() < 0.5, coordinator_epoch=0)
            return build_marker(
                marker,
                timestamp=START_MS + offset,
                producer_id=producer_id,
                producer_epoch=self.epochs[producer_id],
                base_offset=offset,
                leader_epoch=0,
            )
        records = list(self._records(offset))
        codec = Codec.NONE if self.plain_only else draw.choice(list(Codec))
        append_time = draw.random() < 0.2
        timestamp_type = TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
        common: dict[str, Any] = {
            "base_offset": offset,
            "leader_epoch": 0,
            "codec": codec,
            "timestamp_type": timestamp_type,
            "log_append_time_ms": START_MS + offset + 7 if append_time else None,
        }
        if kind < 0.6:
            return build(records, **common)
        producer_id = draw.randrange(1, 4) if kind < 0.8 else draw.randrange(10, 14)
        if producer_id not in self.epochs or (
            producer_id not in self.open_transactions and draw.random() < 0.2
        ):
            self.epochs[producer_id] = self.epochs.get(producer_id, -1) + 1
            self.sequences[producer_id] = 0
        transactional = producer_id >= 10
        if transactional:
            self.open_transactions.add(producer_id)
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] += len(records)
        return build(
            records,
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            base_sequence=sequence,
            transactional=transactional,
            **common,
        )

    def _records(self, offset: int) -> Iterator[Record]:
        draw = self.draw
        for index in range(draw.randrange(1, 7)):
            key = None if draw.random() < 0.03 else b"key-%d" % draw.randrange(14)
            value = None if draw.random() < 0.2 else b"v" * draw.randrange(1, 60)
            headers = (("h", b"x"), ("n", None)) if draw.random() < 0.2 else ()
            yield Record(offset + index, START_MS + offset + draw.randrange(-50, 50), key, value, headers)

    def clean(self, folder: Path, now_ms: int) -> tuple[int, LogToClean]:
        log = self.open(folder)
        target = plan(log, dirty_range(log, self.clean_up_to, now_ms), now_ms)
        work = CleaningRound(target, RoundLimits(self.map_bytes, 0.9, 2000), now_ms)
        for _ in work.steps():
            pass
        log.close()
        return work.stats.end_offset, target

    def line(self, folder: Path, now_ms: int, target: LogToClean) -> str:
        fields = (
            folder,
            now_ms,
            target.first_dirty_offset,
            target.first_uncleanable_offset,
            self.map_bytes,
            self.options.segment_bytes,
            DELETE_RETENTION_MS,
            self.options.index_interval_bytes,
        )
        return "\t".join(map(str, fields))


def test_the_same_files_are_left(tmp_path: Path, run_java: Callable[..., str]) -> None:
    lives = [Life(seed, tmp_path / f"{seed}") for seed in range(SEEDS)]
    now_ms = START_MS + 10**7
    for round_number in range(ROUNDS):
        lines, ends = [], []
        for life in lives:
            ours, theirs = life.folder / "ours" / "topic-0", life.folder / "theirs" / "topic-0"
            log = life.open(ours)
            life.grow(log, BATCHES_PER_ROUND)
            log.close()
            shutil.rmtree(theirs, ignore_errors=True)
            shutil.copytree(ours, theirs)
            end, target = life.clean(ours, now_ms)
            ends.append(end)
            lines.append(life.line(theirs, now_ms, target))
            life.clean_up_to = end
        plan_file = tmp_path / "plan.txt"
        plan_file.write_text("\n".join(lines) + "\n", "utf-8")
        theirs_ends = [int(line) for line in run_java("4.1.0", JAVA, str(plan_file)).split()]
        assert theirs_ends == ends, f"round {round_number}"
        for life in lives:
            compare(life, round_number)
        # Some tombstones and markers reach their delete horizon before the next round, some do not.
        now_ms += DELETE_RETENTION_MS // 2 + 1


def compare(life: Life, round_number: int) -> None:
    ours, theirs = (segment_files(life.folder / side / "topic-0") for side in ("ours", "theirs"))
    where = f"seed {life.seed}, round {round_number}"
    assert sorted(ours) == sorted(theirs), where
    for name, path in ours.items():
        if name.endswith(".log") and not life.plain_only:
            assert described(path) == described(theirs[name]), f"{where}, {name}"
        elif life.plain_only:
            assert path.read_bytes() == theirs[name].read_bytes(), f"{where}, {name}"


def segment_files(folder: Path) -> dict[str, Path]:
    """All files but the active segment's, which no cleaner touches; a transaction index without entries is none."""
    names = {p.name: p for p in folder.iterdir() if SEGMENT_FILE.fullmatch(p.name)}
    active = max(name[:20] for name in names)
    return {
        name: path
        for name, path in names.items()
        if not name.startswith(active) and not (name.endswith(".txnindex") and path.stat().st_size == 0)
    }


def described(path: Path) -> list[tuple[object, ...]]:
    """Batches without what compression makes different: sizes and checksums."""
    return [describe(batch) for batch in batches(path.read_bytes())]


def describe(batch: BatchView) -> tuple[object, ...]:
    assert batch.crc_ok()
    return (
        batch.base_offset,
        batch.leader_epoch,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        tuple(batch.records()),
    )


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_dump_log_finds_no_fault_in_a_cleaned_log(
    version: str, tmp_path: Path, kafka_tool: Callable[..., object]
) -> None:
    """Trap 27: an index that does not fit would be rebuilt silently at start; dump-log says so."""
    life = Life(4, tmp_path)
    folder = tmp_path / "ours" / "topic-0"
    log = life.open(folder)
    life.grow(log, 200)
    log.close()
    life.clean(folder, START_MS + 10**7)
    names = ",".join(str(path) for path in sorted(folder.iterdir()) if SEGMENT_FILE.fullmatch(path.name))
    done = kafka_tool(version, "dump-log", "--deep-iteration", "--index-sanity-check", "--files", names)
    output = done.stdout + done.stderr  # type: ignore[attr-defined]
    assert done.returncode == 0, output  # type: ignore[attr-defined]
    assert "isvalid: false" not in output
    assert "Mismatches" not in output and "failed" not in output.lower(), output[-2000:]
