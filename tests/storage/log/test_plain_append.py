"""The fast append path: never a different result from the general path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.base.errors import KafkaError
from barnabas.batch import check, compression, view
from barnabas.batch.build import build
from barnabas.batch.check import NOT_EXAMINED
from barnabas.batch.compression import Codec
from barnabas.batch.engine.walk import walk
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.log import log as log_module
from barnabas.storage.log import plain_append
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from tests.storage.logs import SMALL, T0, HandClock, open_log

OPTIONS = replace(
    SMALL, index_interval_bytes=100, segment_bytes=4000, message_timestamp_after_max_ms=3_600_000
)


def batch(
    count: int = 1, time: int = T0, size: int = 20, key: bytes | None = b"k", **fields: Any
) -> bytearray:
    return build([Record(index, time + index, key, b"v" * size) for index in range(count)], **fields)


def outcome(log: Log, data: bytes | bytearray, epoch: int) -> Any:
    try:
        return log.append_as_leader(memoryview(bytearray(data)), epoch)
    except KafkaError as error:
        return error.code, error.message


def files_of(log: Log) -> dict[str, bytes]:
    log.flush()
    for segment in log.segments:
        segment.write_out()
    return {name: log.disk.read_bytes(f"{log.folder}/{name}") for name in log.disk.names(log.folder)}


def both(options: LogOptions, act: Callable[[Log], list[Any]]) -> None:
    """Do the same on a log that has the short way and on one that has not."""
    results = []
    for short in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not short:
                patch.setattr(log_module, "append_plain", lambda *args: NOT_EXAMINED)
            clock = HandClock()
            log = open_log(MemoryDisk(clock=clock), options, clock=clock)
            done = act(log)
            producers = {
                producer_id: (entry.epoch, list(entry.batches), entry.last_timestamp)
                for producer_id, entry in log.producers.entries.items()
            }
            results.append((done, log.end_offset, log.size, producers, files_of(log)))
    for index in range(4):
        assert results[0][index] == results[1][index]
    assert results[0][4] == results[1][4]


BATCHES = st.one_of(
    st.builds(
        batch,
        count=st.integers(1, 4),
        time=st.sampled_from([T0, T0 + 50, T0 - 50, T0 + 10**7, 0]),
        size=st.sampled_from([0, 20, 1500]),
        key=st.sampled_from([None, b"k"]),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4]),
    ),
    st.builds(
        lambda sequence, epoch, count: batch(
            count, producer_id=7, producer_epoch=epoch, base_sequence=sequence
        ),
        st.integers(-1, 6),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(1, 2),
    ),
)


@given(
    st.lists(st.tuples(BATCHES, st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=14),
    st.sampled_from(
        [
            OPTIONS,
            replace(OPTIONS, cleanup_compact=True),
            replace(OPTIONS, compression_type="gzip"),
            replace(OPTIONS, compression_type="uncompressed"),
            replace(OPTIONS, message_timestamp_type="LogAppendTime"),
            replace(OPTIONS, segment_ms=40),
            replace(OPTIONS, max_message_bytes=200),
            replace(OPTIONS, message_timestamp_before_max_ms=10),
            replace(OPTIONS, segment_index_bytes=40, segment_bytes=1 << 20),
        ]
    ),
)
@settings(max_examples=120)
def test_the_same_files_and_answers(batches: list[tuple[bytearray, int]], options: LogOptions) -> None:
    epochs = sorted(epoch for _, epoch in batches)
    both(
        options,
        lambda log: [outcome(log, data, epoch) for (data, _), epoch in zip(batches, epochs, strict=True)],
    )


@given(st.integers(0, 80), st.integers(0, 255))
def test_the_same_refusals(position: int, byte: int) -> None:
    data = batch(2)
    data[min(position, len(data) - 1)] = byte
    both(OPTIONS, lambda log: [outcome(log, batch(), 0), outcome(log, data, 0), outcome(log, batch(), 0)])


def test_a_producer_without_a_sequence_is_refused_either_way() -> None:
    data = batch(producer_id=7, producer_epoch=0, base_sequence=-1)
    both(OPTIONS, lambda log: [outcome(log, data, 0), outcome(log, batch(), 0), outcome(log, data, 0)])


def test_most_appends_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []

    def spy(*args: Any) -> Any:
        result = real(*args)
        taken.append(isinstance(result, AppendResult))
        return result

    real = vars(log_module)["append_plain"]
    monkeypatch.setattr(log_module, "append_plain", spy)
    clock = HandClock()
    log = open_log(MemoryDisk(clock=clock), OPTIONS, clock=clock)
    for sequence in range(4):
        log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=sequence), 0)
        log.append_as_leader(batch(codec=Codec.ZSTD), 0)
    # The first batch of the segment and the first of the producer take the general path.
    assert taken == [False, True, True, True, True, True, True, True]


EXAMINED: dict[str, tuple[LogOptions, bytes | bytearray]] = {
    "plain, and the first of its segment": (OPTIONS, batch()),
    "the first of a producer": (OPTIONS, batch(producer_id=7, producer_epoch=0, base_sequence=0)),
    "a duplicate": (OPTIONS, batch(producer_id=8, producer_epoch=0, base_sequence=0)),
    "out of order": (OPTIONS, batch(producer_id=8, producer_epoch=0, base_sequence=9)),
    "compressed": (OPTIONS, batch(codec=Codec.GZIP)),
    "a record without a key": (replace(OPTIONS, cleanup_compact=True), batch(key=None)),
    "too late": (OPTIONS, batch(time=T0 + 10**9)),
    "a wrong CRC": (OPTIONS, bytes(batch())[:-1] + b"?"),
    "compressed anew": (replace(OPTIONS, compression_type="gzip"), batch()),
    "stamped by the broker": (replace(OPTIONS, message_timestamp_type="LogAppendTime"), batch()),
}


@pytest.mark.parametrize("name", EXAMINED)
def test_no_batch_is_examined_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One CRC of what was sent, one decompression and one walk, whichever way the batch takes."""
    options, data = EXAMINED[name]
    clock = HandClock()
    log = open_log(MemoryDisk(clock=clock), options, clock=clock)
    outcome(log, batch(producer_id=8, producer_epoch=0, base_sequence=0), 0)
    looks: Counter[str] = Counter()

    def counted(look: str, real: Any) -> Any:
        def count(*args: Any) -> Any:
            looks[look] += 1
            return real(*args)

        return count

    monkeypatch.setattr(plain_append, "_crc32c", counted("crc", plain_append._crc32c))
    monkeypatch.setattr(BatchView, "crc_ok", counted("crc", BatchView.crc_ok))
    for module in (plain_append, check):
        monkeypatch.setattr(module, "walk", counted("walk", walk))
    monkeypatch.setattr(plain_append, "decompress", counted("decompress", compression.decompress))
    monkeypatch.setattr(view, "decompress", counted("decompress", compression.decompress))
    outcome(log, data, 0)
    assert looks["crc"] == 1
    assert looks["walk"] <= 1
    assert looks["decompress"] <= 1 or name == "too late"  # there each record is named in the refusal


