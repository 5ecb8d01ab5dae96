"""What one fetch gave: which of its records a reader sees."""

from __future__ import annotations

from barnabas.batch.build import build
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.client import TopicPartition
from barnabas.client.consumer.fetch.completed_fetch import AbortedTransaction, CompletedFetch
from barnabas.protocol.primitives import Buffer

WHERE = TopicPartition("t", 0)


def data(at: int, producer_id: int) -> bytes:
    records = [Record(at, 1000, None, b"%d" % at, ())]
    return bytes(
        build(
            records,
            base_offset=at,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
    )


def marker(at: int, producer_id: int, *, commit: bool) -> bytes:
    said = EndTransactionMarker(commit=commit, coordinator_epoch=0)
    return bytes(
        build_marker(said, timestamp=1000, producer_id=producer_id, producer_epoch=0, base_offset=at)
    )


def seen(content: bytes, fetch_offset: int, aborted: list[AbortedTransaction]) -> list[int]:
    """The same for bytes and for a borrowed buffer."""
    found = [taken(one, fetch_offset, aborted) for one in (content, memoryview(bytearray(content)))]
    assert found[0] == found[1]
    return found[0]


def taken(content: Buffer, fetch_offset: int, aborted: list[AbortedTransaction]) -> list[int]:
    completed = CompletedFetch(WHERE, content, fetch_offset, aborted, check_crcs=True)
    offsets: list[int] = []
    while records := completed.take(100):
        assert all(record.value == b"%d" % record.offset for record in records)
        offsets += [record.offset for record in records]
    return offsets


def test_aborted_records_are_left_out_and_committed_ones_are_not() -> None:
    content = data(0, 7) + data(1, 8) + marker(2, 7, commit=False) + marker(3, 8, commit=True) + data(4, 7)
    assert seen(content, 0, [AbortedTransaction(0, 7)]) == [1, 4]


def test_a_fetch_between_the_records_and_the_end_of_an_aborted_transaction() -> None:
    """The marker refers to records before the fetched range; what the producer writes next is unaffected."""
    content = marker(10, 7, commit=False) + data(11, 8) + data(12, 7) + marker(13, 7, commit=True)
    assert seen(content, 10, [AbortedTransaction(9, 7)]) == [11, 12]


def test_a_producer_may_abort_twice_in_one_fetch() -> None:
    content = data(0, 7) + marker(1, 7, commit=False) + data(2, 7) + marker(3, 7, commit=True)
    content += data(4, 7) + marker(5, 7, commit=False)
    assert seen(content, 0, [AbortedTransaction(0, 7), AbortedTransaction(4, 7)]) == [2]
