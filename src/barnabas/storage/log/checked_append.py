"""The general append path: checks the producer state, rolls the segment if needed, writes, updates the state.

Takes batches that appends.py has validated, for leaders and followers.  The fast path is plain_append.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.storage.failure import DirectoryFull, failing
from barnabas.storage.log.appends import AppendResult, Prepared
from barnabas.storage.producers.producer_append import AppendOrigin, BatchMetadata, Verification
from barnabas.storage.producers.producer_replay import ProducerChanges, check_append
from barnabas.storage.segment.segment import Segment
from barnabas.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

if TYPE_CHECKING:
    from barnabas.storage.log.log import Log


def append_prepared(
    log: Log, prepared: Prepared | None, origin: AppendOrigin, verification: Verification | None, now_ms: int
) -> AppendResult:
    """Check the batches against the producer state and write them.  A rejected append changes nothing."""
    if prepared is None:
        return AppendResult(log.end_offset, log.end_offset - 1, -1, -1, log.log_start_offset, 0)
    size = len(prepared.data)
    options = log.options
    if size > options.segment_bytes and origin is not AppendOrigin.REPLICATION:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"batches of {size} bytes for {log.name} exceed segment.bytes={options.segment_bytes}",
        )
    changes = check_append(
        log.producers,
        prepared.headers,
        prepared.data,
        origin,
        verification,
        must_verify=options.transaction_partition_verification_enable,
    )
    if changes.duplicate is not None:
        return _duplicate_result(log, changes.duplicate, prepared)
    if log.full is not None:
        raise DirectoryFull(log.folder, "appending", log.full)
    _write(log, prepared, changes, now_ms)
    log.end_offset = prepared.last_offset + 1
    if changes.appends:
        _update_producers(log, changes)
    log.producers.end_offset = log.end_offset
    return AppendResult(
        prepared.first_offset,
        prepared.last_offset,
        prepared.max_timestamp,
        prepared.log_append_time_ms,
        log.log_start_offset,
        size,
    )


def _write(log: Log, prepared: Prepared, changes: ProducerChanges, now_ms: int) -> None:
    """Write the batches, or raise with the log unchanged: only its active segment may be another one."""
    epochs = log.epochs.entries
    aborted = sum(transaction.aborted for transaction in changes.completed)
    reserved: TransactionIndex | None = None
    try:
        if any(header.leader_epoch != log.epochs.latest_epoch for header in prepared.headers):
            epochs = list(epochs)
        segment = _segment_for(log, prepared, len(prepared.data), now_ms)
        if aborted:
            log.local.note_new_name()  # the first entry of a segment creates the file
            reserved = segment.transaction_index
            reserved.reserve(aborted)
        segment.append_batches(prepared.data, prepared.headers)
        if segment.limits is None:
            segment.set_limits(log.options)
    except OSError as error:
        log.epochs.undo_assign(epochs)
        if reserved is not None:
            with failing(log.folder, "undoing a failed write"):
                reserved.give_back()
        raise log.not_appended(error) from error


def _duplicate_result(log: Log, duplicate: BatchMetadata, prepared: Prepared) -> AppendResult:
    return AppendResult(
        duplicate.first_offset,
        duplicate.last_offset,
        prepared.max_timestamp,
        duplicate.timestamp,  # as in Apache Kafka, for either timestamp type
        log.log_start_offset,
        bytes_appended=0,
        duplicate=True,
    )


def _segment_for(log: Log, prepared: Prepared, size: int, now_ms: int) -> Segment:
    """The segment that takes the batches, rolled if they need a new one; their leader epochs are assigned."""
    for header in prepared.headers:
        if header.leader_epoch >= 0:
            log.epochs.assign(header.leader_epoch, header.base_offset)
    segment = log.segments.last
    if segment.should_roll(log.options, now_ms, size, prepared.last_offset, prepared.max_timestamp):
        return log.roll_at(prepared.first_offset)
    return segment


def _update_producers(log: Log, changes: ProducerChanges) -> None:
    producers = log.producers
    for append in changes.appends.values():
        producers.apply(append)
    for transaction in changes.completed:
        last_stable_offset = producers.stable_offset_after(transaction)
        if transaction.aborted:
            with failing(log.folder, "writing the transaction index"):
                log.active.transaction_index.append(AbortedTransaction(*transaction[:3], last_stable_offset))
        producers.complete(transaction)
    log.find_first_unstable()
