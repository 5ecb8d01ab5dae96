"""dump-log on generated files: its options, and the reports for damaged files."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import ControlType, EndTransactionMarker, build_marker, control_key
from barnabas.batch.records import Record, TimestampType
from barnabas.cli.dump_log import file_reader as reading
from barnabas.cli.dump_log.remote_records import remote_text
from barnabas.protocol.record_frame import write_coordinator_key, write_metadata_record, write_versioned
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.records.metadata import NoOpRecord
from barnabas.protocol.records.remote_log import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from barnabas.protocol.records.share_state import ShareUpdateKey
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.storage.producers.producer_snapshot import SnapshotEntry, encode_snapshot
from tests.cli.conftest import Call

FIRST = "00000000000000000000"
TIME = 1_700_000_000_000


def records(start: int, count: int) -> list[Record]:
    return [Record(start + n, TIME + start + n, b"k%d" % n, b"v%d" % n) for n in range(count)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a log of two batches and matching indexes."""
    monkeypatch.chdir(tmp_path)
    log = build(records(0, 3)) + build(records(3, 2))
    second = len(build(records(0, 3)))
    Path(f"{FIRST}.log").write_bytes(log)
    Path(f"{FIRST}.index").write_bytes(struct.pack(">ii", 4, second))
    Path(f"{FIRST}.timeindex").write_bytes(struct.pack(">qi", TIME + 4, 4))
    return tmp_path


def write_log(values: list[Record], **options: Any) -> str:
    name = f"{FIRST}.log"
    Path(name).write_bytes(build(values, **options))
    return name


def changed(name: str, position: int, data: bytes) -> None:
    content = bytearray(Path(name).read_bytes())
    content[position : position + len(data)] = data
    Path(name).write_bytes(content)


def contents(out: str) -> list[str]:
    """The text after the metadata of records."""
    return [
        line.partition("headerKeys: ")[2].partition("] ")[2] for line in out.splitlines() if line[:1] == "|"
    ]


