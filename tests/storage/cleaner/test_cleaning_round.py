"""One cleaning of one log: what stays, with which bytes, and that a crash anywhere does no harm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record, TimestampType
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import PowerLost
from barnabas.storage.cleaner.cleaning_plan import dirty_range, plan
from barnabas.storage.cleaner.cleaning_round import CleaningRound, RoundLimits
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from tests.storage.logs import FOLDER, T0, HandClock, files, open_log, read_all
from tests.storage.worlds import COMPACTED, LIMITS, bases, clean, compacted_log, contents, put


def produce(
    log: Log, producer_id: int, sequence: int, key: bytes, *, transactional: bool = False, epoch: int = 0
) -> None:
    put(
        log,
        (key, b"of-%d" % producer_id),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def end(log: Log, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
    marker = build_marker(
        EndTransactionMarker(commit, 0),
        timestamp=T0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_offset=log.end_offset,
        leader_epoch=0,
    )
    log.append_as_follower(marker, 0)
    log.set_high_watermark(log.end_offset)


def forward(log: Log, ms: int) -> None:
    assert isinstance(log.clock, HandClock)
    log.clock.now_ms += ms


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    # M-E3
    log = compacted_log(
        [[(b"a", b"1"), (b"b", b"2")], [(b"a", b"3")], [(b"c", b"4"), (b"b", b"5"), (b"d", b"6")]]
    )
    put(log, (b"c", b"7"))
    stats = clean(log)
    assert contents(log) == [
        (2, b"a", b"3"),
        (3, b"c", b"4"),
        (4, b"b", b"5"),
        (5, b"d", b"6"),
        (6, b"c", b"7"),
    ]
    assert bases(log) == [0, 6]
    assert (stats.end_offset, stats.records_read, stats.records_kept) == (6, 6, 4)
    assert (stats.segments_before, stats.segments_after) == (3, 1)


def test_the_result_is_apache_kafkas_byte_for_byte(golden_logs: Path) -> None:
    """The recorded folder still has the segments from before its cleaning, renamed .deleted."""
    # M-E3
    folder = golden_logs / "kraft-4.1.0" / "data" / "compacted-0"
    first = "0" * 20
    clock = HandClock()
    disk = MemoryDisk(clock=clock)
    disk.make_folder("/data/compacted-0")
    for path in folder.iterdir():
        is_result = path.name.startswith(f"{first}.") and not path.name.endswith(".deleted")
        if not is_result:
            disk.write_atomically(
                f"/data/compacted-0/{path.name.removesuffix('.deleted')}", path.read_bytes()
            )
    options = LogOptions(
        cleanup_compact=True, segment_ms=60_000, index_interval_bytes=0, delete_retention_ms=100
    )
    log = open_log(disk, options, folder="/data/compacted-0", clock=clock, recovery_point=12)
    log.set_high_watermark(12)
    assert len(contents(log)) == 12
    assert clean(log).end_offset == 10
    for kind in (".log", ".index", ".timeindex"):
        assert disk.read_bytes(f"/data/compacted-0/{first}{kind}") == (folder / f"{first}{kind}").read_bytes()
    assert bases(log) == [0, 10]


@pytest.mark.trap
def test_offsets_stay_and_gaps_are_only_where_records_went() -> None:
    """Trap 13: offsets dense except where compaction or control records explain a gap."""
    log = compacted_log(
        [[(b"k%d" % (n % 4), b"%d" % n) for n in range(start, start + 6)] for start in range(0, 30, 6)]
    )
    before = {offset: (key, value) for offset, key, value in contents(log)}
    assert sorted(before) == list(range(30))
    clean(log)
    after = contents(log)
    assert all(before[offset] == (key, value) for offset, key, value in after)
    last = {key: offset for offset, (key, _) in before.items()}
    assert sorted(offset for offset, _, _ in after) == sorted(last.values())
    # Every offset is still readable: the next batch at or after it comes.
    for offset in range(30):
        found = log.read(offset, 1000, upper_bound=30)
        assert found.slice is not None


def test_tombstones_stay_until_their_delete_horizon() -> None:
    # M-E3
    log = compacted_log([[(b"a", b"1")], [(b"a", None), (b"b", b"2")], [(b"z", b"9")]])
    assert clean(log).end_offset == 4
    assert contents(log) == [(1, b"a", None), (2, b"b", b"2"), (3, b"z", b"9")]
    stamped = read_all(log)[0]
    # KIP-534: the first cleaning that sees a tombstone stamps the batch; its records keep their times.
    assert stamped.delete_horizon_ms == log.clock.wall_ms() + COMPACTED.delete_retention_ms
    assert [record.timestamp for record in stamped.records()] == [T0, T0 + 1]
    assert stamped.max_timestamp == T0 + 1
    horizon = stamped.delete_horizon_ms
    forward(log, 999)
    put(log, (b"y", b"1"))
    log.roll()
    clean(log, 4)
    assert (1, b"a", None) in contents(log)
    assert read_all(log)[0].delete_horizon_ms == horizon, "a horizon is set once"
    forward(log, 1)
    put(log, (b"y", b"2"))
    log.roll()
    clean(log, 5)
    assert contents(log)[:1] == [(2, b"b", b"2")]
    assert read_all(log)[0].delete_horizon_ms == horizon


def test_records_without_a_key_go_and_are_counted() -> None:
    log = compacted_log([[(None, b"1"), (b"a", b"2"), (None, None)]])
    assert clean(log).keyless_records == 2
    assert contents(log) == [(1, b"a", b"2")]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_rewritten_batch_keeps_codec_headers_and_producer(codec: Codec) -> None:
    log = compacted_log()
    rows = [Record(n, T0 + 7 * n, b"k%d" % (n % 3), b"v%d" % n, (("h", b"x"), ("n", None))) for n in range(9)]
    log.append_as_follower(
        build(rows, leader_epoch=0, codec=codec, producer_id=5, producer_epoch=2, base_sequence=40), 0
    )
    log.roll()
    log.set_high_watermark(9)
    clean(log)
    (batch,) = read_all(log)
    assert (batch.codec, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (codec, 5, 2, 40)
    assert (batch.base_offset, batch.last_offset, batch.last_sequence) == (0, 8, 48)
    assert (batch.base_timestamp, batch.max_timestamp) == (T0 + 42, T0 + 56)
    assert list(batch.records()) == rows[6:]


def test_log_append_time_is_the_time_of_all() -> None:
    log = compacted_log()
    rows = [Record(n, T0 + n, b"k%d" % (n % 2), b"v") for n in range(4)]
    log.append_as_follower(
        build(rows, leader_epoch=0, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=T0 + 99),
        0,
    )
    log.roll()
    log.set_high_watermark(4)
    clean(log)
    (batch,) = read_all(log)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, T0 + 99)
    assert [(record.offset, record.timestamp) for record in batch.records()] == [(2, T0 + 99), (3, T0 + 99)]


def test_aborted_data_goes_and_committed_data_stays() -> None:
    # M-E3
    log = compacted_log([[(b"a", b"old"), (b"b", b"old")]])
    produce(log, 1, 0, b"a", transactional=True)
    produce(log, 2, 0, b"b", transactional=True)
    end(log, 1, commit=True)
    end(log, 2, commit=False)
    put(log, (b"z", b"9"))
    log.roll()
    clean(log)
    # The aborted value does not supersede the older one.
    assert contents(log) == [(1, b"b", b"old"), (2, b"a", b"of-1"), (6, b"z", b"9")]
    assert [(t.producer_id, t.first_offset) for t in log.aborted_transactions(0, 7)] == [(2, 3)]


def test_markers_go_after_their_data_and_their_horizon() -> None:
    log = compacted_log()
    produce(log, 1, 0, b"a", transactional=True)
    end(log, 1, commit=True)
    produce(log, 1, 1, b"x", transactional=True)
    end(log, 1, commit=True)
    put(log, (b"a", b"new"))
    log.roll()

    def markers() -> list[tuple[int, int | None]]:
        return [(batch.base_offset, batch.delete_horizon_ms) for batch in read_all(log) if batch.is_control]

    clean(log)
    assert markers() == [(1, None), (3, None)], "this round still met the data of both"
    put(log, (b"p", b"1"))
    log.roll()
    clean(log, 5)
    horizon = log.clock.wall_ms() + COMPACTED.delete_retention_ms
    assert markers() == [(1, horizon), (3, None)], "the first one has no data left and waits"
    forward(log, COMPACTED.delete_retention_ms)
    put(log, (b"q", b"1"))
    log.roll()
    clean(log, 6)
    assert markers() == [(3, None)]


def test_the_last_batch_of_a_producer_stays_as_a_header() -> None:
    """Trap 14: a producer that goes on after the cleaning meets its sequence number."""
    log = compacted_log()
    produce(log, 1, 0, b"a")
    produce(log, 1, 1, b"a")
    put(log, (b"a", b"new"))
    put(log, (b"b", b"1"))
    log.roll()
    clean(log)
    assert contents(log) == [(2, b"a", b"new"), (3, b"b", b"1")]
    empty = read_all(log)[0]
    assert (empty.base_offset, empty.record_count, empty.last_sequence, empty.size) == (1, 0, 1, 61)
    log.close()
    # Without its snapshots the state is rebuilt from the batches alone.
    for name in log.disk.names(FOLDER):
        if name.endswith(".snapshot"):
            log.disk.remove(f"{FOLDER}/{name}")
    again = open_log(log.disk, COMPACTED, clean=False)
    assert again.producers.entries[1].last_sequence == 1


@pytest.mark.trap
def test_trailing_control_records_survive() -> None:
    """Trap 12: trailing control records survive compaction where changelog readers need the end offset."""
    log = compacted_log([[(b"a", b"1")]])
    produce(log, 1, 0, b"a", transactional=True)
    end(log, 1, commit=False)
    log.roll()
    for _ in range(4):
        clean(log, 0)
        forward(log, COMPACTED.delete_retention_ms + 1)
    assert read_all(log)[-1].last_offset == 2
    assert log.segments[0].next_offset() == 3
    log.close()
    assert open_log(log.disk, COMPACTED, recovery_point=3).end_offset == 3


@pytest.mark.trap
def test_the_end_offset_survives_when_the_last_records_go() -> None:
    """Trap 12: the last batch of a round stays as a header, so that the end offset can be found."""
    log = compacted_log([[(b"a", b"1")], [(None, b"no key")]])
    clean(log)
    last = read_all(log)[-1]
    assert (last.last_offset, last.record_count) == (1, 0)


def test_a_full_map_ends_the_round_early() -> None:
    log = compacted_log([[(b"k%d" % n, b"1") for n in range(start, start + 4)] for start in range(0, 12, 4)])
    put(log, *((b"k%d" % n, b"2") for n in range(12)))
    log.roll()
    small = RoundLimits(dedupe_bytes=24 * 10, load_factor=0.6, piece_bytes=1000)
    assert small.max_entries == 6
    ends, clean_up_to = [], 0
    while clean_up_to < 24:
        clean_up_to = clean(log, clean_up_to, small).end_offset
        ends.append(clean_up_to)
    assert ends == [6, 12, 18, 24]
    assert contents(log) == [(12 + n, b"k%d" % n, b"2") for n in range(12)]


def test_pieces_are_small_and_a_larger_batch_comes_alone() -> None:
    log = compacted_log([[(b"a", b"x" * 5000)], *([(b"k%d" % n, b"y" * 50)] for n in range(40))])
    target = plan(log, dirty_range(log, None, T0), T0)
    work = CleaningRound(target, LIMITS, T0)
    moved = list(work.steps())
    assert len(moved) > 40
    assert sorted(moved)[-1] > 10_000, "read and written"
    assert sorted(moved)[-3] <= 2 * LIMITS.piece_bytes
    assert len(contents(log)) == 41


SWAP_STEPS = 3


def test_stopping_in_the_middle_leaves_the_log_as_it_was() -> None:
    log = compacted_log([[(b"a", b"%d" % n)] for n in range(6)])
    before = (contents(log), bases(log), sorted(files(log.disk)))
    count = len(list(CleaningRound(plan(log, dirty_range(log, None, T0), T0), LIMITS, T0).steps()))
    for stop_after in range(1, count - SWAP_STEPS + 1):
        log = compacted_log([[(b"a", b"%d" % n)] for n in range(6)])
        steps = CleaningRound(plan(log, dirty_range(log, None, T0), T0), LIMITS, T0).steps()
        for _ in range(stop_after):
            next(steps)
        steps.close()  # type: ignore[attr-defined]
        assert (contents(log), bases(log), sorted(files(log.disk))) == before


@pytest.mark.parametrize("left", range(SWAP_STEPS))
def test_stopping_in_a_swap_brings_it_to_its_end(left: int) -> None:
    log = compacted_log([[(b"a", b"%d" % n)] for n in range(6)])
    count = len(list(CleaningRound(plan(log, dirty_range(log, None, T0), T0), LIMITS, T0).steps()))
    expected = (contents(log), bases(log), sorted(files(log.disk)), len(log.take_file_deletions()))
    log = compacted_log([[(b"a", b"%d" % n)] for n in range(6)])
    steps = CleaningRound(plan(log, dirty_range(log, None, T0), T0), LIMITS, T0).steps()
    for _ in range(count - left):
        next(steps)
    assert (contents(log), bases(log)) == expected[:2], "readers have the new segment, whatever it is called"
    put(log, (b"a", b"new"))
    log.roll()
    steps.close()  # type: ignore[attr-defined]
    assert contents(log) == [*expected[0], (6, b"a", b"new")]
    assert bases(log) == [*expected[1], 7]
    names = sorted(files(log.disk))
    assert [name for name in names if not name.startswith(f"{7:020d}")] == expected[2]
    assert len(log.take_file_deletions()) == expected[3]


def test_a_swap_in_a_directory_that_failed_is_left() -> None:
    log = compacted_log([[(b"a", b"%d" % n)] for n in range(6)])
    work = CleaningRound(plan(log, dirty_range(log, None, T0), T0), LIMITS, T0)
    steps = work.steps()
    while not any(name.endswith(".swap") for name in files(log.disk)):
        next(steps)
    before = files(log.disk)
    log.abandon()
    steps.close()  # type: ignore[attr-defined]
    assert files(log.disk) == before


@pytest.mark.parametrize("position", [20, 30, 66])
def test_a_damaged_batch_stops_the_cleaning_and_nothing_is_lost(position: int) -> None:
    log = compacted_log([[(b"a", b"1")], [(b"a", b"2")]])
    segment = log.segments[0]
    byte = segment.read_at(position, 1)
    segment.file().write_at(position, bytes([byte[0] ^ 1]))
    with pytest.raises(ValueError, match="checksum"):
        clean(log)
    assert bases(log) == [0, 1, 2]
    assert not any(name.endswith(".cleaned") for name in files(log.disk))


def test_a_batch_that_does_not_fit_its_segment_stops_the_cleaning() -> None:
    log = compacted_log([[(b"a", b"1")], [(b"a", b"2")]])
    log.segments[0].file().write_at(8, (10_000).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="does not fit the segment"):
        list(CleaningRound(plan(log, dirty_range(log, 1, T0), T0), LIMITS, T0).steps())
    assert bases(log) == [0, 1, 2]


def test_power_loss_anywhere_keeps_the_last_value_of_each_key() -> None:
    """After every operation of a cleaning."""
    # M-E4
    clock = HandClock()
    options = replace(COMPACTED, segment_bytes=400)
    disk = SimulatedDisk(SeededRandom(2), wall_ms=clock.wall_ms)
    disk.make_folder(FOLDER)
    disk.sync_folder("/")
    disk.sync_folder("/data")
    log = compacted_log(
        [[(b"k%d" % (n % 3), b"%d" % n), (b"t", None)] for n in range(8)], options=options, disk=disk
    )
    put(log, (b"end", b"1"))
    log.flush()
    expected = {key: value for _, key, value in contents(log)}
    ready = disk.snapshot()
    start = disk.operations
    clean(log)
    operations = disk.operations - start
    assert operations > 40
    for count in range(1, operations + 1):
        disk.clear_faults()
        disk.restore(ready)
        log = open_log(disk, options, clock=clock, clean=False, recovery_point=17)
        log.set_high_watermark(17)
        disk.crash_after(count)
        try:
            clean(log)
            disk.power_loss()
        except PowerLost:
            pass
        disk.clear_faults()
        disk.restart()
        again = open_log(disk, options, clock=clock, clean=False, recovery_point=17)
        found = {key: value for _, key, value in contents(again)}
        assert found == expected, f"operation {count}"
        assert again.end_offset == 17
