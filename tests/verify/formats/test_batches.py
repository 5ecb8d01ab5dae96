"""Record batches held against Apache Kafka's own classes: each reads the other's, and both check alike."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build, build_empty
from barnabas.batch.check import CheckedBatch, CheckRules, InvalidRecords, check_batch, only_batch
from barnabas.batch.compression import LEVELS, Codec, compress
from barnabas.batch.control import EndTransactionMarker, batch_marker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.batch.view import CRC_POSITION, HEADER_SIZE, BatchView, batch_crc, patch_offsets

VERSION = "4.1.0"
PROBE = Path(__file__).parents[1] / "java" / "BatchProbe.java"
START = 1700000000000
FOREVER = 2**63 - 1
MUTATIONS = 4000

RunJava = Callable[..., str]

LARGE = bytes((index * 31 >> 3) & 0xFF for index in range(200_000))
SAMPLE = [
    Record(100, START, b"k1", b"v1"),
    Record(101, START + 5, None, b"no key"),
    Record(102, START - 70_000, b"tombstone", None),
    Record(
        103,
        START + 10_000_000_000,
        b"k2",
        LARGE,
        (("h1", b"x"), ("h2", None), ("", b""), ("ü", bytes(300))),
    ),
]


def sealed(batch: bytes | bytearray) -> bytearray:
    out = bytearray(batch)
    struct.pack_into(">i", out, 8, len(out) - 12)
    out[CRC_POSITION : CRC_POSITION + 4] = batch_crc(out, 0, len(out)).to_bytes(4, "big")
    return out


def test_we_read_what_apache_kafka_writes(run_java: RunJava) -> None:
    lines = run_java(VERSION, PROBE, "write").splitlines()
    assert len(lines) == 5 * 2 * 3 + 2
    for line in lines:
        name, raw = line.split("\t")
        view = BatchView(bytes.fromhex(raw))
        assert view.crc_ok(), name
        assert (view.base_offset, view.leader_epoch) == (100, 5)
        if name.startswith("marker"):
            assert batch_marker(view) == EndTransactionMarker(name.endswith("COMMIT"), 7)
            continue
        codec, kind, timestamp_type = name.split()
        assert view.codec.config_name == codec
        assert view.timestamp_type.config_name == timestamp_type
        stamped = view.timestamp_type is TimestampType.LOG_APPEND_TIME
        expected = [record._replace(timestamp=START + 99) for record in SAMPLE] if stamped else SAMPLE
        assert list(view.records()) == expected, name
        owned = kind != "plain"
        assert view.last_sequence == (1 if owned else -1)
        assert view.is_transactional == (kind == "transactional")
        built = build(
            SAMPLE,
            leader_epoch=5,
            codec=view.codec,
            timestamp_type=view.timestamp_type,
            log_append_time_ms=START + 99,
            producer_id=4000 if owned else -1,
            producer_epoch=2 if owned else -1,
            base_sequence=2**31 - 2 if owned else -1,
            transactional=view.is_transactional,
        )
        assert BatchView(built).payload() == view.payload(), name
        if codec == "none":
            assert bytes(built) == view.copy(), name


def test_apache_kafka_reads_what_we_write(run_java: RunJava, tmp_path: Path) -> None:
    batches: list[bytearray] = []
    for codec in Codec:
        levels = [None, *LEVELS.get(codec, ())[:2]]
        for level in levels:
            batches.append(build(SAMPLE, codec=codec, level=level, leader_epoch=3))
    for timestamp_type in TimestampType:
        batches.append(build(SAMPLE, timestamp_type=timestamp_type, log_append_time_ms=START + 1))
    batches.append(build(SAMPLE[1::2], base_offset=99, last_offset=120, delete_horizon_ms=START + 10**8))
    batches.append(
        build(SAMPLE, producer_id=9, producer_epoch=1, base_sequence=2**31 - 2, transactional=True)
    )
    batches.append(build_empty(7, 19, producer_id=9, producer_epoch=1, base_sequence=4, max_timestamp=START))
    for commit in (True, False):
        marker = EndTransactionMarker(commit, 12)
        batches.append(build_marker(marker, timestamp=START, producer_id=9, producer_epoch=1, base_offset=8))
    path = tmp_path / "batches"
    path.write_text("\n".join(bytes(batch).hex() for batch in batches) + "\n", "utf-8")
    lines = run_java(VERSION, PROBE, "read", str(path)).splitlines()
    assert len(lines) == len(batches)
    for batch, line in zip(batches, lines, strict=True):
        assert json.loads(line) == as_json(BatchView(batch))


def as_json(view: BatchView) -> dict[str, object]:
    def shown(content: bytes | None) -> str | None:
        return None if content is None else content.hex()

    return {
        "base_offset": view.base_offset,
        "last_offset": view.last_offset,
        "leader_epoch": view.leader_epoch,
        "codec": view.codec.config_name,
        "timestamp_type": view.timestamp_type.config_name,
        "max_timestamp": view.max_timestamp,
        "producer_id": view.producer_id,
        "producer_epoch": view.producer_epoch,
        "base_sequence": view.base_sequence,
        "last_sequence": view.last_sequence,
        "transactional": view.is_transactional,
        "control": view.is_control,
        "delete_horizon_ms": view.delete_horizon_ms,
        "records": [
            [
                record.offset,
                record.timestamp,
                shown(record.key),
                shown(record.value),
                [[name.encode().hex(), shown(content)] for name, content in record.headers],
            ]
            for record in view.records()
        ],
    }


@dataclass(frozen=True, slots=True)
class Case:
    """One produce: the bytes and what the topic's settings ask."""

    raw: bytes
    produce_version: int = 12
    compression: Codec | None = None
    compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    before_ms: int = FOREVER
    after_ms: int = FOREVER
    max_message_bytes: int = 1048588

    def line(self) -> str:
        codec = "producer" if self.compression is None else self.compression.config_name
        fields = (
            self.produce_version,
            codec,
            str(self.compacted).lower(),
            self.timestamp_type.config_name,
            self.before_ms,
            self.after_ms,
            START,
            self.max_message_bytes,
            "CLIENT",
            self.raw.hex(),
        )
        return " ".join(map(str, fields))

    def check(self) -> CheckedBatch:
        rules = CheckRules(
            compression=self.compression,
            compacted=self.compacted,
            timestamp_type=self.timestamp_type,
            timestamp_before_max_ms=self.before_ms,
            timestamp_after_max_ms=self.after_ms,
            max_message_bytes=self.max_message_bytes,
        )
        checked = check_batch(only_batch(bytearray(self.raw), self.produce_version), rules, now_ms=START)
        patch_offsets(checked.view.buffer, checked.view.start, 100, 5)  # type: ignore[arg-type]
        return checked