def test_batches_only(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--files", f"{FIRST}.log")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:2] == [f"Dumping {FIRST}.log", "Log starting offset: 0"]
    assert len(lines) == 4
    assert lines[3].startswith("baseOffset: 3 lastOffset: 4 count: 2 baseSequence: -1")


def test_deep_iteration_shows_records_without_content(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "-deep-iteration", "--files", f"{FIRST}.log")
    rows = [line for line in result.out.splitlines() if line.startswith("| ")]
    assert len(rows) == 5
    assert rows[0] == f"| offset: 0 CreateTime: {TIME} keySize: 2 valueSize: 2 sequence: -1 headerKeys: []"


def test_a_log_is_read_in_chunks(barnabas: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = barnabas("dump-log", "--print-data-log", "--files", f"{FIRST}.log").out
    monkeypatch.setattr(reading, "CHUNK_BYTES", 20)
    assert barnabas("dump-log", "--print-data-log", "--files", f"{FIRST}.log").out == whole


def test_max_bytes_ends_a_log_without_a_fault(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--max-bytes", "130", "--files", f"{FIRST}.log")
    assert result.code == 0
    assert result.out.count("baseOffset") == 1
    assert "invalid bytes" not in result.out


def test_names_lose_doubled_slashes(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--files", f".//{FIRST}.log")
    assert result.out.startswith(f"Dumping ./{FIRST}.log\n")


@pytest.mark.parametrize(
    ("decoder", "value", "text"),
    [
        ("org.apache.kafka.tools.api.StringDecoder", "grün".encode(), "grün"),
        ("StringDecoder", b"\xff", "\ufffd"),
        ("kafka.serializer.LongDecoder", struct.pack(">q", -5), "-5"),
        ("org.apache.kafka.tools.api.IntegerDecoder", struct.pack(">i", 7), "7"),
        ("org.apache.kafka.tools.api.DefaultDecoder", b"\x00\xff", "00ff"),
    ],
)
def test_values_are_decoded_by_class_name(
    barnabas: Call, folder: Path, decoder: str, value: Any, text: str
) -> None:
    name = write_log([Record(0, TIME, b"k", value)])
    result = barnabas("dump-log", "--value-decoder-class", decoder, "--files", name)
    assert result.code == 0
    assert result.out.endswith(f"key: k payload: {text}\n")


def test_the_decoder_class_is_optional(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--key-decoder-class", "--files", f"{FIRST}.log")
    assert "key: k0 payload: v0" in result.out


def test_other_decoder_classes_are_refused(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--key-decoder-class", "com.example.Mine", "--files", f"{FIRST}.log")
    assert result.code == 2
    assert "com.example.Mine cannot be loaded" in result.err
    assert result.err.count("\n") == 1


def test_a_value_too_short_for_its_decoder_is_one_line(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--value-decoder-class", "LongDecoder", "--files", f"{FIRST}.log")
    assert result.code == 1
    assert result.err == "2 bytes cannot be decoded as a long, which has 8\n"


def test_log_append_time_and_sequences_that_wrap(barnabas: Call, folder: Path) -> None:
    values = [Record(0, TIME, b"k", b"v"), Record(1, TIME, None, None, (("a", b""), ("", None)))]
    name = write_log(
        values,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time_ms=TIME + 9,
        producer_id=4,
        producer_epoch=1,
        base_sequence=2**31 - 1,
        codec=Codec.ZSTD,
    )
    result = barnabas("dump-log", "--deep-iteration", "--files", name)
    assert result.code == 0
    assert "baseSequence: 2147483647 lastSequence: 0 producerId: 4 producerEpoch: 1" in result.out
    assert f"LogAppendTime: {TIME + 9} size: " in result.out
    assert "compresscodec: zstd" in result.out
    assert (
        f"| offset: 1 LogAppendTime: {TIME + 9} keySize: -1 valueSize: -1 sequence: 0 headerKeys: [a,]"
        in result.out
    )


# Two messages as Apache Kafka 0.10 wrote them: format v0 plain, and v1 inside a gzip wrapper.
OLD_V0 = (
    "000000000000000a0000001257e7496e0000000000026b31000000027631"
    "000000000000000b00000010d5960a780000ffffffff000000027632"
)
OLD_V1_GZIP = (
    "000000000000000b00000055a869b55901010000018bcfe56801ffffffff0000003f1f8b08000000000000ff63608003a9a5b7b29218"
    "810cc6eef34f3340224cd98620b2cc10aa0224296174a9af11ae8af13f1080d51801009c3e15454a000000"
)


def test_old_formats(barnabas: Call, folder: Path) -> None:
    Path(f"{FIRST}.log").write_bytes(bytes.fromhex(OLD_V0 + OLD_V1_GZIP))
    result = barnabas("dump-log", "--print-data-log", "--files", f"{FIRST}.log")
    assert result.code == 0
    # The unbalanced brace is in Apache Kafka's output too.
    assert result.out.splitlines()[2:] == [
        "offset: 10 position: 0 NoTimestampType: -1 size: 30 magic: 0 compresscodec: none crc: 1474775406 isvalid: true",
        "| offset: 10 NoTimestampType: -1 keySize: 2 valueSize: 2 isValid: true crc: 1474775406} key: k1 payload: v1",
        "offset: 11 position: 30 NoTimestampType: -1 size: 28 magic: 0 compresscodec: none crc: 3583380088 isvalid: true",
        "| offset: 11 NoTimestampType: -1 keySize: -1 valueSize: 2 isValid: true crc: 3583380088} payload: v2",
        (
            f"offset: 11 position: 58 CreateTime: {TIME + 1} size: 97 magic: 1 compresscodec: gzip crc: 2825499993 "
            "isvalid: true"
        ),
        f"| offset: 10 CreateTime: {TIME} keySize: 2 valueSize: 2 isValid: true crc: 2782554722}} key: k1 payload: v1",
        f"| offset: 11 CreateTime: {TIME + 1} keySize: -1 valueSize: 2 isValid: true crc: 852659841}} payload: v2",
    ]


def test_delete_horizon(barnabas: Call, folder: Path) -> None:
    name = write_log([Record(0, TIME, b"k", None)], delete_horizon_ms=TIME + 5)
    assert f"deleteHorizonMs: OptionalLong[{TIME + 5}]" in barnabas("dump-log", "--files", name).out


def test_control_records(barnabas: Call, folder: Path) -> None:
    marker = EndTransactionMarker(commit=False, coordinator_epoch=3)
    batch = build_marker(marker, timestamp=TIME, producer_id=1, producer_epoch=0)
    batch += build([Record(1, TIME, struct.pack(">hh", 0, 99), b"")], control=True)
    Path(f"{FIRST}.log").write_bytes(batch)
    result = barnabas("dump-log", "--print-data-log", "--files", f"{FIRST}.log")
    assert contents(result.out) == ["endTxnMarker: ABORT coordinatorEpoch: 3", "controlType: UNKNOWN(99)"]
    # Without metadata there is nothing to print of a control record.
    result = barnabas("dump-log", "--print-data-log", "--skip-record-metadata", "--files", f"{FIRST}.log")
    assert result.out.count("\n\n") == 2
    assert result.out.endswith("\n\n")


def test_a_damaged_control_record_is_one_line(barnabas: Call, folder: Path) -> None:
    name = write_log([Record(0, TIME, control_key(ControlType.KRAFT_VOTERS), b"\0\0")], control=True)
    result = barnabas("dump-log", "--deep-iteration", "--files", name)
    assert result.code == 1
    assert result.err.startswith("the control record at offset 0 is damaged: ")
    assert result.err.count("\n") == 1


def test_gaps_are_reported_but_are_not_faults(barnabas: Call, folder: Path) -> None:
    name = write_log([Record(0, TIME, b"a", b"1"), Record(5, TIME, b"b", b"2"), Record(9, TIME, b"c", b"3")])
    result = barnabas("dump-log", "--deep-iteration", "--files", name)
    assert result.code == 0
    path = folder / name
    assert result.err == f"Non-consecutive offsets in {path}\n  5 is followed by 9\n  0 is followed by 5\n"


# --------------------------------------------------------------------- files that are wrong


@pytest.mark.trap
def test_a_torn_log_is_reported_and_exits_with_1(barnabas: Call, folder: Path) -> None:
    """Trap 24: exit code 0 on failure, the most common CLI bug."""
    size = (folder / f"{FIRST}.log").stat().st_size
    for cut in range(1, 83):
        (folder / f"{FIRST}.log").write_bytes((build(records(0, 3)) + build(records(3, 2)))[: size - cut])
        result = barnabas("dump-log", "--print-data-log", "--files", f"{FIRST}.log")
        assert result.code == 1
        left = size - cut - len(build(records(0, 3)))
        if left > 0:
            assert result.out.endswith(f"Found {left} invalid bytes at the end of {FIRST}.log\n")
        assert not result.err


def test_a_wrong_crc_is_reported_and_exits_with_1(barnabas: Call, folder: Path) -> None:
    changed(f"{FIRST}.log", 61 + 8, b"X")
    result = barnabas("dump-log", "--files", f"{FIRST}.log")
    assert result.code == 1
    assert result.out.count("isvalid: false") == 1
    assert result.out.count("isvalid: true") == 1


@pytest.mark.parametrize(
    ("position", "data", "line"),
    [
        (
            8,
            b"\0\0\0\5",
            f"Found record size 5 smaller than minimum record overhead (14) in file {FIRST}.log.",
        ),
        (8, b"\xff\xff\xff\xff", "Found record size -1 smaller"),
        (16, b"\x09", f"{FIRST}.log: the batch at 0 has the unknown format (magic) 9"),
        (57, b"\x7f\xff\xff\xff", f"{FIRST}.log: the batch at offset 0 counts 2147483647 records"),
    ],
)
def test_a_damaged_batch_is_one_line_and_the_next_file_is_still_printed(
    barnabas: Call, folder: Path, position: int, data: bytes, line: str
) -> None:
    changed(f"{FIRST}.log", position, data)
    (folder / "other").mkdir()
    (folder / "other" / f"{FIRST}.log").write_bytes(build(records(0, 1)))
    result = barnabas("dump-log", "--deep-iteration", "--files", f"{FIRST}.log,other/{FIRST}.log")
    assert result.code == 1
    assert result.err.startswith(line)
    assert result.err.count("\n") == 1
    assert f"Dumping other/{FIRST}.log\nLog starting offset: 0\nbaseOffset: 0" in result.out


def test_an_index_is_checked_against_its_log(barnabas: Call, folder: Path) -> None:
    good = barnabas("dump-log", "--files", f"{FIRST}.index")
    assert (good.code, good.err) == (0, "")
    assert good.out.splitlines()[1].startswith("offset: 4 position: ")
    changed(f"{FIRST}.index", 3, b"\x02")
    bad = barnabas("dump-log", "--verify-index-only", "--files", f"{FIRST}.index")
    assert bad.code == 1
    assert bad.out == f"Dumping {FIRST}.index\n"
    assert bad.err == f"Mismatches in :{folder}/{FIRST}.index\n  Index offset: 2, log offset: 4\n"


def test_an_index_may_end_in_zeroes(barnabas: Call, folder: Path) -> None:
    for suffix, entry in (("index", 8), ("timeindex", 12)):
        with (folder / f"{FIRST}.{suffix}").open("ab") as file:
            file.write(bytes(entry * 5000))
        result = barnabas("dump-log", "--files", f"{FIRST}.{suffix}")
        assert (result.code, result.err, result.out.count("\n")) == (0, "", 2)


@pytest.mark.parametrize(
    ("position", "options", "message"),
    [
        (100_000, (), "points at position 100000 of a log of"),
        (-1, (), "points at position -1 of a log of"),
        (3, (), "no complete batch of at most 5242880 bytes"),
        (0, ("--max-message-size", "20"), "no complete batch of at most 20 bytes"),
    ],
)
def test_an_index_that_points_nowhere_is_one_line(
    barnabas: Call, folder: Path, position: int, options: Any, message: str
) -> None:
    changed(f"{FIRST}.index", 4, struct.pack(">i", position))
    result = barnabas("dump-log", *options, "--files", f"{FIRST}.index")
    assert result.code == 1
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("position", [-5, 10_000])
def test_a_time_index_is_not_followed_through_an_index_that_points_nowhere(
    barnabas: Call, folder: Path, position: int
) -> None:
    Path(f"{FIRST}.index").write_bytes(struct.pack(">ii", 1, position))
    result = barnabas("dump-log", "--files", f"{FIRST}.timeindex")
    assert result.code == 1
    size = Path(f"{FIRST}.log").stat().st_size
    assert result.err == f"{FIRST}.index: an entry points at position {position} of a log of {size} bytes\n"


def test_a_pipe_is_refused_and_the_next_file_is_still_printed(barnabas: Call, folder: Path) -> None:
    os.mkfifo("00000000000000000007.log")
    result = barnabas("dump-log", "--files", f"00000000000000000007.log,{FIRST}.log")
    assert result.code == 1
    assert result.err.endswith("00000000000000000007.log: not a regular file\n")
    assert "lastOffset: 4" in result.out


def test_a_name_with_a_line_break_stays_on_one_line(barnabas: Call, folder: Path) -> None:
    result = barnabas("dump-log", "--files", "a\nb.log")
    assert result.out == "Dumping a\\nb.log\n"
    assert result.err.count("\n") == 1


def test_a_wrong_decoder_is_reported(barnabas: Call, folder: Path) -> None:
    value = write_metadata_record(NoOpRecord(), 0)
    name = write_log(
        [Record(0, TIME, b"\x00\x03\x00", value), Record(1, TIME, b"\x00\x01\x00\x01g", b"\x00")]
    )
    for decoder in ("offsets", "transaction-log", "share-group-state", "cluster-metadata"):
        result = barnabas("dump-log", f"--{decoder}-decoder", "--files", name)
        assert "unpack" not in result.out + result.err
        assert "index out of range" not in result.out + result.err
    result = barnabas("dump-log", "--offsets-decoder", "--files", name)
    assert "the bytes end too early (field " in result.out


def test_the_sanity_check_of_indexes(barnabas: Call, folder: Path) -> None:
    for suffix in ("index", "timeindex"):
        result = barnabas("dump-log", "--index-sanity-check", "--files", f"{FIRST}.{suffix}")
        assert (result.code, result.out) == (
            0,
            f"Dumping {FIRST}.{suffix}\n{FIRST}.{suffix} passed sanity check.\n",
        )
        with (folder / f"{FIRST}.{suffix}").open("ab") as file:
            file.write(b"\0")
        result = barnabas("dump-log", "--index-sanity-check", "--files", f"{FIRST}.{suffix}")
        assert result.code == 1
        assert "bytes which is neither positive nor a multiple of" in result.err


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("index", struct.pack(">ii", -1, 0), "the last offset is -1 which is less than the base offset 0"),
        (
            "timeindex",
            struct.pack(">qiqi", 9, 1, 8, 2),
            "last timestamp is 8 which is less than the first timestamp 9",
        ),
        ("timeindex", struct.pack(">qi", 9, -1), "last offset is -1 which is less than the first offset 0"),
    ],
)
def test_findings_of_the_sanity_check(
    barnabas: Call, folder: Path, suffix: str, content: Any, message: str
) -> None:
    (folder / f"{FIRST}.{suffix}").write_bytes(content)
    result = barnabas("dump-log", "--index-sanity-check", "--files", f"{FIRST}.{suffix}")
    assert result.code == 1
    assert message in result.err


def test_an_empty_index_is_reported(barnabas: Call, folder: Path) -> None:
    (folder / f"{FIRST}.index").write_bytes(b"")
    (folder / f"{FIRST}.timeindex").write_bytes(b"")
    result = barnabas("dump-log", "--files", f"{FIRST}.index,{FIRST}.timeindex")
    assert result.code == 0
    assert result.out == f"Dumping {FIRST}.index\n{FIRST}.index is empty.\nDumping {FIRST}.timeindex\n"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            [(TIME + 7, 4)],
            "Found timestamp mismatch in :{}\n  Index timestamp: 1700000000007, log timestamp: 1700000000004\n",
        ),
        (
            [(TIME + 4, 4), (TIME + 2, 2)],
            (
                "Found out of order timestamp in :{}\n  Index timestamp: 1700000000002, "
                "Previously indexed timestamp: 1700000000004\n"
            ),
        ),
        (
            [(TIME, 1), (TIME + 9, 500)],
            (
                "The following indexed offsets are not found in the log.\n"
                "Indexed offset: 1, found log offset: 2\nIndexed offset: 500, found log offset: -1\n"
            ),
        ),
    ],
)
def test_a_time_index_is_checked_against_its_log(
    barnabas: Call, folder: Path, entries: Any, message: str
) -> None:
    path = folder / f"{FIRST}.timeindex"
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    result = barnabas("dump-log", "--files", path.name)
    assert result.code == 1
    assert result.err == message.format(path)


def test_faults_of_a_kind_are_limited(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from barnabas.cli.dump_log import faults

    monkeypatch.setattr(faults, "MAX_FAULTS_SHOWN", 3)
    found = faults.Faults()
    for number in range(10):
        found.note(found.index_mismatches, "x", number, 0)
    found.print_all()
    assert capsys.readouterr().err.count("Index offset") == 3


def test_transaction_index(barnabas: Call, folder: Path) -> None:
    name = f"{FIRST}.txnindex"
    (folder / name).write_bytes(struct.pack(">hqqqq", 0, 2, 3, 4, 5) + b"torn")
    result = barnabas("dump-log", "--files", name)
    assert result.code == 1
    assert (
        result.out.splitlines()[1]
        == "version: 0 producerId: 2 firstOffset: 3 lastOffset: 4 lastStableOffset: 5"
    )
    assert result.err == (
        f"Transaction index file {folder / name} is corrupt, found 38 bytes which is neither positive nor "
        "a multiple of 34\n"
    )
    (folder / name).write_bytes(struct.pack(">hqqqq", 7, 2, 3, 4, 5))
    result = barnabas("dump-log", "--files", name)
    assert (result.code, result.err) == (1, f"{name}: an entry has the unknown version 7; only 0 is known\n")


def test_producer_snapshot(barnabas: Call, folder: Path) -> None:
    name = f"{FIRST}.snapshot"
    rows = [SnapshotEntry(1, 0, 4, 9, 2, TIME, -1, -1), SnapshotEntry(2, 3, -1, -1, 0, TIME, 7, 5)]
    (folder / name).write_bytes(encode_snapshot(rows))
    result = barnabas("dump-log", "--files", name)
    assert result.code == 0
    assert result.out.splitlines()[1:] == [
        (
            f"producerId: 1 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: {TIME} "
            f"firstSequence: 2 lastSequence: 4 lastOffset: 9 offsetDelta: 2 timestamp: {TIME}"
        ),
        f"producerId: 2 producerEpoch: 3 coordinatorEpoch: 7 currentTxnFirstOffset: OptionalLong[5] lastTimestamp: {TIME} ",
    ]
    changed(name, 20, b"\xff")
    result = barnabas("dump-log", "--files", name)
    assert result.code == 1
    assert result.err == f"{name}: the snapshot is corrupt: its CRC is wrong\n"


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        (
            f"nowhere/{FIRST}.log",
            5,
            f"barnabas dump-log: {{}}/nowhere/{FIRST}.log: No such file or directory",
        ),
        ("partition.metadata", 1, "Ignoring unknown file partition.metadata"),
        ("leader-epoch-checkpoint", 1, "Ignoring unknown file leader-epoch-checkpoint"),
        (
            "abc.log",
            1,
            "abc.log: the name of a log file starts with its base offset, but 'abc' is not an offset",
        ),
        (
            "x.checkpoint",
            1,
            "x.checkpoint: a snapshot is named OFFSET-EPOCH.checkpoint, with 20 and 10 digits",
        ),
        (f"{FIRST}.timeindex", 5, f"barnabas dump-log: {{}}/{FIRST}.index: No such file or directory"),
    ],
)
def test_files_that_cannot_be_printed(barnabas: Call, folder: Path, name: str, code: int, line: str) -> None:
    (folder / f"{FIRST}.index").unlink()
    result = barnabas("dump-log", "--files", name)
    assert (result.code, result.err) == (code, line.format(folder) + "\n")
    assert not (folder / f"{FIRST}.index").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--deep-iteration",), "the following arguments are required: --files"),
        (("--files", "x", "--files", "y"), "--files is given more than once"),
        (("--files", ","), "--files names no file"),
        (
            ("--files", "x", "--max-bytes", "x"),
            "argument --max-bytes: 'x' is not a number from 1 to 2147483647",
        ),
        (("--files", "x", "--max-message-size", "0"), "'0' is not a number"),
        (("--files", "x", "--print-data"), "unknown option --print-data (did you mean --print-data-log?)"),
        (("--files", "x", "--kafka-release", "2.8"), "invalid choice: '2.8'"),
    ],
)
def test_usage_errors_end_with_2(barnabas: Call, arguments: tuple[str, ...], message: str) -> None:
    result = barnabas("dump-log", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1
    assert not result.out


def test_version(barnabas: Call) -> None:
    assert barnabas("dump-log", "--version").out.startswith("barnabas ")


# --------------------------------------------------------------------- internal topics


def test_groups_show_decoded_subscriptions_and_assignments(barnabas: Call, folder: Path) -> None:
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=None, owned_partitions=[])
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id="m",
            client_id="c",
            client_host="/h",
            session_timeout=1,
            subscription=write_versioned(subscription, 0),
            assignment=b"\x00\x09rubbish",
        )
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", generation=1, protocol="range", leader="m", members=members
    )
    key = write_coordinator_key(GroupMetadataKey(group="g"))
    other = GroupMetadataValue(
        protocol_type="connect", generation=1, protocol="p", leader="m", members=members
    )
    name = write_log(
        [
            Record(0, TIME, key, write_versioned(value, 3)),
            Record(1, TIME, key, None),
            Record(2, TIME, struct.pack(">h", 77), b""),
            Record(3, TIME, key, b"\x00\x03"),
            Record(4, TIME, key, write_versioned(other, 3)),
        ]
    )
    result = barnabas("dump-log", "--offsets-decoder", "--files", name)
    first, deleted, unknown, damaged, connect = contents(result.out)
    assert first.startswith(
        'key: {"type":"2","data":{"group":"g"}} payload: {"version":"3","data":{"protocolType":"consumer"'
    )
    assert '"subscription":{"topics":["t"],"userData":null},"assignment":"AAlydWJiaXNo"' in first
    assert deleted.endswith("payload: <DELETE>")
    assert unknown == "key: Unknown record type 77 at offset 2, skipping."
    assert damaged.startswith("key: Error at offset 3, skipping. ")
    assert '"subscription":"AAA' in connect


