"""Our dump-log and Apache Kafka's own on the same files, line by line."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import ControlType, EndTransactionMarker, build_marker, control_key
from barnabas.batch.records import Record, TimestampType
from barnabas.protocol.record_frame import (
    coordinator_records,
    metadata_records,
    remote_log_records,
    write_coordinator_key,
    write_metadata_record,
    write_versioned,
)
from barnabas.protocol.records import control
from barnabas.protocol.schema import Field, Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions

DATA = Path(__file__).resolve().parents[2] / "data"
MODES = {
    "kraft-3.9.1": ("data", "3.9.1"),
    "kraft-4.1.0": ("data", "4.1.0"),
    "kraft-4.1.0-dynamic-quorum": ("controller-101", "4.1.0"),
    "zk-3.9.1": ("data", "3.9.1"),
}
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
FIRST = "00000000000000000000"
TIME = 1_700_000_000_000
# What JSON must escape, and what it must not.
TEXT = 'a"b\\c\n\x01\x1f\x7f/üλ🎈'


@pytest.fixture(autouse=True)
def _utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java prints in the encoding of the locale."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


@pytest.fixture
def same(kafka_tool: Callable[..., Any]) -> Callable[..., str]:
    """Run both tools; their output must be the same, and so must what they say on stderr, in any order."""

    def run(folder: Path, *arguments: str, version: str = "4.1.0") -> str:
        theirs = kafka_tool(version, "dump-log", *arguments, cwd=folder)
        ours = subprocess.run(
            [sys.executable, "-m", "barnabas", "dump-log", *arguments, "--kafka-release", version[:3]],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=300,
            check=False,
        )
        assert theirs.returncode == 0, theirs.stderr[-2000:]
        assert ours.stdout.splitlines() == theirs.stdout.splitlines()
        assert sorted(ours.stderr.splitlines()) == sorted(theirs.stderr.splitlines())
        return ours.stdout

    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(DATA / "golden-logs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def groups(folder: Path) -> dict[tuple[str, ...], list[str]]:
    """Every file of a data folder, under the options that suit it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        topic = path.parent.name.rpartition("-")[0]
        options: tuple[str, ...]
        if path.suffix == ".log":
            options = (DECODERS.get(topic, "--print-data-log"),)
        elif path.suffix == ".checkpoint":
            options = ("--cluster-metadata-decoder",)
        elif path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            options = ()
        else:
            continue
        found.setdefault(options, []).append(name)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_recorded_file(same: Callable[..., str], recorded: Any, mode: Any) -> None:  # M-C3 M-C9
    part, version = MODES[mode]
    folder = recorded / mode / part
    found = groups(folder)
    assert len(found) >= 2
    for options, names in found.items():
        same(folder, *options, "--files", ",".join(names), version=version)
    indexes = ",".join(name for name in found[()] if name.endswith("index") and "txnindex" not in name)
    same(folder, "--verify-index-only", "--files", indexes, version=version)
    same(folder, "--index-sanity-check", "--files", indexes, version=version)
    logs = ",".join(name for names in found.values() for name in names if name.endswith(".log"))
    same(folder, "--files", logs, version=version)
    same(folder, "--deep-iteration", "--skip-record-metadata", "--files", logs, version=version)
    same(folder, "--max-bytes", "300", "--print-data-log", "--files", logs, version=version)


def test_every_codec_and_kind_of_batch(same: Callable[..., str], tmp_path: Path) -> None:
    records = [
        Record(0, TIME, b"k", TEXT.encode(), (("h", b"x"), ("", None))),
        Record(1, TIME + 5, None, b"\xff\xfe\x80 not text \xe2\x82"),
        Record(4, TIME - 5, b"", None),
    ]
    batches = [build(records, codec=codec, leader_epoch=3) for codec in Codec]
    batches.append(build(records, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=TIME + 77))
    batches.append(
        build(records, producer_id=5, producer_epoch=2, base_sequence=2**31 - 2, transactional=True)
    )
    batches.append(build(records, delete_horizon_ms=TIME + 99))
    for commit in (True, False):
        marker = EndTransactionMarker(commit, 7)
        batches.append(build_marker(marker, timestamp=TIME, producer_id=5, producer_epoch=2, base_offset=9))
    (tmp_path / f"{FIRST}.log").write_bytes(b"".join(batches))
    out = same(tmp_path, "--print-data-log", "--files", f"{FIRST}.log")
    assert out.count("isvalid: true") == len(batches)


def test_old_formats(same: Callable[..., str], tmp_path: Path, golden: Path) -> None:
    vectors = json.loads((golden / "vectors" / "old-batches.json").read_text("utf-8"))
    names = []
    for number, vector in enumerate(vectors):
        name = f"{number:020}.log"
        (tmp_path / name).write_bytes(bytes.fromhex(vector["hex"]))
        names.append(name)
    same(tmp_path, "--print-data-log", "--files", ",".join(names))
    same(tmp_path, "--files", ",".join(names))