def test_a_log_that_was_cut_rolled_or_reconfigured_looks_again() -> None:
    def act(log: Log) -> list[Any]:
        done = [outcome(log, batch(3), 0) for _ in range(3)]
        log.truncate_to(4)
        done += [outcome(log, batch(2), 0) for _ in range(2)]
        log.roll()
        done += [outcome(log, batch(2), 0) for _ in range(2)]
        log.set_options(replace(OPTIONS, segment_bytes=300, segment_ms=2))
        return done + [outcome(log, batch(2, time=T0 + 10 * index), 0) for index in range(5)]

    both(OPTIONS, act)


def test_a_buffer_that_cannot_be_changed_is_copied() -> None:
    def act(log: Log) -> list[Any]:
        return [log.append_as_leader(bytes(batch()), 0) for _ in range(3)]

    both(OPTIONS, act)


@pytest.mark.parametrize("interval_bytes", [0, 100, 250])
def test_a_full_index_rolls_the_segment(interval_bytes: int) -> None:
    """The time index keeps one slot free for the entry that closes the segment: full is one less."""
    options = replace(
        OPTIONS, segment_index_bytes=240, index_interval_bytes=interval_bytes, segment_bytes=1 << 20
    )

    def act(log: Log) -> list[Any]:
        done = [outcome(log, batch(time=T0 + index), 0) for index in range(300)]
        return [*done, [segment.base_offset for segment in log.segments]]

    both(options, act)