def plain_records(count: int) -> list[Record]:
    return [
        Record(
            index,
            START + index,
            f"k{index}".encode() if index % 3 else None,
            b"v" * (10 * index),
            (("h", b"x"), ("n", None)) if index % 2 else (),
        )
        for index in range(count)
    ]


def with_field(position: int, kind: str, value: int, batch: bytearray | None = None) -> bytes:
    changed = build(plain_records(3)) if batch is None else bytearray(batch)
    struct.pack_into(kind, changed, position, value)
    return bytes(sealed(changed)) if position > CRC_POSITION else bytes(changed)


def with_payload(payload: bytes, count: int, codec: Codec = Codec.NONE) -> bytes:
    batch = build(plain_records(1), codec=codec)[:HEADER_SIZE]
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    return bytes(sealed(batch + compress(codec, payload)))


KEYED = build([Record(index, START, b"k") for index in range(3)])
KEYLESS = build([Record(0, START, b"k"), Record(1, START), Record(2, START, b"")])
LATE = build([Record(0, START - 2000, b"k"), Record(1, START + 2000, b"k"), Record(2, -1, b"k")])
STAMPED = build(plain_records(2), timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=START)
GAPS = build([Record(0, START, b"a"), Record(4, START, b"b")], codec=Codec.GZIP)