# --------------------------------------------------------------------- internal records


def sample(schema: Any, version: int) -> Message:
    """A message with something in every field of a version."""
    made: Message = schema.new()
    for number, known in enumerate(schema.fields):
        if version in known.versions:
            value = sample_value(known, version, number)
            setattr(made, known.attribute, [value, value] if known.is_array else value)
    return made


def sample_value(known: Field, version: int, number: int) -> Any:
    if known.struct is not None:
        return sample(known.struct.schema, version)
    values: dict[str, Any] = {
        "bool": True,
        "float64": 12345678.5,
        "string": TEXT,
        "bytes": b"\x00\x01" * (number + 1),
        "uuid": Uuid(bytes(range(16))),
    }
    return values.get(known.kind, number + 1)


def write_log(folder: Path, records: Iterable[tuple[bytes | None, bytes | None]], **options: Any) -> None:
    rows = [Record(number, TIME, key, value) for number, (key, value) in enumerate(records)]
    (folder / f"{FIRST}.log").write_bytes(build(rows, **options))


@pytest.mark.parametrize(
    ("coordinator", "decoder"),
    [
        ("group", "--offsets-decoder"),
        ("transaction", "--transaction-log-decoder"),
        ("share", "--share-group-state-decoder"),
    ],
)
def test_every_record_of_the_coordinators(
    same: Callable[..., str], tmp_path: Path, coordinator: str, decoder: str
) -> None:
    rows: list[tuple[bytes | None, bytes | None]] = []
    for key_class, value_class in coordinator_records(coordinator).values():
        key = write_coordinator_key(sample(key_class.schema, 0))
        versions = value_class.schema.versions
        for version in range(versions.lowest, versions.highest + 1):
            rows.append((key, write_versioned(sample(value_class.schema, version), version)))
        rows += [(key, write_versioned(value_class.schema.new(), versions.highest)), (key, None)]
    rows.append((b"\x00\x63", b""))
    write_log(tmp_path, rows)
    out = same(tmp_path, decoder, "--files", f"{FIRST}.log")
    assert out.count("Unknown record type 99") == 1
    assert "Error at" not in out


def test_every_metadata_record(same: Callable[..., str], tmp_path: Path) -> None:
    rows: list[tuple[bytes | None, bytes | None]] = []
    for record_class in metadata_records().values():
        versions = record_class.schema.versions
        for version in range(versions.lowest, versions.highest + 1):
            rows.append((None, write_metadata_record(sample(record_class.schema, version), version)))
            rows.append((None, write_metadata_record(record_class.schema.new(), version)))
    write_log(tmp_path, rows)
    out = same(tmp_path, "--cluster-metadata-decoder", "--files", f"{FIRST}.log")
    assert "Error at" not in out


def test_every_record_of_tiered_storage(same: Callable[..., str], tmp_path: Path) -> None:
    rows: list[tuple[bytes | None, bytes | None]] = []
    for record_class in remote_log_records().values():
        # The first segment state is refused in an update, the last partition state is 2.
        for state in (1, 2):
            record: Any = sample(record_class.schema, 0)
            for attribute in ("remote_log_segment_state", "remote_partition_delete_state"):
                if hasattr(record, attribute):
                    setattr(record, attribute, state)
            rows.append((None, write_metadata_record(record, 0)))
            if hasattr(record, "custom_metadata"):
                record.custom_metadata = None
                rows.append((None, write_metadata_record(record, 0)))
    write_log(tmp_path, rows)
    out = same(tmp_path, "--remote-log-metadata-decoder", "--files", f"{FIRST}.log")
    assert "Error at" not in out


def test_every_control_record_of_a_quorum(same: Callable[..., str], tmp_path: Path) -> None:
    kinds = {
        ControlType.LEADER_CHANGE: control.LeaderChangeMessage,
        ControlType.SNAPSHOT_HEADER: control.SnapshotHeaderRecord,
        ControlType.SNAPSHOT_FOOTER: control.SnapshotFooterRecord,
        ControlType.KRAFT_VERSION: control.KRaftVersionRecord,
        ControlType.KRAFT_VOTERS: control.VotersRecord,
    }
    rows: list[tuple[bytes | None, bytes | None]] = []
    for kind, message_class in kinds.items():
        assert issubclass(message_class, Message)
        # Apache Kafka 4.1 writes and reads version 0 of each, whatever the record says.
        message: Any = sample(message_class.schema, 0)
        message.version = 0
        rows.append((control_key(kind), message.encode(0)))
    write_log(tmp_path, rows, control=True)
    out = same(tmp_path, "--deep-iteration", "--files", f"{FIRST}.log")
    assert out.count('{"version":0') == len(kinds)
    same(tmp_path, "--cluster-metadata-decoder", "--skip-record-metadata", "--files", f"{FIRST}.log")


