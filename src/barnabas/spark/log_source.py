"""`format("barnabas-log")`: batch reads straight from data folders, Apache Kafka's too, without a broker.

What lives here: its options, and what Spark calls.  What may not: how folders are read (log_folders) and how
records become rows (source.rows).
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
    segment_chunks,
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
    """What the reader was told, checked."""

    folders: tuple[str, ...]
    selected_by: str
    selection: str
    starting: Mapping[TopicPartition, int] | None
    ending: Mapping[TopicPartition, int] | None
    committed_only: bool
    fail_on_data_loss: bool

    def missing_in(self, there: Iterable[TopicPartition]) -> list[str]:
        """What is named and not there."""
        if self.selected_by == "subscribe":
            names = [name for one in self.selection.split(",") if (name := one.strip())]
            return sorted(set(names) - {partition.topic for partition in there})
        if self.selected_by == "assign":
            return [
                str(partition)
                for partition in sorted(set(read_partitions("assign", self.selection)) - set(there))
            ]
        return []

    def chooses(self, where: TopicPartition) -> bool:
        if self.selected_by == "subscribe":
            return where.topic in {name.strip() for name in self.selection.split(",")}
        if self.selected_by == "assign":
            return where in read_partitions("assign", self.selection)
        is_found = re.search(self.selection, where.topic) is not None
        return is_found and where.topic not in INTERNAL


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
    """As that of `format("barnabas")`."""
    from barnabas.spark.source.rows import schema_with

    return schema_with(GivenOptions(options).flag("includeHeaders", False))


def batch_reader(schema: StructType, options: Mapping[str, str]) -> DataSourceReader:
    from barnabas.spark.source.rows import check_schema

    check_schema(schema)
    return LogReader(schema, log_options(options))


class SegmentPartition(InputPartition):
    """What one task reads: a segment, or a part of it."""

    def __init__(
        self,
        where: TopicPartition,
        segment: Segment,
        start: int,
        end: int,
        aborted: list[tuple[int, AbortedTransaction]] | None,
    ) -> None:
        super().__init__((segment.path, start, end))
        self.where = where
        self.segment = segment
        self.start = start
        self.end = end
        self.aborted = aborted


class LogReader(DataSourceReader):
    """Reads what the folders hold when the query is planned."""

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
        return [one for partition in sorted(chosen) for one in self._plan(chosen[partition])]

    def _plan(self, partition: PartitionFolder) -> Iterator[SegmentPartition]:
        options, where = self._options, partition.where
        first = partition.log_start_offset
        end, stable = end_offsets(partition, fail_on_damage=options.fail_on_data_loss)
        last = stable if options.committed_only else end
        edges = {EARLIEST: first, LATEST: last}
        start = first if options.starting is None else options.starting[where]
        until = last if options.ending is None else options.ending[where]
        start, until = edges.get(start, start), edges.get(until, until)
        if until < start:
            raise OptionError(f"the start offset {start} of {where} is greater than its end offset {until}")
        if start < first or until > last:
            report = LossReport(options.fail_on_data_loss)
            report.lost(f"{where} has offsets {first} to {last - 1}, not all of {start} to {until - 1}")
            start, until = max(start, first), min(until, last)
        for number, segment in enumerate(partition.segments):
            following = partition.segments[number + 1 : number + 2]
            begin = max(start, segment.base_offset)
            stop = min(until, following[0].base_offset) if following else until
            if begin < stop:
                aborted = aborted_between(partition, begin, stop) if options.committed_only else None
                yield SegmentPartition(where, segment, begin, stop, aborted)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Spark makes up an empty partition where there is nothing to read.
        if not isinstance(partition, SegmentPartition):
            return
        from barnabas.spark.source.rows import Rows

        rows = Rows(self._schema, partition.where)
        start, end = partition.start, partition.end
        try:
            for chunk in segment_chunks(
                partition.where,
                partition.segment,
                start,
                end,
                partition.aborted,
                fail_on_damage=self._options.fail_on_data_loss,
            ):
                yield from rows.of(chunk, start, end)
        except FileNotFoundError:
            raise DataLossError(
                f"{partition.segment.path} was removed while the query ran, by retention or compaction: "
                "run the query again"
            ) from None
