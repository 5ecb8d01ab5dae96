"""The model of a log finds what is missing, changed or too much: a checker that accepts everything is useless."""

from __future__ import annotations

import pytest

from barnabas.runtime.simulated.world import World
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.scenarios.log_life import PARTITIONS, LogLife
from barnabas.testing.simulation.scenarios.log_topics import OPTIONS
from barnabas.testing.torn.log_book import Book, LogFault, check_log

DELETED = next(each for each in PARTITIONS if not OPTIONS[each.topic].cleanup_compact)
COMPACTED = next(each for each in PARTITIONS if OPTIONS[each.topic].cleanup_compact)


@pytest.fixture
def life() -> LogLife:
    return LogLife(World(7))


def written(
    life: LogLife, partition: TopicPartition, count: int = 3, producer_id: int = -1
) -> tuple[Book, Log]:
    """A log with batches, and its model."""
    book, log = life.books[partition], life.manager.logs[partition]
    for _ in range(count):
        life._append(book, log, life._batch(log, producer_id, transactional=False))
    assert len(book.batches) == count
    return book, log


@pytest.mark.parametrize("partition", [DELETED, COMPACTED])
def test_a_log_that_matches_its_model_passes(life: LogLife, partition: TopicPartition) -> None:
    book, log = written(life, partition)
    life.flush(book, log)
    before = dict(book.batches)
    for lost_power in (False, True):
        check_log(book, log, lost_power=lost_power)
    assert (book.batches, book.safe_end) == (before, log.end_offset)


def test_an_empty_log_passes(life: LogLife) -> None:
    check_log(life.books[DELETED], life.manager.logs[DELETED], lost_power=False)


@pytest.mark.parametrize("partition", [DELETED, COMPACTED])
def test_flushed_batches_that_are_missing_are_a_fault(life: LogLife, partition: TopicPartition) -> None:
    book, log = written(life, partition)
    life.flush(book, log)
    log.truncate_to(max(book.batches))
    with pytest.raises(LogFault, match="flushed up to"):
        check_log(book, log, lost_power=True)


def test_batches_that_were_not_flushed_may_be_lost_with_the_power_alone(life: LogLife) -> None:
    book, log = written(life, DELETED)
    last = max(book.batches)
    log.truncate_to(last)
    with pytest.raises(LogFault, match="appended up to"):
        check_log(book, log, lost_power=False)
    check_log(book, log, lost_power=True)
    assert last not in book.batches


def test_an_interrupted_append_may_be_there_or_not(life: LogLife) -> None:
    book, log = written(life, DELETED)
    book.pending = book.batches.pop(max(book.batches))
    check_log(book, log, lost_power=False)
    assert book.pending is None
    assert book.end == log.end_offset


@pytest.mark.parametrize("partition", [DELETED, COMPACTED])
def test_batches_that_were_never_appended_are_a_fault(life: LogLife, partition: TopicPartition) -> None:
    book, log = written(life, partition)
    del book.batches[max(book.batches)]
    with pytest.raises(LogFault):
        check_log(book, log, lost_power=True)


def test_other_bytes_than_were_appended_are_a_fault(life: LogLife) -> None:
    book, log = written(life, DELETED)
    first = min(book.batches)
    changed = bytearray(book.batches[first])
    changed[-1] ^= 1
    book.batches[first] = bytes(changed)
    with pytest.raises(LogFault, match="has the batches at"):
        check_log(book, log, lost_power=True)


def test_a_log_that_starts_too_late_is_a_fault(life: LogLife) -> None:
    book, log = written(life, DELETED)
    log.set_high_watermark(log.end_offset)
    log.advance_log_start(1)
    with pytest.raises(LogFault, match="starts at 1, after 0"):
        check_log(book, log, lost_power=True)
    book.latest_start = 1
    check_log(book, log, lost_power=True)


def test_a_forgotten_producer_is_a_fault(life: LogLife) -> None:
    book, log = written(life, DELETED, producer_id=1)
    check_log(book, log, lost_power=False)
    log.producers.entries.clear()
    with pytest.raises(LogFault):
        check_log(book, log, lost_power=False)


@pytest.mark.parametrize(("is_flushed", "lost_power"), [(True, True), (True, False), (False, False)])
def test_a_folder_may_be_missing_only_if_nothing_in_it_was_flushed(
    life: LogLife, is_flushed: bool, lost_power: bool
) -> None:
    book, log = written(life, DELETED)
    if is_flushed:
        life.flush(book, log)
    del life.manager.logs[DELETED]
    with pytest.raises(AssertionError, match="its folder is missing"):
        life._compare(DELETED, book, lost_power=lost_power)