NAMED = {
    "sound": (Case(bytes(KEYED)), 0),
    "bad crc": (Case(with_field(17, ">I", 1)), 2),
    "magic 7": (Case(with_field(16, ">b", 7)), 2),
    "negative length": (Case(with_field(8, ">i", -1)), 2),
    "length below its header": (Case(bytes(sealed(KEYED[:50]))), 2),
    "magic 0": (Case(with_field(16, ">b", 0)), 87),
    "magic 1": (Case(with_field(16, ">b", 1)), 87),
    "nothing": (Case(b""), 87),
    "batch too long": (Case(with_field(8, ">i", 2**30)), 87),
    "two batches": (Case(bytes(KEYED * 2)), 87),
    "a malformed second batch": (Case(bytes(KEYED) + bytes(40)), 2),
    "some bytes after the batch": (Case(bytes(KEYED) + b"tail"), 0),
    "wrong count": (Case(with_field(57, ">i", 7)), 87),
    "no records": (Case(with_field(57, ">i", 0)), 87),
    "negative count": (Case(with_field(57, ">i", -3)), 87),
    "negative last offset": (Case(with_field(23, ">i", -5)), 87),
    "base offset": (Case(with_field(0, ">q", 9)), 87),
    "bad record length": (Case(with_payload(bytes((40, 0, 0, 0, 1, 1, 0)), 1)), 87),
    "bytes left in a record": (Case(with_payload(bytes((14, 0, 0, 0, 1, 1, 0, 0)), 1)), 87),
    "bytes left in the batch": (Case(bytes(sealed(KEYED + b"x"))), 87),
    "overlong number": (Case(with_payload(b"\x18\0" + b"\xff" * 11, 1)), 87),
    "null header key": (Case(with_payload(bytes((16, 0, 0, 0, 1, 1, 2, 1, 1)), 1)), 87),
    "billions of headers": (Case(with_payload(b"\x14\0\0\0\x01\x01\xfe\xff\xff\xff\x0f", 1)), 87),
    "control batch": (
        Case(
            bytes(
                build_marker(EndTransactionMarker(True, 1), timestamp=START, producer_id=1, producer_epoch=0)
            )
        ),
        87,
    ),
    "no sequence": (Case(bytes(build(plain_records(2), producer_id=4, producer_epoch=0))), 87),
    "no key, compacted": (Case(bytes(KEYLESS), compacted=True), 87),
    "no key, compacted, zstd": (
        Case(bytes(build(plain_records(4), codec=Codec.ZSTD)), compacted=True),
        87,
    ),
    "too old": (Case(bytes(LATE), before_ms=1999), 32),
    "too new": (Case(bytes(LATE), after_ms=1999), 32),
    "just in time": (Case(bytes(LATE), before_ms=2000, after_ms=2000), 0),
    "too old and no key": (Case(bytes(KEYLESS), compacted=True, before_ms=0, after_ms=0), 87),
    "stamped by the client": (Case(bytes(STAMPED), timestamp_type=TimestampType.LOG_APPEND_TIME), 32),
    "stamped, but the topic keeps create time": (Case(bytes(STAMPED)), 0),
    "log append time": (Case(bytes(KEYED), timestamp_type=TimestampType.LOG_APPEND_TIME), 0),
    "zstd in version 6": (Case(bytes(build(plain_records(2), codec=Codec.ZSTD)), produce_version=6), 76),
    "zstd in version 7": (Case(bytes(build(plain_records(2), codec=Codec.ZSTD)), produce_version=7), 0),
    "larger than allowed": (Case(bytes(KEYED), max_message_bytes=len(KEYED) - 1), 10),
    "as large as allowed": (Case(bytes(KEYED), max_message_bytes=len(KEYED)), 0),
    "larger after rewriting": (
        Case(
            bytes(build([Record(0, START, b"k", bytes(5000))], codec=Codec.GZIP)),
            compression=Codec.NONE,
            max_message_bytes=1000,
        ),
        10,
    ),
    "gaps between offsets": (Case(with_field(23, ">i", 1, GAPS), compression=Codec.LZ4), 0),
    **{
        f"{source.config_name} to {target.config_name}": (
            Case(bytes(build(plain_records(9), codec=source)), compression=target),
            0,
        )
        for source in Codec
        for target in Codec
    },
}


def checked_by_java(run_java: RunJava, folder: Path, cases: list[Case]) -> list[tuple[int, str]]:
    """What Apache Kafka answers: the code, and the stored batch or what is wrong."""
    path = folder / "cases"
    path.write_text("\n".join(case.line() for case in cases) + "\n", "utf-8")
    lines = run_java(VERSION, PROBE, "check", str(path)).splitlines()
    assert len(lines) == len(cases)
    split = [line.split(" ", 1) for line in lines]
    return [(int(code), rest) for code, rest in split]


def assert_stored_alike(checked: CheckedBatch, answer: str) -> None:
    max_timestamp, stored = answer.split()
    assert checked.max_timestamp == int(max_timestamp)
    theirs = BatchView(bytes.fromhex(stored))
    ours = BatchView(checked.view.copy())
    assert ours.crc_ok()
    fields = [field for field in BatchView.__slots__ if field not in ("buffer", "crc", "size", "start")]
    assert [getattr(ours, field) for field in fields] == [getattr(theirs, field) for field in fields]
    assert list(ours.records()) == list(theirs.records())


