from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.control import EndTransactionMarker
from barnabas.batch.view import MAX_SEQUENCE
from barnabas.storage.producers.producer_append import (
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppend,
    ProducerEntry,
    Verification,
)


def appending(
    entry: ProducerEntry | None = None,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    verification: Verification | None = None,
) -> ProducerAppend:
    return ProducerAppend("orders-0", entry or ProducerEntry(7), origin, verification)


def known(epoch: int = 3, last_sequence: int = 9) -> ProducerEntry:
    entry = ProducerEntry(7, epoch)
    entry.batches.append(BatchMetadata(last_sequence, 100 + last_sequence, 0, 5))
    return entry


def add(append: ProducerAppend, epoch: int, first: int, last: int | None = None, offset: int = 200) -> None:
    last = first if last is None else last
    append.add_data(epoch, first, last, 6, offset, offset + last - first, transactional=False)


def refused(append: ProducerAppend, epoch: int, first: int) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        add(append, epoch, first)
    return error.value.code


def test_sequence_numbers_go_on_where_they_stopped() -> None:
    append = appending(known())
    add(append, 3, 10, 14)
    add(append, 3, 15)
    assert append.updated.last_sequence == 15
    for first in (8, 9, 11, 0):
        assert refused(appending(known()), 3, first) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(append, 3, 10) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_after_the_largest_sequence_number_comes_zero() -> None:
    append = appending(known(last_sequence=MAX_SEQUENCE))
    add(append, 3, 0)
    append = appending(known(last_sequence=MAX_SEQUENCE - 2))
    append.add_data(3, MAX_SEQUENCE - 1, 1, 6, 200, 203, transactional=False)
    entry = known(last_sequence=MAX_SEQUENCE - 2)
    entry.update(append.updated)
    assert entry.batches[-1].first_sequence == MAX_SEQUENCE - 1
    assert entry.duplicate_of(3, MAX_SEQUENCE - 1, 1) == BatchMetadata(1, 203, 3, 6)


def test_an_unknown_producer_may_start_anywhere_but_a_new_epoch_starts_at_zero() -> None:  # KIP-360
    add(appending(), 0, 1234)
    add(appending(known()), 4, 0)
    assert refused(appending(known()), 4, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_fenced_but_not_on_a_follower() -> None:
    assert refused(appending(known()), 2, 10) is ErrorCode.INVALID_PRODUCER_EPOCH
    follower = appending(known(), AppendOrigin.REPLICATION)
    add(follower, 2, 77)
    assert follower.updated.epoch == 2


def test_nothing_is_changed_before_the_update_is_taken_over() -> None:
    entry = known()
    append = appending(entry)
    add(append, 3, 10)
    assert entry.last_sequence == 9
    entry.update(append.updated)
    assert (entry.last_sequence, len(entry.batches)) == (10, 2)


def test_five_batches_are_remembered() -> None:  # retries of up to five requests in flight
    entry = known()
    for first in range(10, 17):
        append = appending(entry)
        add(append, 3, first, offset=first)
        entry.update(append.updated)
    assert [batch.last_sequence for batch in entry.batches] == [12, 13, 14, 15, 16]
    assert entry.duplicate_of(3, 12, 12) == BatchMetadata(12, 12, 0, 6)
    assert entry.duplicate_of(3, 11, 11) is None
    assert entry.duplicate_of(3, 12, 13) is None
    assert entry.duplicate_of(4, 12, 12) is None
    entry.take_epoch(4)
    assert not entry.batches


def test_a_transaction_begins_with_its_first_record_and_ends_with_a_marker() -> None:
    append = appending()
    append.add_data(0, 0, 1, 6, 50, 51, transactional=True)
    append.add_data(0, 2, 2, 6, 52, 52, transactional=True)
    assert append.started == [50]
    ended = append.add_marker(EndTransactionMarker(False, 4), 0, 53, 8)
    assert ended == CompletedTransaction(7, 50, 53, aborted=True)
    assert append.updated.current_transaction_first_offset is None
    assert (append.updated.coordinator_epoch, append.updated.last_timestamp) == (4, 8)
    assert append.add_marker(EndTransactionMarker(True, 4), 0, 54, 9) is None


def test_a_plain_record_within_a_transaction_is_refused() -> None:
    append = appending()
    append.add_data(0, 0, 0, 6, 50, 50, transactional=True)
    assert refused(append, 0, 1) is ErrorCode.INVALID_TXN_STATE


def test_markers_of_zombies_are_refused() -> None:
    entry = ProducerEntry(7, epoch=3, coordinator_epoch=5)
    for epoch, coordinator_epoch, code in (
        (3, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(KafkaError) as error:
            appending(entry, AppendOrigin.COORDINATOR).add_marker(
                EndTransactionMarker(True, coordinator_epoch), epoch, 60, 8
            )
        assert error.value.code is code
        appending(entry, AppendOrigin.REPLICATION).add_marker(
            EndTransactionMarker(True, coordinator_epoch), epoch, 60, 8
        )


def test_a_verified_producer_starts_with_the_lowest_sequence_seen() -> None:  # KIP-890
    verification = Verification(0, 5, 0, supports_epoch_bump=False)
    verification.saw(3, 0)
    verification.saw(9, 0)
    assert refused(appending(verification=verification), 0, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    add(appending(verification=verification), 0, 3)
    bumping = Verification(0, 5, 0, supports_epoch_bump=True)
    assert refused(appending(verification=bumping), 0, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bumping.saw(0, 1)
    add(appending(verification=bumping), 1, 0)
