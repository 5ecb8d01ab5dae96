"""Topics of brokers and of data folders as Arrow batches, within bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client.consumer.fetch.arrow import arrow_batch, pyarrow
from barnabas.client.model import TopicPartition
from barnabas.tables.pruning import Bounds

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.sync import Consumer

POLL_MS = 1_000
TEXT = "text"


def schema() -> pa.Schema:
    """The columns of every topic: `text` is the value if that is UTF-8, and else NULL."""
    arrow = pyarrow()
    made: pa.Schema = arrow.schema(
        [
            ("topic", arrow.string()),
            ("partition", arrow.int32()),
            ("offset", arrow.int64()),
            ("timestamp", arrow.timestamp("ms", "UTC")),
            ("key", arrow.binary()),
            ("value", arrow.binary()),
            (TEXT, arrow.string()),
        ]
    )
    return made


class Topics(Protocol):
    """Where topics come from; `records_read` counts what was read, for those who want to know."""

    records_read: int

    def names(self) -> set[str]: ...

    def read(self, topic: str, bounds: Bounds, *, with_text: bool) -> Iterator[pa.RecordBatch]: ...


class BrokerTopics:
    """The committed records of topics, up to their ends at the time of reading."""

    def __init__(self, client: Mapping[str, object]) -> None:
        from barnabas.client.sync import Consumer

        self.records_read = 0
        self._consumer: Consumer = Consumer(
            {**client, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        )
        self._topics = self._consumer.list_topics()

    def __enter__(self) -> BrokerTopics:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def names(self) -> set[str]:
        return set(self._topics)

    def read(self, topic: str, bounds: Bounds, *, with_text: bool) -> Iterator[pa.RecordBatch]:
        consumer = self._consumer
        partitions = [
            TopicPartition(topic, each.number)
            for each in self._topics[topic].partitions
            if bounds.partitions is None or each.number in bounds.partitions
        ]
        spans = self._spans(partitions, bounds)
        consumer.assign(list(spans))
        for partition, (first, _) in spans.items():
            consumer.seek(partition, first)
        while left := {each for each, (_, end) in spans.items() if consumer.position(each) < end}:
            consumer.pause(*(each for each in spans if each not in left))
            batch = consumer.poll_arrow(POLL_MS)
            if batch is not None:
                end = spans[TopicPartition(topic, batch.column("partition")[0].as_py())][1]
                batch = _until(batch, end)
                self.records_read += batch.num_rows
                yield _columns(batch, with_text)

    def _spans(
        self, partitions: list[TopicPartition], bounds: Bounds
    ) -> dict[TopicPartition, tuple[int, int]]:
        consumer = self._consumer
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        if bounds.from_ms is not None and partitions:
            found = consumer.offsets_for_times(dict.fromkeys(partitions, bounds.from_ms))
            for partition, at in found.items():
                # Without such a record, all that there is is older.
                first[partition] = end[partition] if at is None else at.offset
        # Not until a time: records need not be in the order of time.
        spans = {
            partition: (max(first[partition], bounds.offsets[0]), min(end[partition], bounds.offsets[1]))
            for partition in partitions
        }
        return {partition: span for partition, span in spans.items() if span[0] < span[1]}


class FolderTopics:
    """The committed records in data folders, without a broker."""

    def __init__(self, folders: list[str]) -> None:
        from barnabas.spark.log_folders import partition_folders

        self.records_read = 0
        self._partitions = partition_folders(folders)

    def names(self) -> set[str]:
        return {partition.topic for partition in self._partitions}

    def read(self, topic: str, bounds: Bounds, *, with_text: bool) -> Iterator[pa.RecordBatch]:
        for partition, folder in sorted(self._partitions.items()):
            is_chosen = bounds.partitions is None or partition.partition in bounds.partitions
            if partition.topic == topic and is_chosen:
                for batch in self._read(partition, folder, bounds):
                    self.records_read += batch.num_rows
                    yield _columns(batch, with_text)

    def _read(self, partition: TopicPartition, folder: Any, bounds: Bounds) -> Iterator[pa.RecordBatch]:
        from barnabas.spark.log_folders import aborted_between, end_offsets, segment_fetches

        _, stable = end_offsets(folder, fail_on_damage=True)
        first, last = max(folder.log_start_offset, bounds.offsets[0]), min(stable, bounds.offsets[1])
        for number, segment in enumerate(folder.segments):
            following = folder.segments[number + 1 : number + 2]
            start = max(first, segment.base_offset)
            end = min(last, following[0].base_offset) if following else last
            if start >= end:
                continue
            aborted = aborted_between(folder, start, end)
            for completed in segment_fetches(partition, segment, start, end, aborted, fail_on_damage=True):
                batch = arrow_batch(completed, include_headers=False)
                if batch is not None:
                    yield _until(batch, end)


def _until(batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """Offsets of a batch grow."""
    if not batch.num_rows or batch.column("offset")[-1].as_py() < end:
        return batch
    import pyarrow.compute as pc

    return batch.filter(pc.less(batch.column("offset"), end))


def _columns(batch: pa.RecordBatch, with_text: bool) -> pa.RecordBatch:
    arrow, wanted = pyarrow(), schema()
    values = batch.column("value")
    text = _text(values) if with_text else arrow.nulls(batch.num_rows, arrow.string())
    columns = [batch.column(name) for name in wanted.names if name != TEXT]
    made: pa.RecordBatch = arrow.RecordBatch.from_arrays(
        [column.cast(field.type) for column, field in zip([*columns, text], wanted, strict=True)],
        schema=wanted,
    )
    return made


def _text(values: pa.Array) -> pa.Array:
    arrow = pyarrow()
    try:
        return values.cast(arrow.string())
    except arrow.ArrowInvalid:
        return arrow.array([_decoded(value) for value in values.to_pylist()], arrow.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