@pytest.mark.parametrize("decoder", ["offsets", "transaction-log", "share-group-state"])
def test_a_coordinator_s_record_without_key_is_one_line(barnabas: Call, folder: Path, decoder: str) -> None:
    name = write_log([Record(0, TIME, None, b"v")])
    result = barnabas("dump-log", f"--{decoder}-decoder", "--files", name)
    assert result.code == 1
    assert result.err == (
        "Failed to decode message at offset 0 using the specified decoder (message had a missing key)\n"
    )


def test_transactions_in_the_format_of_both_releases(barnabas: Call, folder: Path) -> None:
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=1,
        transaction_partitions=[TransactionLogValue.PartitionsSchema(topic="t", partition_ids=[0, 1])],
        transaction_last_update_timestamp_ms=4,
        transaction_start_timestamp_ms=5,
    )
    key = write_coordinator_key(TransactionLogKey(transactional_id="x"))
    name = write_log(
        [
            Record(0, TIME, key, write_versioned(value, 0)),
            Record(1, TIME, key, None),
            Record(2, TIME, struct.pack(">h", 5), b""),
        ]
    )
    result = barnabas("dump-log", "--transaction-log-decoder", "--files", name)
    first, deleted, unknown = contents(result.out)
    assert first.startswith(
        'key: {"type":"0","data":{"transactionalId":"x"}} payload: {"version":"0","data":'
    )
    assert deleted.endswith("payload: <DELETE>")
    assert unknown == "key: Unknown record type 5 at offset 2, skipping."
    result = barnabas("dump-log", "--transaction-log-decoder", "--kafka-release", "3.9", "--files", name)
    assert contents(result.out) == [
        (
            "key: transaction_metadata::transactionalId=x payload: producerId:1,producerEpoch:2,state=Ongoing,"
            "partitions=[t-0,t-1],txnLastUpdateTimestamp=4,txnTimeoutMs=3"
        ),
        "key: transaction_metadata::transactionalId=x payload: <DELETE>",
        "key: unknown::version=5",
    ]


