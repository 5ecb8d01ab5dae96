"""A producer's batch: what callbacks and deliveries learn, and how it is split."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.compression import Codec
from barnabas.batch.view import BatchView
from barnabas.client.producer.batches import ProducerBatch
from barnabas.client.producer.delivery import RecordMetadata

Outcome = tuple[RecordMetadata | None, KafkaError | None]


def batch(count: int = 3, limit_bytes: int = 1_000, **options: Any) -> ProducerBatch:
    made = ProducerBatch("t", 2, limit_bytes, 0, 7.0, **options)
    for number in range(count):
        assert made.append(1_000 + number, b"k%d" % number, b"v%d" % number, ()) == number
    return made


def listening(made: ProducerBatch) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for index in range(made.record_count):
        made.listen(lambda metadata, error: outcomes.append((metadata, error)), index, 1_000 + index)
    return outcomes


@pytest.mark.parametrize(
    ("base_offset", "appended_ms", "expected"),
    [
        (50, -1, [(50, 1_000), (51, 1_001), (52, 1_002)]),
        (50, 9_000, [(50, 9_000), (51, 9_000), (52, 9_000)]),
        (0, 0, [(0, 0), (1, 0), (2, 0)]),
        (-1, -1, [(-1, 1_000), (-1, 1_001), (-1, 1_002)]),
    ],
)
def test_callbacks_and_deliveries_learn_where_a_record_was_written(
    base_offset: int, appended_ms: int, expected: list[tuple[int, int]]
) -> None:
    """The timestamp is the broker's if it assigns them; without acknowledgements the offset is unknown."""
    made = batch()
    outcomes = listening(made)
    made.succeed(base_offset, appended_ms)
    written = [RecordMetadata("t", 2, *place) for place in expected]
    assert outcomes == [(metadata, None) for metadata in written]
    assert [made.metadata_of(index, 1_000 + index) for index in range(3)] == written
    assert made.error_of(1) is None


def test_a_failure_is_of_all_records() -> None:
    made = batch()
    outcomes = listening(made)
    with pytest.raises(asyncio.InvalidStateError, match="not delivered yet"):
        made.metadata_of(0, 0)
    error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    made.fail(error)
    assert outcomes == [(None, error)] * 3
    assert made.error_of(2) is error
    with pytest.raises(KafkaError) as raised:
        made.metadata_of(1, 0)
    assert raised.value is error


def test_a_callback_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    made = batch()

    def fail(*_: object) -> None:
        raise ValueError("no")

    made.listen(fail, 0, 0)
    outcomes = listening(made)
    done: list[bool] = []
    made.on_done = lambda: done.append(made.is_done)
    made.succeed(5, -1)
    assert (len(outcomes), done) == (3, [True])
    assert caplog.text.count("a delivery callback failed") == 1


def test_a_batch_that_is_too_large_is_split_in_order() -> None:
    made = batch(10, serial=(4,), codec=Codec.GZIP, transactional=True)
    made.sequence(7, 1, 30)
    outcomes = listening(made)
    parts = made.split(100)
    assert len(parts) > 2
    assert [part.serial for part in parts] == [(4, number) for number in range(len(parts))]
    assert sum(part.record_count for part in parts) == 10
    values = [record.value for part in parts for record in BatchView(part.encoded()).records()]
    assert values == [b"v%d" % number for number in range(10)]
    for part in parts:
        assert (part.topic, part.partition, part.created_at) == ("t", 2, 7.0)
        assert (part.codec, part.transactional, part.charged_bytes) == (Codec.GZIP, True, 0)
        assert not part.has_sequence
    assert not made.is_done
    for number, part in enumerate(parts):
        assert not made.is_done
        part.succeed(100 * number, -1)
    assert made.is_done
    offsets = [
        100 * number + place for number, part in enumerate(parts) for place in range(part.record_count)
    ]
    assert [metadata.offset for metadata, _ in outcomes if metadata is not None] == offsets


def test_a_part_that_fails_is_reported_for_its_records_alone() -> None:
    made = batch(10)
    outcomes = listening(made)
    parts = made.split(100)
    error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    for number, part in enumerate(parts):
        if number == 1:
            part.fail(error)
        else:
            part.succeed(0, -1)
    first, second = parts[0].record_count, parts[1].record_count
    assert [failed is error for _, failed in outcomes] == [
        first <= index < first + second for index in range(10)
    ]


def test_the_content_is_that_of_the_last_sequence_number() -> None:
    made = batch()
    for sequence in (5, 9):
        made.sequence(7, 1, sequence)
        view = BatchView(made.encoded())
        assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 1, sequence)
        assert made.has_sequence
    made.unsequence()
    assert not made.has_sequence
    assert BatchView(made.encoded()).producer_id == -1
