"""`format("barnabas-log")`: batch reads from data folders, also Apache Kafka's, without a broker.

Contains the options and Spark's reader interface.  Reading folders belongs in `log_folders`, rows in
`source.rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from barnabas.client.consumer.fetch.completed_fetch import AbortedTransaction
from barnabas.client.model import TopicPartition
from barnabas.spark.given_options import SELECTIONS, GivenOptions, OptionError
from barnabas.spark.log_folders import (
    INTERNAL,
    PartitionFolder,
    Segment,
    aborted_between,
    end_offsets,
    partition_folders,
    segment_fetches,
)
from barnabas.spark.source.loss import DataLossError, LossReport
from barnabas.spark.source.offsets import (
    EARLIEST,
    LATEST,
    PartitionOffsets,
    listed,
    read_offsets,
    read_partitions,
)

OPTIONS = (
    "path",
    *SELECTIONS,
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "failOnDataLoss",
    "kafka.isolation.level",
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The validated options of a reader."""

    folders: tuple[str, ...]
    selected_by: str
    selection: str
    starting: Mapping[TopicPartition, int] | None
    ending: Mapping[TopicPartition, int] | None
    committed_only: bool
    fail_on_data_loss: bool

    def missing_in(self, there: Iterable[TopicPartition]) -> list[str]:
        """Return what is named but does not exist."""
        if self.selected_by == "subscribe":
            names = [name for entry in self.selection.split(",") if (name := entry.strip())]
            return sorted(set(names) - {partition.topic for partition in there})
        if self.selected_by == "assign":
            return [
                str(partition)
                for partition in sorted(set(read_partitions("assign", self.selection)) - set(there))
            ]
        return []

    def chooses(self, topic_partition: TopicPartition) -> bool:
        if self.selected_by == "subscribe":
            return topic_partition.topic in {name.strip() for name in self.selection.split(",")}
        if self.selected_by == "assign":
            return topic_partition in read_partitions("assign", self.selection)
        is_found = re.search(self.selection, topic_partition.topic) is not None
        return is_found and topic_partition.topic not in INTERNAL


def log_options(given: Mapping[str, str]) -> LogOptions:
    read = GivenOptions(given)
    read.check_names(OPTIONS, "source")
    folders = tuple(folder.strip() for folder in (read.text("path") or "").split(",") if folder.strip())
    if not folders:
        raise OptionError("which data folder? Give it to load(): the broker's log.dirs")
    selected_by, selection = read.selection()
    isolation = (read.text("kafka.isolation.level") or "read_uncommitted").lower()
    if isolation not in ("read_uncommitted", "read_committed"):
        raise OptionError(f"kafka.isolation.level is read_uncommitted or read_committed, not {isolation}")
    return LogOptions(
        folders=folders,
        selected_by=selected_by,
        selection=selection,
        starting=_offsets(read, "startingOffsets", "earliest"),
        ending=_offsets(read, "endingOffsets", "latest"),
        committed_only=isolation == "read_committed",
        fail_on_data_loss=read.flag("failOnDataLoss", True),
    )


def _offsets(read: GivenOptions, name: str, default: str) -> PartitionOffsets | None:
    text = read.text(name)
    text = default if text is None else text
    if text.lower() == default:
        return None
    if not text.startswith("{"):
        raise OptionError(f"option {name} is {default} or JSON of offsets, not {text!r}")
    return read_offsets(name, text)


def source_schema(options: Mapping[str, str]) -> StructType:
    """The same as that of `format("barnabas")`."""
    from barnabas.spark.source.rows import schema_with

    return schema_with(GivenOptions(options).flag("includeHeaders", False))


def batch_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceReader:
    from barnabas.spark.source.rows import check_schema

    check_schema(schema)
    return LogReader(schema, log_options(options))


class SegmentPartition(InputPartition):
    """The input of one task: a segment, or a part of it."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        segment: Segment,
        start: int,
        end: int,
        aborted: list[tuple[int, AbortedTransaction]] | None,
    ) -> None:
        super().__init__((segment.path, start, end))
        self.topic_partition = topic_partition
        self.segment = segment
        self.start = start
        self.end = end
        self.aborted = aborted


class LogReader(DataSourceReader):
    """Reads what the folders contain when the query is planned."""

    def __init__(self, schema: StructType, options: LogOptions) -> None:
        self._schema = schema
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        there = partition_folders(options.folders)
        chosen = {partition: found for partition, found in there.items() if options.chooses(partition)}
        if missing := options.missing_in(there):
            has = listed(there) or "no partitions at all: give its log.dirs (barnabas dev: FOLDER/data)"
            folders = ", ".join(options.folders)
            raise OptionError(f"{folders} has no partition of {', '.join(missing)}; it has {has}")
        for name, given in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
            if given is not None and given.keys() != chosen.keys():
                raise OptionError(
                    f"option {name} must name every partition, with -1 for latest or -2 for earliest: it "
                    f"names {listed(given)}, and there are {listed(chosen)}"
                )
        return [planned for partition in sorted(chosen) for planned in self._plan(chosen[partition])]

    def _plan(self, partition: PartitionFolder) -> Iterator[SegmentPartition]:
        options, topic_partition = self._options, partition.topic_partition
        first = partition.log_start_offset
        end, stable = end_offsets(partition, fail_on_damage=options.fail_on_data_loss)
        last = stable if options.committed_only else end
        edges = {EARLIEST: first, LATEST: last}
        start = first if options.starting is None else options.starting[topic_partition]
        until = last if options.ending is None else options.ending[topic_partition]
        start, until = edges.get(start, start), edges.get(until, until)
        if until < start:
            raise OptionError(
                f"the start offset {start} of {topic_partition} is greater than its end offset {until}"
            )
        if start < first or until > last:
            report = LossReport(options.fail_on_data_loss)
            report.lost(
                f"{topic_partition} has offsets {first} to {last - 1}, not all of {start} to {until - 1}"
            )
            start, until = max(start, first), min(until, last)
        for number, segment in enumerate(partition.segments):
            following = partition.segments[number + 1 : number + 2]
            begin = max(start, segment.base_offset)
            stop = min(until, following[0].base_offset) if following else until
            if begin < stop:
                aborted = aborted_between(partition, begin, stop) if options.committed_only else None
                yield SegmentPartition(topic_partition, segment, begin, stop, aborted)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark creates an empty partition if there is nothing to read.
        if not isinstance(partition, SegmentPartition):
            return
        from barnabas.spark.source.rows import Rows

        rows = Rows(self._schema, partition.topic_partition)
        start, end = partition.start, partition.end
        try:
            for completed in segment_fetches(
                partition.topic_partition,
                partition.segment,
                start,
                end,
                partition.aborted,
                fail_on_damage=self._options.fail_on_data_loss,
            ):
                yield from rows.of(completed, start, end)
        except FileNotFoundError:
            raise DataLossError(
                f"{partition.segment.path} was removed while the query ran, by retention or compaction: "
                "run the query again"
            ) from None
