"""A broker of Apache Kafka is killed and its files are damaged: our recovery and its own come to the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.view import batches
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from tests.verify.killed.log_life_writer import open_manager
from tests.verify.nodes.apache_broker import ApacheBroker, Seen, View, apache_broker

VERSIONS = ("4.1.0", "3.9.1")
WORKLOAD = Path(__file__).parents[1] / "java" / "BusyLife.java"
PAUSE_MS = 2500
SEGMENT_MS = 60_000
SETTINGS = {
    # Recovery points are written while the workload pauses, so that recovery begins in the middle.
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.initial.task.delay.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def logs_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def torn(folder: Path) -> None:
    last = logs_of(folder)[-1]
    last.write_bytes(last.read_bytes()[:-7])


def append(data: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with logs_of(folder)[-1].open("ab") as file:
            file.write(data)

    return damage


def flipped(folder: Path) -> None:
    flip(logs_of(folder)[-1], -20)


def flipped_in_the_middle(folder: Path) -> None:
    """Of the first segment that is recovered: what comes after goes too."""
    path = recovered_logs(folder)[0]
    flip(path, path.stat().st_size // 2)


def recovered_logs(folder: Path) -> list[Path]:
    """Those that recovery reads: from the one with the recovery point on."""
    logs = logs_of(folder)
    point = recovery_points(folder.parent).get(folder.name.removesuffix("-0"), 0)
    return logs[sum(int(path.stem) <= point for path in logs) - 1 :]


def recovery_points(data: Path) -> dict[str, int]:
    lines = (data / "recovery-point-offset-checkpoint").read_text("utf-8").splitlines()[2:]
    return {topic: int(offset) for topic, _, offset in map(str.split, lines)}


def without(suffix: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for path in folder.glob(f"*{suffix}"):
            path.unlink()

    return damage


def with_bad_indexes(folder: Path) -> None:
    for log in recovered_logs(folder):
        log.with_suffix(".index").write_bytes(bytes(range(240)))
        log.with_suffix(".timeindex").write_bytes(bytes(range(240)))


def in_the_swap(folder: Path) -> None:
    """A cleaning was interrupted when the old segment was removed and the new one not yet in its place."""
    base = logs_of(folder)[-2].stem
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        path = folder / f"{base}{suffix}"
        if path.exists():
            path.rename(folder / f"{base}{suffix}.swap")


def in_cleaning(folder: Path) -> None:
    """A cleaning was interrupted before its result counted; a segment was about to be removed."""
    first, second = logs_of(folder)[:2]
    shutil.copy(first, folder / f"{first.name}.cleaned")
    shutil.copy(second, folder / f"{int(second.stem) - 1:020}.log.deleted")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "none": lambda folder: None,
    "torn": torn,
    "flipped": flipped,
    "middle": flipped_in_the_middle,
    "rubbish": append(b"\xff" * 100),
    "zeroes": append(bytes(4096)),
    "no-offset-index": without(".index"),
    "no-time-index": without(".timeindex"),
    "no-transaction-index": without(".txnindex"),
    "no-snapshots": without(".snapshot"),
    "bad-indexes": with_bad_indexes,
    "swap": in_the_swap,
    "cleaned": in_cleaning,
}


@dataclass
class Recovered:
    """What clients see of Apache Kafka's recovery, our logs after ours, and both folders after a clean stop."""

    views: dict[str, View]
    logs: dict[str, Log]
    ours: Path
    theirs: Path


@pytest.fixture(scope="module", params=VERSIONS)
def recovered(
    request: pytest.FixtureRequest, oracle: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recovered]:
    home = tmp_path_factory.mktemp("killed")
    with apache_broker(oracle, request.param, home / "cluster", SETTINGS) as broker:
        live_and_die(broker)
        for damage, do in DAMAGES.items():
            do(broker.data / f"{damage}-0")
        shutil.copytree(broker.data, home / "ours")
        broker.start()
        views = broker.look(dict.fromkeys(DAMAGES, ()))
        broker.stop()
        options = LogOptions(segment_ms=SEGMENT_MS, retention_ms=-1, index_interval_bytes=0)
        manager = open_manager(home / "ours", lambda topic: options)
        logs = {damage: manager.logs[TopicPartition(damage, 0)] for damage in DAMAGES}
        yield Recovered(views, logs, home / "ours", broker.data)


def live_and_die(broker: ApacheBroker) -> None:
    configs = {"segment.ms": str(SEGMENT_MS), "retention.ms": "-1", "index.interval.bytes": "0"}
    broker.create(dict.fromkeys(DAMAGES, configs))
    broker.java(WORKLOAD, broker.bootstrap, str(PAUSE_MS), *DAMAGES)
    broker.kill()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    points = recovery_points(broker.data)
    assert all(points[damage] > 0 for damage in DAMAGES), points
    assert all(len(logs_of(broker.data / f"{damage}-0")) > 2 for damage in DAMAGES)


def records_of(log: Log, end: int, skipped: set[int]) -> list[Seen]:
    """Data records of our log below an offset, as a consumer sees them."""
    found: list[Seen] = []
    offset = log.log_start_offset
    while offset < end:
        got = log.read(offset, 1 << 20, upper_bound=end).slice
        assert got is not None
        for batch in batches(got.read()):
            assert batch.crc_ok()
            offset = batch.next_offset
            if not batch.is_control:
                found += [Seen(*record, batch.leader_epoch) for record in batch.records()]
    return [record for record in found if record.offset not in skipped]


def aborted_offsets(log: Log) -> set[int]:
    """Offsets that a read_committed consumer skips, by the transaction index."""
    skipped: set[Any] = set()
    spans = log.aborted_transactions(0, log.end_offset)
    for segment in log.segments:
        for header in segment.headers():
            for span in spans:
                within = span.first_offset <= header.base_offset <= span.last_offset
                if within and header.is_transactional and header.producer_id == span.producer_id:
                    skipped.update(range(header.base_offset, header.last_offset + 1))
    return skipped


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_records_are_left(damage: str, recovered: Recovered) -> None:
    # M-E4
    log, view = recovered.logs[damage], recovered.views[damage]
    assert (log.log_start_offset, log.end_offset) == (view.start, view.end)
    assert view.uncommitted, "something is left to compare"
    assert records_of(log, log.end_offset, set()) == view.uncommitted
    assert log.last_stable_offset == view.stable_end
    assert records_of(log, view.stable_end, aborted_offsets(log)) == view.committed


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_producers_are_known(damage: str, recovered: Recovered) -> None:
    log, view = recovered.logs[damage], recovered.views[damage]
    states = {
        producer_id: (
            entry.epoch,
            entry.last_sequence,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.current_transaction_first_offset is None else entry.current_transaction_first_offset,
        )
        for producer_id, entry in log.producers.entries.items()
    }
    assert states == view.producers


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_same_files_are_left(damage: str, recovered: Recovered) -> None:
    log = recovered.logs[damage]
    log.flush()
    log.close()
    for job in log.take_file_deletions():
        job.run()
    ours, theirs = (
        {
            path.name: path.read_bytes()
            for path in (side / f"{damage}-0").iterdir()
            if path.suffix in SEGMENT_FILES
        }
        for side in (recovered.ours, recovered.theirs)
    )
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


def test_the_damage_was_felt(recovered: Recovered) -> None:
    ends = {damage: view.end for damage, view in recovered.views.items()}
    assert ends.pop("middle") < ends["torn"] == ends["flipped"] < ends["none"]
    assert {end for damage, end in ends.items() if damage not in ("torn", "flipped")} == {ends["none"]}
