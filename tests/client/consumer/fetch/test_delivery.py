"""What is delivered, and how much of it counts as consumed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.consumer.fetch.delivery import Delivery
from barnabas.client.consumer.subscription import PartitionState
from barnabas.client.errors.local import RecordDeserializationError
from barnabas.client.model import OffsetAndMetadata, TopicPartition
from barnabas.client.producer.interceptors import ProducerInterceptors, interceptors
from barnabas.config.errors import ConfigError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
OTHER = TopicPartition("u", 0)


def record(offset: int, partition: TopicPartition = A, *, key: Any = b"k", value: Any = b"v") -> Any:
    return SimpleNamespace(
        topic=partition.topic, partition=partition.partition, offset=offset, key=key, value=value
    )


def state(partition: TopicPartition, position: int, epoch: int = 3) -> PartitionState:
    made = PartitionState(partition)
    if position >= 0:
        made.seek(position)
        made.offset_epoch = epoch
    return made


def delivery(
    *states: PartitionState, key: Any = "bytes", value: Any = "bytes", chain: tuple[Any, ...] = ()
) -> Delivery:
    settings: Any = {
        "key.deserializer": key,
        "value.deserializer": value,
        "interceptor.classes": list(chain),
    }
    subscription = SimpleNamespace(partitions={one.topic_partition: one for one in states})
    return Delivery(settings, cast("Any", subscription))


def offsets(records: list[Any]) -> list[int]:
    return [one.offset for one in records]


def test_records_are_deserialized() -> None:
    made = delivery(key="String", value=lambda data: data.decode() + "!")
    (given,) = made.give([record(5)])
    assert (given.key, given.value) == ("k", "v!")
    (only_value,) = delivery(value="String").give([record(5)])
    assert (only_value.key, only_value.value) == (b"k", "v")
    (only_key,) = delivery(key="String").give([record(5)])
    assert (only_key.key, only_key.value) == ("k", b"v")
    (raw,) = delivery().give([record(5)])
    assert (raw.key, raw.value) == (b"k", b"v")


def test_a_record_that_cannot_be_deserialized_is_reported_after_those_before_it() -> None:
    partition = state(A, 9)
    made = delivery(partition, value="String")
    records = [record(5), record(6), record(7, value=b"\xff"), record(8)]
    assert offsets(made.give(records)) == [5, 6]
    assert made.consumed_offset(partition) == 7, "what follows is not consumed"
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="record at offset 7 of t-0 cannot be deserial"):
            made.left(10)
    made.rewind()
    assert partition.position == 7
    assert made.left(10) == []


def test_a_skipped_partition_does_not_keep_the_others() -> None:
    made = delivery(value="String")
    with pytest.raises(RecordDeserializationError):
        made.give([record(7, value=b"\xff"), record(3, B), record(4, OTHER)])
    made.forget(A)
    assert offsets(made.left(10)) == [3, 4]


def test_an_ended_iteration_leaves_records_for_the_next_poll() -> None:
    partition = state(A, 10)
    made = delivery(partition)
    made.begin([record(number) for number in range(5, 10)])
    made.taken = 2
    assert made.consumed_offset(partition) == 7
    assert offsets(made.left(2)) == [7, 8]
    assert made.consumed_offset(partition) == 9
    assert offsets(made.left(2)) == [9]
    assert made.left(2) == []
    assert made.consumed_offset(partition) == 10


def test_positions_are_those_of_consumed_records() -> None:
    made = delivery(state(A, 10), state(B, 20, epoch=4), state(OTHER, -1))
    made.begin([record(8), record(19, B), record(9)])
    assert made.consumed() == {A: OffsetAndMetadata(8, 3), B: OffsetAndMetadata(19, 4)}
    made.taken = 2
    assert made.consumed() == {A: OffsetAndMetadata(9, 3), B: OffsetAndMetadata(20, 4)}
    made.taken = 3
    assert made.consumed() == {A: OffsetAndMetadata(10, 3), B: OffsetAndMetadata(20, 4)}


def test_after_a_seek_back_the_earlier_position_counts() -> None:
    partition = state(A, 3)
    made = delivery(partition)
    made.begin([record(8)])
    assert made.consumed_offset(partition) == 3


@pytest.mark.parametrize(("rewound", "expected"), [(None, (8, 19)), (A, (8, 20)), (B, (10, 19))])
def test_undelivered_records_are_read_again(
    rewound: TopicPartition | None, expected: tuple[int, int]
) -> None:
    states = state(A, 10), state(B, 20)
    made = delivery(*states, state(OTHER, -1))
    made.begin([record(7), record(8), record(19, B), record(9)])
    made.taken = 1
    made.rewind(rewound)
    assert (states[0].position, states[1].position) == expected
    left = [(one.partition, one.offset) for one in made.left(10)]
    assert left == {None: [], A: [(1, 19)], B: [(0, 8), (0, 9)]}[rewound]


# --------------------------------------------------------------------------------------------- interceptors


class Noting:
    """Notes calls; with `fails` it raises after that."""

    def __init__(self, *, fails: bool = False) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._fails = fails

    def _note(self, name: str, given: Any) -> Any:
        self.calls.append((name, given))
        if self._fails:
            raise ValueError("no")
        return given[:-1] if isinstance(given, list) else given

    def configure(self, settings: Any) -> None:
        self.calls.append(("configure", None))

    def on_consume(self, records: list[Any]) -> list[Any]:
        return cast("list[Any]", self._note("on_consume", records))

    def on_commit(self, committed: Any) -> None:
        self._note("on_commit", committed)

    def on_send(self, sent: Any) -> Any:
        return self._note("on_send", sent)

    def on_acknowledgement(self, metadata: Any, error: Any) -> None:
        self._note("on_acknowledgement", (metadata, error))

    def close(self) -> None:
        self.calls.append(("close", None))


def test_interceptors_of_a_consumer_see_records_and_commits(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = Noting(), Noting(fails=True)
    made = delivery(state(A, 9), chain=(bad, object(), good))
    records = [record(5), record(6), record(7)]
    assert offsets(made.give(records)) == [5, 6], "the good one has dropped the last"
    assert (made.taken, len(made.records)) == (2, 2)
    committed = {A: OffsetAndMetadata(6)}
    made.committed(committed, KafkaError(ErrorCode.REBALANCE_IN_PROGRESS))
    made.committed(committed, None)
    made.close()
    for noting in (good, bad):
        assert noting.calls == [
            ("configure", None),
            ("on_consume", records),
            ("on_commit", committed),
            ("close", None),
        ]
    assert [entry.getMessage().split()[-1] for entry in caplog.records] == ["on_consume", "on_commit"]


def test_interceptors_of_a_producer_see_records_and_their_outcome(caplog: pytest.LogCaptureFixture) -> None:
    good, bad = Noting(), Noting(fails=True)
    chain = ProducerInterceptors([bad, object(), good])
    assert chain
    assert not ProducerInterceptors([])
    sent: Any = [1, 2]
    assert cast("Any", chain.on_send(sent)) == [1]
    metadata: Any = object()
    chain.on_acknowledgement(metadata, None)
    chain.close()
    for noting in (good, bad):
        assert noting.calls == [
            ("on_send", sent),
            ("on_acknowledgement", (metadata, None)),
            ("close", None),
        ]
    assert [entry.getMessage().split()[-1] for entry in caplog.records] == ["on_send", "on_acknowledgement"]


def test_classes_are_instantiated_and_names_of_java_classes_refused() -> None:
    settings: Any = {}
    first, second = interceptors([Noting, object()], settings)
    assert first.calls == [("configure", None)]
    assert type(second) is object
    with pytest.raises(ConfigError, match=r"com\.example\.Audit for configuration interceptor\.classes"):
        interceptors(["com.example.Audit"], settings)