@pytest.mark.parametrize("decoder", ["StringDecoder", "LongDecoder", "IntegerDecoder"])
def test_plain_decoders(same: Callable[..., str], tmp_path: Path, decoder: str) -> None:
    write_log(tmp_path, [(b"\xff" * 8, b"12345678"), (None, b"\x00" * 8)])
    name = f"org.apache.kafka.tools.api.{decoder}"
    same(tmp_path, "--key-decoder-class", name, "--value-decoder-class", name, "--files", f"{FIRST}.log")


# --------------------------------------------------------------------- files of our own


def write_life(folder: Path) -> Log:
    """A partition with many segments, every codec, idempotent and transactional producers."""
    log = Log.open(
        FolderDisk(),
        SystemClock(),
        str(folder),
        LogOptions(segment_bytes=2048, index_interval_bytes=300),
        random=SeededRandom(1),
        clean=True,
        recovery_point=0,
        log_start_offset=0,
    )
    for number in range(60):
        start = log.end_offset
        rows = [
            Record(start + n, TIME + 10 * number + n, b"k%d" % n, b"value %d " % number * (n + 1))
            for n in range(1 + number % 4)
        ]
        kind = number % 5
        fields: dict[str, Any] = {"codec": list(Codec)[number % len(Codec)], "leader_epoch": 0}
        if kind == 1:
            fields |= {"producer_id": 100 + number, "producer_epoch": 0, "base_sequence": 0}
        if kind == 2:
            fields |= {"producer_id": 7, "producer_epoch": number, "base_sequence": 0, "transactional": True}
        log.append_as_follower(build(rows, **fields), 0)
        if kind == 2:
            marker = EndTransactionMarker(number % 2 == 0, 1)
            offset = log.end_offset
            data = build_marker(
                marker,
                timestamp=TIME + 10 * number + 9,
                producer_id=7,
                producer_epoch=number,
                base_offset=offset,
                leader_epoch=0,
            )
            log.append_as_follower(data, 0)
            log.set_high_watermark(log.end_offset)
    log.flush()
    return log


def test_files_that_we_write_are_without_fault(same: Callable[..., str], tmp_path: Path) -> None:  # M-E1 M-E2
    """Apache Kafka's tool finds nothing wrong: with a log while it is open, and after it was closed."""
    log = write_life(tmp_path / "orders-0")
    for state in ("open", "closed"):
        if state == "closed":
            log.close()
        found = groups(tmp_path)
        assert len(found[("--print-data-log",)]) > 3
        assert any(name.endswith(".txnindex") for name in found[()])
        assert any(name.endswith(".snapshot") for name in found[()])
        logs = same(tmp_path, "--print-data-log", "--files", ",".join(found[("--print-data-log",)]))
        assert "isvalid: false" not in logs
        assert "invalid bytes" not in logs
        indexes = same(tmp_path, "--files", ",".join(found[()]))
        assert indexes.count("offset: ") > 20
        checked = [name for name in found[()] if name.endswith((".index", ".timeindex"))]
        same(tmp_path, "--index-sanity-check", "--files", ",".join(checked))


# --------------------------------------------------------------------- files that are wrong


def outputs(kafka_tool: Any, folder: Path, *arguments: str) -> tuple[Any, Any]:
    theirs = kafka_tool("4.1.0", "dump-log", *arguments, cwd=folder)
    ours = subprocess.run(
        [sys.executable, "-m", "barnabas", "dump-log", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
    )
    return ours, theirs


@pytest.mark.trap
def test_what_is_wrong_is_told_alike_but_ends_with_1(
    kafka_tool: Callable[..., Any], recorded: Any, tmp_path: Path
) -> None:
    """Trap 24: exit code 0 on failure; Apache Kafka's own tool ends with 0 on torn logs and wrong indexes."""
    source = recorded / "kraft-4.1.0" / "data" / "txn-0"
    base = "00000000000000000002"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    log, index, times = (tmp_path / f"{base}.{suffix}" for suffix in ("log", "index", "timeindex"))
    log.write_bytes(log.read_bytes()[:-7])
    content = bytearray(index.read_bytes())
    content[3] = 9
    index.write_bytes(content[:-8])
    content = bytearray(times.read_bytes())
    content[7] ^= 1
    content[12 + 11] = 6
    content[36:48] = (1).to_bytes(8, "big") + (500).to_bytes(4, "big")
    times.write_bytes(content)
    files = ",".join(path.name for path in (log, index, times))
    ours, theirs = outputs(kafka_tool, tmp_path, "--print-data-log", "--files", files)
    assert ours.stdout == theirs.stdout
    assert sorted(ours.stderr.splitlines()) == sorted(theirs.stderr.splitlines())
    assert "invalid bytes at the end" in ours.stdout
    assert "Mismatches in" in ours.stderr
    assert "timestamp mismatch" in ours.stderr
    assert (ours.returncode, theirs.returncode) == (1, 0)