def test_share_state(barnabas: Call, folder: Path) -> None:
    key = ShareUpdateKey(group_id="g", topic_id=Uuid(bytes(16)), partition=2)
    name = write_log([Record(0, TIME, write_coordinator_key(key), None)])
    result = barnabas("dump-log", "--share-group-state-decoder", "--files", name)
    assert contents(result.out) == [
        'key: {"type":"1","data":{"groupId":"g","topicId":"AAAAAAAAAAAAAAAAAAAAAA","partition":2}} payload: <DELETE>'
    ]


def test_undecodable_metadata_records_are_skipped(barnabas: Call, folder: Path) -> None:
    name = write_log(
        [
            Record(0, TIME, None, write_metadata_record(NoOpRecord(), 0)),
            Record(1, TIME, None, b"\x01\x7f\x00"),
            Record(2, TIME, None, None),
        ]
    )
    result = barnabas("dump-log", "--cluster-metadata-decoder", "--files", name)
    good, bad, empty = contents(result.out)
    assert good == 'payload: {"type":"NO_OP_RECORD","version":0,"data":{}}'
    assert bad.startswith("payload: Error at 1, skipping. ")
    assert empty.startswith("payload: Error at 2, skipping. ")


def test_remote_records(barnabas: Call, folder: Path) -> None:
    topic = "AAAAAAAAAAAAAAAAAAAAAA"
    partition = RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry(
        name="t", id=Uuid(bytes(16)), partition=3
    )
    segment = RemoteLogSegmentMetadataRecord.RemoteLogSegmentIdEntry(
        topic_id_partition=partition, id=Uuid(bytes(16))
    )
    epochs = [
        RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry(leader_epoch=2, offset=5),
        RemoteLogSegmentMetadataRecord.SegmentLeaderEpochEntry(leader_epoch=0, offset=0),
    ]
    record = RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=segment,
        start_offset=0,
        end_offset=9,
        broker_id=1,
        max_timestamp_ms=7,
        event_timestamp_ms=8,
        segment_leader_epochs=epochs,
        segment_size_in_bytes=100,
        custom_metadata=b"abc",
        remote_log_segment_state=0,
    )
    name = write_log([Record(0, TIME, None, write_metadata_record(record, 0)), Record(1, TIME, None, b"")])
    result = barnabas("dump-log", "--remote-log-metadata-decoder", "--files", name)
    good, bad = contents(result.out)
    assert good == (
        f"payload: RemoteLogSegmentMetadata{{remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={topic}:t-3, "
        f"id={topic}}}, startOffset=0, endOffset=9, brokerId=1, maxTimestampMs=7, eventTimestampMs=8, "
        "segmentLeaderEpochs={0=0, 2=5}, segmentSizeInBytes=100, customMetadata=Optional[CustomMetadata{3 bytes}], "
        "state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}"
    )
    assert bad.startswith("payload: Error at offset 1, skipping. ")


def test_the_other_remote_records() -> None:
    snapshot = RemoteLogSegmentMetadataSnapshotRecord.schema.new()
    assert remote_text(snapshot).startswith("RemoteLogSegmentMetadataSnapshot{segmentId=AAAA")
    update = RemoteLogSegmentMetadataUpdateRecord.schema.new()
    assert "customMetadata=Optional.empty, state=COPY_SEGMENT_STARTED" in remote_text(update)
    deleted = RemotePartitionDeleteMetadataRecord.schema.new()
    assert "state=DELETE_PARTITION_MARKED" in remote_text(deleted)
    with pytest.raises(TypeError):
        remote_text(NoOpRecord())