def test_both_give_the_same_answer_to_named_cases(run_java: RunJava, tmp_path: Path) -> None:
    answers = checked_by_java(run_java, tmp_path, [case for case, _ in NAMED.values()])
    for (name, (case, expected)), (code, rest) in zip(NAMED.items(), answers, strict=True):
        assert code == expected, f"{name}: Apache Kafka answers {code} {rest}"
        if expected == 0:
            assert_stored_alike(case.check(), rest)
            continue
        refused = refusal(case)
        assert refused is not None, f"{name} is accepted"
        assert int(refused.code) == expected, name
        if isinstance(refused, InvalidRecords):
            assert rest == ",".join(str(error.index) for error in refused.record_errors), name


def refusal(case: Case) -> KafkaError | None:
    try:
        case.check()
    except KafkaError as error:
        return error
    return None


def mutated(rng: random.Random) -> Case:
    """A batch with damage in its records, its header or its compressed bytes, and settings at random."""
    codec = rng.choice(list(Codec))
    records = [r._replace(offset=i) for i, r in enumerate(rng.sample(plain_records(12), rng.randint(1, 12)))]
    batch = build(records, codec=codec)
    place = rng.randrange(10)
    if place < 5:
        payload = bytearray(BatchView(batch).payload())
        for _ in range(rng.randint(0, 2)):
            damage(payload, rng)
        batch = sealed(batch[:HEADER_SIZE] + compress(codec, bytes(payload)))
    elif place < 8:
        position = rng.randrange(HEADER_SIZE)
        batch[position] = rng.choice((rng.randrange(256), batch[position] ^ 1 << rng.randrange(8), 255, 0))
        if rng.random() < 0.8:
            batch[CRC_POSITION : CRC_POSITION + 4] = batch_crc(batch, 0, len(batch)).to_bytes(4, "big")
    else:
        body = batch[HEADER_SIZE:]
        damage(body, rng)
        batch = sealed(batch[:HEADER_SIZE] + body)
    return Case(
        bytes(batch),
        produce_version=rng.choice((3, 6, 7, 12)),
        compression=rng.choice((None, None, *Codec)),
        compacted=rng.random() < 0.2,
        timestamp_type=rng.choice((TimestampType.CREATE_TIME, *TimestampType)),
        before_ms=rng.choice((FOREVER, 1000, 3)),
        after_ms=rng.choice((FOREVER, 3_600_000, 5)),
    )


def damage(content: bytearray, rng: random.Random) -> None:
    if not content:
        return
    position = rng.randrange(len(content))
    kind = rng.randrange(3)
    if kind == 0:
        content[position] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[position : position + rng.randint(1, 3)]
    else:
        content[position:position] = rng.randbytes(rng.randint(1, 3))


def test_both_judge_mutated_batches_alike(run_java: RunJava, tmp_path: Path) -> None:
    """In four ways only the answers may differ, and each way is counted."""
    rng = random.Random(20)
    cases = [mutated(rng) for _ in range(MUTATIONS)]
    same = 0
    ways: dict[str, int] = {}
    for case, (code, rest) in zip(cases, checked_by_java(run_java, tmp_path, cases), strict=True):
        error: KafkaError | None = None
        checked: CheckedBatch | None = None
        try:
            checked = case.check()
        except KafkaError as refused:
            error = refused
        ours = 0 if error is None else int(error.code)
        if ours == code:
            same += 1
            if checked is not None and not checked.rewritten:
                assert_stored_alike(checked, rest)
            continue
        way = difference(case, code, error)
        assert way is not None, f"{case}: Apache Kafka answers {code} {rest}, we answer {error}"
        ways[way] = ways.get(way, 0) + 1
    assert same > 0.7 * MUTATIONS, ways


def difference(case: Case, code: int, error: KafkaError | None) -> str | None:
    """Why the answers may differ."""
    compressed = bool(case.raw[22] & 7)
    if code == ErrorCode.UNKNOWN_SERVER_ERROR:
        # An exception that it does not expect; we name the fault, or find none.
        return "unexpected exception"
    if error is None or not compressed:
        return None
    if error.code is ErrorCode.INVALID_RECORD and not isinstance(error, InvalidRecords):
        # It skips over the records of a compressed batch without comparing their lengths; readers do compare.
        return "record lengths in a compressed batch"
    # What a codec refuses has no code of its own there either: UNKNOWN_SERVER_ERROR.
    refused = error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    if refused and code in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP):
        # It meets the record at fault before the damage further on in the compressed bytes.
        return "record before damage"
    if refused and code == 0 and "lz4" in error.message:
        # Its own reader takes an end mark with a stray bit, which the lz4 library refuses.
        return "lz4 end mark"
    return None
