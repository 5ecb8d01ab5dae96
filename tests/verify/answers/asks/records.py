"""Requests about records: written, read, looked up, deleted."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from barnabas.batch.compression import Codec, compress
from barnabas.batch.records import TimestampType
from barnabas.batch.view import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
)
from tests.verify.answers.asks.topics import NOBODY
from tests.verify.answers.broker_ask import Ask, Said, T, TopicId, ask, batch, patched

LENGTH_POSITION = 8
LAST_OFFSET_DELTA_POSITION = 23
RECORD_COUNT_POSITION = 57
FAR_FUTURE = 4_000_000_000_000
PLAIN = batch("a", "b", "c")
LONG = batch(*(f"value {n}" for n in range(100)))
RECORDS = LONG[HEADER_SIZE:]
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
KEYED = batch("a", "b", keys=["k", "k"])
EARLIEST, LATEST, MAX_TIMESTAMP, LOCAL, TIERED, PENDING_UPLOAD = -2, -1, -3, -4, -5, -6


def old_message(magic: int) -> bytes:
    """A message of format 0 or 1, as clients before 0.11 wrote."""
    content = struct.pack(">bb", magic, 0) + (struct.pack(">q", T) if magic else b"") + struct.pack(">i", -1)
    content += struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(content)) + content
    return struct.pack(">qi", 0, len(message)) + message


def spoiled(codec: Codec, payload: bytes) -> bytes:
    """A batch of a hundred records, or so it says, with this in their place."""
    head = patched(
        LONG[:HEADER_SIZE] + payload,
        LENGTH_POSITION,
        "i",
        HEADER_SIZE - LOG_OVERHEAD + len(payload),
        crc=False,
    )
    return patched(head, ATTRIBUTES_POSITION, "h", codec.value)


def to(topic: str | TopicId, *batches: bytes, partition: int = 0) -> list[dict[str, Any]]:
    """What a produce request brings to one partition."""
    where = {"topic_id": topic} if isinstance(topic, TopicId) else {"name": topic}
    return [{**where, "partition_data": [{"index": partition, "records": b"".join(batches)}]}]


def produce(title: str, versions: str, topic_data: list[dict[str, Any]], acks: int = -1, **more: Any) -> Ask:
    return ask(title, "Produce", versions, acks=acks, timeout_ms=9000, topic_data=topic_data, **more)


def of(producer: int, epoch: int, sequence: int, *values: str, **more: Any) -> bytes:
    """A batch of an idempotent producer."""
    return batch(*values, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more)


def at(
    topic: str | TopicId, offset: int, partition: int = 0, max_bytes: int = 1 << 20, **more: Any
) -> dict[str, Any]:
    """One partition of a fetch."""
    where = {"topic_id": topic} if isinstance(topic, TopicId) else {"topic": topic}
    return {
        **where,
        "partitions": [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes, **more}
        ],
    }


def fetch(title: str, versions: str, *topics: dict[str, Any], **more: Any) -> Ask:
    fields = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return ask(title, "Fetch", versions, topics=list(topics), **fields)


def offsets(title: str, versions: str, topic: str, timestamp: int, partition: int = 0, **more: Any) -> Ask:
    isolation = {"isolation_level": more.pop("isolation_level")} if "isolation_level" in more else {}
    replica = more.pop("replica_id", -1)
    rows = [{"partition_index": partition, "timestamp": timestamp, **more}]
    return ask(
        title,
        "ListOffsets",
        versions,
        replica_id=replica,
        topics=[{"name": topic, "partitions": rows}],
        **isolation,
    )


def epochs(
    title: str, versions: str, topic: str, epoch: int, partition: int = 0, current: int = -1, **more: Any
) -> Ask:
    rows = [{"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]
    return ask(title, "OffsetForLeaderEpoch", versions, topics=[{"topic": topic, "partitions": rows}], **more)


def delete(title: str, versions: str, topic: str, offset: int, partition: int = 0) -> Ask:
    rows = [{"partition_index": partition, "offset": offset}]
    return ask(
        title, "DeleteRecords", versions, topics=[{"name": topic, "partitions": rows}], timeout_ms=9000
    )


# fmt: off
PRODUCED: list[Ask] = [
    # Produce: what is taken.
    produce("write a batch", "3 5 7 8 9 11 12", to("orders", PLAIN)),
    produce("write a batch by id", "13", to(TopicId("orders"), PLAIN)),
    produce("write and wait for the leader", "3 12", to("orders", PLAIN), acks=1),
    produce("write and wait for nothing", "3 12", to("orders", PLAIN), acks=0),
    *[produce(f"write {codec.name}", "9", to("orders", batch(*"abcdef" * 20, codec=codec), partition=1)) for codec in CODECS[:3]],
    produce("write ZSTD", "7 9", to("orders", batch(*"abcdef" * 20, codec=Codec.ZSTD), partition=1)),
    produce("write ZSTD before it was known", "3 6", to("orders", batch(*"abcdef" * 20, codec=Codec.ZSTD), partition=1)),
    produce("write keys to a compacted topic", "9", to("compacted", KEYED)),
    produce("write to a topic of broker times", "9", to("stamped", PLAIN)),
    produce("write to a topic of one codec", "9", to("zipped", PLAIN)),
    produce("write another codec to a topic of one codec", "9", to("zipped", batch(*"abc", codec=Codec.LZ4))),
    produce("write times out of order", "9", to("orders", batch("x", "y", "z", times=[T + 500, T + 900, T + 100]), partition=2)),
    produce("write to several", "9", [*to("orders", PLAIN), *to("old", PLAIN, partition=1), *to("nowhere", PLAIN)]),
    produce("write no topics", "9", []),
    # Produce: what is refused.
    produce("write to no such topic", "3 9 12", to("nowhere", PLAIN)),
    produce("write to no such id", "13", [{"topic_id": NOBODY, "partition_data": [{"index": 0, "records": PLAIN}]}]),
    produce("write to no such partition", "3 10 12", to("orders", PLAIN, partition=99)),
    produce("write to a negative partition", "9", to("orders", PLAIN, partition=-1)),
    produce("write to an illegal topic", "9", to("a/b", PLAIN)),
    produce("write with odd acks", "3 9 12", to("orders", PLAIN), acks=5),
    produce("write with negative acks", "9", to("orders", PLAIN), acks=-2),
    produce("write nothing", "3 9", to("orders")),
    produce("write a bad checksum", "3 9", to("orders", patched(PLAIN, len(PLAIN) - 1, "b", 9, crc=False))),
    produce("write another magic", "9", to("orders", patched(PLAIN, MAGIC_POSITION, "b", 7))),
    produce("write format 0", "3 9", to("orders", old_message(0))),
    produce("write format 1", "3 9", to("orders", old_message(1))),
    produce("write a length too long", "9", to("orders", patched(PLAIN, LENGTH_POSITION, "i", 9999))),
    produce("write a length too short", "9", to("orders", patched(PLAIN, LENGTH_POSITION, "i", 20))),
    produce("write a negative length", "9", to("orders", patched(PLAIN, LENGTH_POSITION, "i", -1))),
    produce("write too high a count", "9", to("orders", patched(PLAIN, RECORD_COUNT_POSITION, "i", 4))),
    produce("write too low a count", "9", to("orders", patched(PLAIN, RECORD_COUNT_POSITION, "i", 2))),
    produce("write a negative count", "9", to("orders", patched(PLAIN, RECORD_COUNT_POSITION, "i", -1))),
    produce("write a count of none", "9", to("orders", patched(PLAIN, RECORD_COUNT_POSITION, "i", 0))),
    produce("write a wrong last offset", "9", to("orders", patched(PLAIN, LAST_OFFSET_DELTA_POSITION, "i", 7))),
    produce("write a negative last offset", "9", to("orders", patched(PLAIN, LAST_OFFSET_DELTA_POSITION, "i", -7))),
    produce("write a wrong newest time", "9", to("orders", patched(PLAIN, MAX_TIMESTAMP_POSITION, "q", T + 999_999))),
    produce("write an unknown codec", "3 9", to("orders", patched(PLAIN, ATTRIBUTES_POSITION, "h", 7))),
    produce("write plain records as compressed ones", "9", to("orders", patched(PLAIN, ATTRIBUTES_POSITION, "h", 1))),
    *[produce(f"write {codec.name} that is none", "9", to("orders", spoiled(codec, b"\x55" * 40))) for codec in CODECS],
    *[produce(f"write half of {codec.name}", "9", to("orders", spoiled(codec, compress(codec, RECORDS)[:60]))) for codec in CODECS],
    *[produce(f"write empty {codec.name}", "9", to("orders", spoiled(codec, b""))) for codec in CODECS],
    *[produce(f"write {codec.name} of too few records", "9", to("orders", spoiled(codec, compress(codec, RECORDS[:500])))) for codec in CODECS],
    *[produce(f"write {codec.name} of too many records", "9", to("orders", spoiled(codec, compress(codec, RECORDS * 2)))) for codec in CODECS],
    produce("write a broken record", "9", to("orders", patched(PLAIN, 61, "b", 120))),
    produce("write a control batch", "9", to("orders", batch("x", control=True))),
    produce("write broker times", "9", to("orders", batch("x", timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=T))),
    produce("write two batches", "3 9", to("orders", PLAIN, PLAIN)),
    produce("write a batch and half of one", "9", to("orders", PLAIN, PLAIN[:40])),
    produce("write half a batch", "9", to("orders", PLAIN[:40])),
    produce("write bytes that are no batch", "9", to("orders", b"these are not the records you are looking for, not at all; move along")),
    produce("write far in the future", "5 8 9", to("orders", batch("x", "y", times=[T, FAR_FUTURE]))),
    produce("write far in the past of a strict topic", "9", to("strict", PLAIN)),
    produce("write no keys to a compacted topic", "3 7 8 9", to("compacted", batch("x", "y", "z", keys=["k", None, None]))),
    produce("write too much for a topic", "3 8 9", to("small", batch("x" * 300))),
    produce("write too much for the broker", "9", to("orders", batch("x" * 1_100_000))),
    produce("write to an internal topic", "9", to("__consumer_offsets", PLAIN)),
    produce("write to too few replicas", "3 9", to("careful", PLAIN)),
    produce("write to too few replicas and wait for one", "9", to("careful", PLAIN), acks=1),
    produce("write plain records with a transactional id", "9", to("orders", PLAIN), transactional_id="judge"),
    produce("write from another base offset", "9", to("orders", patched(PLAIN, 0, "q", 5, crc=False))),
    produce("write with the highest leader epoch", "9", to("orders", patched(PLAIN, 12, "i", 2**31 - 1, crc=False))),
    produce("write to one partition twice", "9", [*to("orders", PLAIN), *to("orders", KEYED)]),
    produce("write to one partition twice in a topic", "9", [{"name": "orders", "partition_data": [{"index": 0, "records": PLAIN}, {"index": 0, "records": KEYED}]}]),
    produce("write a negative time", "9", to("orders", batch("x", times=[-1]))),
    produce("write a very negative time", "9", to("orders", batch("x", times=[-5]))),
    produce("write all attributes", "9", to("orders", patched(PLAIN, ATTRIBUTES_POSITION, "h", 0x7f80))),
    produce("write a delete horizon", "9", to("orders", patched(PLAIN, ATTRIBUTES_POSITION, "h", 0x40))),
    produce("write a transaction without an id", "9", to("orders", batch("x", transactional=True, producer_id=7, producer_epoch=0, base_sequence=0))),
    # Produce: idempotent producers.  The ids are those that the broker gave out before.
    produce("begin at zero", "9", to("old", of(0, 0, 0, "a", "b"))),
    produce("go on", "9", to("old", of(0, 0, 2, "c"))),
    produce("repeat the last", "9", to("old", of(0, 0, 2, "c"))),
    produce("repeat one before", "9", to("old", of(0, 0, 0, "a", "b"))),
    produce("leave a gap", "9", to("old", of(0, 0, 9, "x"))),
    produce("repeat in part", "9", to("old", of(0, 0, 1, "b", "c"))),
    produce("a higher epoch from zero", "9", to("old", of(0, 1, 0, "d"))),
    produce("a lower epoch", "3 9", to("old", of(0, 0, 3, "e"))),
    produce("a higher epoch not from zero", "9", to("old", of(0, 2, 5, "f"))),
    produce("an unknown producer not from zero", "9", to("old", of(555, 0, 5, "g"))),
    produce("an unknown producer from zero", "9", to("old", of(556, 3, 0, "g"))),
    produce("a negative sequence", "9", to("old", of(1, 0, -1, "g"))),
    produce("a negative epoch", "9", to("old", of(1, -1, 0, "g"))),
    produce("many at once", "9", to("old", of(1, 0, 0, *"abcdefghij"))),
    *[produce(f"number {n}", "9", to("old", of(2, 0, n, str(n)))) for n in range(7)],
    produce("repeat one too long ago", "9", to("old", of(2, 0, 0, "0"))),
    produce("repeat the oldest that is known", "9", to("old", of(2, 0, 2, "2"))),
    produce("two batches of one producer", "9", to("old", of(2, 0, 7, "7"), of(2, 0, 8, "8"))),
    produce("the last sequence there is", "9", to("old", of(557, 0, 2**31 - 1, "last"))),
    # Where the two part, in a topic of its own that goes away again.
    *[produce(f"write {codec.name} with a broken record", "9", to("spoiled", spoiled(codec, compress(codec, b"\x78" + RECORDS[1:])))) for codec in CODECS],
    ask("delete what is broken", "DeleteTopics", "6", topics=[{"name": "spoiled"}], timeout_ms=9000),
    # DescribeProducers.
    ask("producers", "DescribeProducers", "0", topics=[{"name": "old", "partition_indexes": [0, 1]}]),
    ask("producers of none", "DescribeProducers", "0", topics=[{"name": "orders", "partition_indexes": [0]}]),
    ask("producers of no such partition", "DescribeProducers", "0", topics=[{"name": "old", "partition_indexes": [0, 99, -1]}]),
    ask("producers of no such topic", "DescribeProducers", "0", topics=[{"name": "nowhere", "partition_indexes": [0]}]),
    ask("producers of an illegal topic", "DescribeProducers", "0", topics=[{"name": "a/b", "partition_indexes": [0]}]),
    ask("producers of nothing", "DescribeProducers", "0", topics=[]),
]

READ: list[Ask] = [
    # Fetch.
    fetch("read from the start", "4 5 8 10 11 12", at("orders", 0)),
    fetch("read by id", "13 15 16 17 18", at(TopicId("orders"), 0)),
    fetch("read the end", "4 12", at("orders", 36)),
    fetch("read behind the end", "4 12", at("orders", 99_999)),
    fetch("read before the start", "12", at("orders", -1)),
    fetch("read within a batch", "12", at("orders", 4, max_bytes=1)),
    fetch("read a little", "12", at("orders", 0, max_bytes=100)),
    fetch("read nothing at all", "12", at("orders", 0, max_bytes=0)),
    fetch("read nothing in all", "12", at("orders", 0), max_bytes=0),
    fetch("read two partitions and little", "12", at("orders", 0, max_bytes=1), at("old", 0, max_bytes=1), max_bytes=100),
    fetch("read every codec", "12", at("orders", 0, partition=1)),
    fetch("read every codec as an old client", "4 9", at("orders", 0, partition=1)),
    fetch("read a topic of one codec", "12", at("zipped", 0)),
    fetch("read a topic of broker times", "12", at("stamped", 0)),
    fetch("read what is committed", "4 12", at("old", 0), isolation_level=1),
    fetch("read at another isolation", "12", at("old", 0), isolation_level=2),
    fetch("read no such topic", "4 12", at("nowhere", 0)),
    fetch("read no such id", "13 18", {"topic_id": NOBODY, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}]}),
    fetch("read no id", "13", {"partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}]}),
    fetch("read no such partition", "12", at("orders", 0, partition=99)),
    fetch("read a negative partition", "12", at("orders", 0, partition=-1)),
    fetch("read one of one and an unknown one", "12", at("orders", 0, max_bytes=100), at("nowhere", 0)),
    fetch("read with the right epoch", "9 12", at("orders", 0, current_leader_epoch=0, max_bytes=100)),
    fetch("read with an epoch to come", "9 12", at("orders", 0, current_leader_epoch=5)),
    fetch("read with a diverging epoch", "12", at("orders", 3, last_fetched_epoch=0, max_bytes=100)),
    fetch("read with an unknown last epoch", "12", at("orders", 3, last_fetched_epoch=7, max_bytes=100)),
    fetch("read as a follower that is none", "12", at("orders", 0), replica_id=5),
    fetch("read as a follower that is none, newest", "17", at(TopicId("orders"), 0), replica_state={"replica_id": 5, "replica_epoch": 1}),
    fetch("read as a debugging consumer", "12", at("orders", 0, max_bytes=100), replica_id=-2),
    fetch("read one partition twice", "12", at("orders", 0, max_bytes=100), at("orders", 3, max_bytes=100)),
    fetch("read a deleted id", "13", at(TopicId("doomed-3"), 0)),
    fetch("read without waiting", "12", at("orders", 0, max_bytes=100), max_wait_ms=0, min_bytes=0),
    fetch("read with a negative wait", "12", at("orders", 0, max_bytes=100), max_wait_ms=-1),
    fetch("read with a negative limit", "12", at("orders", 0, max_bytes=-1)),
    fetch("read with a negative limit in all", "12", at("orders", 0), max_bytes=-1),
    fetch("read the internal topic", "12", at("__consumer_offsets", 0)),
    fetch("read nothing", "12"),
    # Fetch sessions (KIP-227).
    fetch("open a session", "7 12", at("orders", 0, max_bytes=100), at("old", 0, max_bytes=100), session_epoch=0),
    fetch("go on in the session, nothing new", "12", session_id=Said("open a session v12", "session_id"), session_epoch=1),
    fetch("go on with a change", "12", at("orders", 3, max_bytes=100), session_id=Said("open a session v12", "session_id"), session_epoch=2),
    fetch("forget a partition", "12", session_id=Said("open a session v12", "session_id"), session_epoch=3,
          forgotten_topics_data=[{"topic": "old", "partitions": [0]}]),
    fetch("repeat an epoch", "12", session_id=Said("open a session v12", "session_id"), session_epoch=3),
    fetch("jump in epochs", "12", session_id=Said("open a session v12", "session_id"), session_epoch=9),
    fetch("another version in the session", "13", session_id=Said("open a session v12", "session_id"), session_epoch=4),
    fetch("an error in a session", "12", at("nowhere", 0), session_id=Said("open a session v12", "session_id"), session_epoch=4),
    fetch("close the session", "12", at("orders", 0, max_bytes=100), session_id=Said("open a session v12", "session_id"), session_epoch=-1),
    fetch("go on after the end", "12", session_id=Said("open a session v12", "session_id"), session_epoch=5),
    fetch("an unknown session", "7 12", at("orders", 0), session_id=12345, session_epoch=1),
    fetch("an epoch without a session", "12", at("orders", 0, max_bytes=100), session_epoch=5),
    fetch("open a session by id", "13", at(TopicId("orders"), 0, max_bytes=100), session_epoch=0),
    fetch("go on by id", "13", at(TopicId("orders"), 6, max_bytes=100), session_id=Said("open a session by id v13", "session_id"), session_epoch=1),
    fetch("an unknown id in the session", "13", {"topic_id": NOBODY, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 99}]},
          session_id=Said("open a session by id v13", "session_id"), session_epoch=2),
    fetch("names in a session of ids", "12", at("orders", 0), session_id=Said("open a session by id v13", "session_id"), session_epoch=3),
    # ListOffsets.
    offsets("the first offset", "1 2 4 6 10", "orders", EARLIEST),
    offsets("the next offset", "1 2 4 6 10", "orders", LATEST),
    offsets("the newest record", "7 10", "orders", MAX_TIMESTAMP, partition=2),
    offsets("the newest record before that could be asked", "6", "orders", MAX_TIMESTAMP, partition=2),
    offsets("the first local offset", "8 10", "orders", LOCAL),
    offsets("the first local offset before that could be asked", "7", "orders", LOCAL),
    offsets("the last tiered offset", "9 10", "orders", TIERED),
    offsets("the last tiered offset before that could be asked", "8", "orders", TIERED),
    offsets("a special time to come", "10", "orders", PENDING_UPLOAD),
    offsets("a very negative time", "10", "orders", -99),
    offsets("a time", "1 6 10", "orders", T + 1),
    offsets("a time between records out of order", "6", "orders", T + 600, partition=2),
    offsets("a time in a compressed batch", "6", "orders", T + 50, partition=1),
    offsets("a time before all", "6", "orders", 0),
    offsets("a time after all", "1 6", "orders", T + 1_000_000),
    offsets("a time in an empty partition", "6", "defaults", T),
    offsets("the newest record of an empty partition", "7", "defaults", MAX_TIMESTAMP),
    offsets("offsets of committed records", "2 6", "old", LATEST, isolation_level=1),
    offsets("offsets at another isolation", "6", "old", LATEST, isolation_level=7),
    offsets("offsets with the right epoch", "4 6", "orders", LATEST, current_leader_epoch=0),
    offsets("offsets with an epoch to come", "4 6", "orders", LATEST, current_leader_epoch=9),
    offsets("offsets of no such topic", "1 6", "nowhere", LATEST),
    offsets("offsets of no such partition", "1 6", "orders", LATEST, partition=99),
    offsets("offsets of a negative partition", "6", "orders", LATEST, partition=-1),
    offsets("offsets as a follower", "6", "orders", LATEST, replica_id=1),
    offsets("offsets as a debugging consumer", "6", "orders", LATEST, replica_id=-2),
    ask("offsets of a partition twice", "ListOffsets", "6", replica_id=-1, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": LATEST}, {"partition_index": 0, "timestamp": EARLIEST}]}]),
    ask("offsets of nothing", "ListOffsets", "6", replica_id=-1, topics=[]),
    # OffsetForLeaderEpoch.
    epochs("where epoch 0 ends", "2 3 4", "orders", 0),
    epochs("where an epoch to come ends", "4", "orders", 5),
    epochs("where epoch -1 ends", "4", "orders", -1),
    epochs("where it ends, with the right epoch", "4", "orders", 0, current=0),
    epochs("where it ends, with an epoch to come", "4", "orders", 0, current=3),
    epochs("where it ends in an empty partition", "4", "defaults", 0),
    epochs("where it ends in no such topic", "2 4", "nowhere", 0),
    epochs("where it ends in no such partition", "4", "orders", 0, partition=99),
    epochs("where it ends for a follower", "3 4", "orders", 0, replica_id=1),
    epochs("where it ends for a debugging consumer", "4", "orders", 0, replica_id=-2),
    # DescribeLogDirs.
    ask("folders", "DescribeLogDirs", "1 2 3 4", topics=None),
    ask("folders of a partition", "DescribeLogDirs", "4", topics=[{"topic": "orders", "partitions": [0, 2]}]),
    ask("folders of what is not", "DescribeLogDirs", "4", topics=[{"topic": "nowhere", "partitions": [0]}, {"topic": "orders", "partitions": [99]}]),
    ask("folders of nothing", "DescribeLogDirs", "1 4", topics=[]),
    ask("folders of no partitions", "DescribeLogDirs", "4", topics=[{"topic": "orders", "partitions": []}]),
    # DeleteRecords.
    delete("delete records", "0", "orders", 5),
    delete("delete no more records", "1", "orders", 5),
    delete("delete fewer records", "2", "orders", 2),
    delete("delete up to a batch", "2", "orders", 9),
    delete("delete behind the end", "0 2", "orders", 99_999),
    delete("delete before the start", "2", "orders", -2),
    delete("delete of no such topic", "0 2", "nowhere", 1),
    delete("delete of no such partition", "2", "orders", 1, partition=99),
    delete("delete of an illegal topic", "2", "a/b", 1),
    delete("delete of a compacted topic", "2", "compacted", 1),
    delete("delete all of a partition", "2", "orders", -1, partition=1),
    delete("delete all of an empty partition", "2", "defaults", -1),
    ask("delete nothing", "DeleteRecords", "2", topics=[], timeout_ms=9000),
    fetch("read before what was deleted", "12", at("orders", 0)),
    fetch("read within what was deleted", "12", at("orders", 8)),
    fetch("read from what is left", "12", at("orders", 9, max_bytes=100)),
    offsets("the first offset after deletion", "6", "orders", EARLIEST),
    offsets("a time of deleted records", "6", "orders", T),
    offsets("the next offset of an emptied partition", "6", "orders", LATEST, partition=1),
    offsets("the newest record of an emptied partition", "7", "orders", MAX_TIMESTAMP, partition=1),
    epochs("where epoch 0 ends after deletion", "4", "orders", 0),
    produce("write after deletion", "9", to("orders", PLAIN, partition=1)),
]
# fmt: on
