"""`barnabas segment`: show the segments of a log, their batches and records.

`barnabas dump-log` prints the same in the format of Apache Kafka's tool.  Both only read.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, one_line
from barnabas.cli.framework.numbers import long_integer, whole_number
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import add_output, friendly_tool
from barnabas.cli.friendly.output import Column, Printer, Row
from barnabas.cli.friendly.records.times import show_time

if TYPE_CHECKING:
    from barnabas.batch.legacy import OldBatch
    from barnabas.batch.view import BatchView

PROGRAM = "barnabas segment"
LOG = ".log"
SEGMENTS = (
    Column("file"),
    Column("base_offset", is_number=True),
    Column("last_offset", is_number=True),
    Column("batches", is_number=True),
    Column("records", is_number=True),
    Column("bytes", is_number=True),
    Column("first_timestamp", show=show_time, title="FROM", is_wide=True),
    Column("last_timestamp", show=show_time, title="TO"),
    Column("faults", is_number=True),
)
BATCHES = (
    Column("position", is_number=True),
    Column("base_offset", is_number=True),
    Column("last_offset", is_number=True),
    Column("records", is_number=True),
    Column("bytes", is_number=True),
    Column("codec"),
    Column("timestamp", show=show_time, title="TIME"),
    Column("kind"),
    Column("is_valid", title="CRC OK"),
    Column("producer_id", is_number=True, is_wide=True),
    Column("producer_epoch", is_number=True, is_wide=True),
    Column("base_sequence", is_number=True, is_wide=True),
    Column("leader_epoch", is_number=True, is_wide=True),
    Column("magic", is_number=True, is_wide=True),
)


def run(arguments: Sequence[str]) -> int:
    return friendly_tool(PROGRAM, "Show the files of a log, without changing them.", SUBCOMMANDS).run(
        arguments
    )


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("folder", nargs="+", metavar="FOLDER", help="folder of a partition, as data/orders-0")
    add_output(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.progress import Progress

    files = [path for folder in options.folder for path in _logs_in(parser, folder)]
    printer = Printer(options.output, SEGMENTS, name="file")
    faults = 0
    with Progress("reading", sum(os.path.getsize(path) for path in files), unit="bytes") as progress:
        for path in files:
            row = _summary(path)
            faults += int(str(row["faults"]))
            printer.row(row)
            progress.add(os.path.getsize(path))
    printer.end()
    return _exit_code(parser, faults)


def _logs_in(parser: ArgumentParser, folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name.endswith(LOG))
    if not names:
        raise CommandError(f"{parser.prog}: {folder} has no segments (*{LOG})", Exit.NOT_FOUND)
    return [os.path.join(folder, name) for name in names]


def _summary(path: str) -> Row:
    batches = records = faults = 0
    last_offset: int | None = None
    times: list[int] = []
    end = 0
    for position, batch in _batches(path):
        batches += 1
        records += _count(batch)
        faults += not batch.crc_ok()
        last_offset = batch.last_offset
        times = [min([*times[:1], batch.max_timestamp]), max([*times[1:], batch.max_timestamp])]
        end = position + batch.size
    size = os.path.getsize(path)
    return {
        "file": path,
        "base_offset": _base_offset(path),
        "last_offset": last_offset,
        "batches": batches,
        "records": records,
        "bytes": size,
        "first_timestamp": times[0] if times else None,
        "last_timestamp": times[1] if times else None,
        "faults": faults + (end < size),
    }


def _base_offset(path: str) -> int | None:
    digits = os.path.basename(path).partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def _batches(path: str) -> Iterator[tuple[int, BatchView | OldBatch]]:
    from barnabas.cli.dump_log.file_reader import LogReader
    from barnabas.cli.dump_log.logs import open_batch
    from barnabas.runtime.disk.folder_disk import FolderDisk

    file = FolderDisk().open(path, writable=False)
    try:
        for position, data in LogReader(file, path).batches():
            yield position, open_batch(data)
    finally:
        file.close()


def _count(batch: BatchView | OldBatch) -> int:
    from barnabas.batch.view import BatchView

    return batch.record_count if isinstance(batch, BatchView) else sum(1 for _ in batch.records())


def _declare_batches(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .log file")
    add_output(parser)


def _show_batches(parser: ArgumentParser, options: Namespace) -> int:
    printer = Printer(options.output, BATCHES, name=lambda row: str(row["base_offset"]))
    faults = end = 0
    for position, batch in _batches(options.file):
        row = _batch_row(position, batch)
        faults += not row["is_valid"]
        printer.row(row)
        end = position + batch.size
    printer.end()
    return _exit_code(parser, faults + _report_trailing_bytes(options.file, end))


def _batch_row(position: int, batch: BatchView | OldBatch) -> Row:
    from barnabas.batch.view import BatchView

    row: dict[str, object] = {
        "position": position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": _count(batch),
        "bytes": batch.size,
        "codec": batch.codec.config_name,
        "timestamp": batch.max_timestamp,
        "kind": "data",
        "is_valid": batch.crc_ok(),
        "magic": batch.magic,
    }
    if isinstance(batch, BatchView):
        row["kind"] = "control" if batch.is_control else "transaction" if batch.is_transactional else "data"
        row["producer_id"] = batch.producer_id
        row["producer_epoch"] = batch.producer_epoch
        row["base_sequence"] = batch.base_sequence
        row["leader_epoch"] = batch.leader_epoch
    return row


def _declare_records(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="a .log file, as data/orders-0/00000000000000000000.log")
    add(
        "--from",
        dest="start",
        type=long_integer,
        default=0,
        metavar="OFFSET",
        help="the first offset to print",
    )
    add("-n", "--count", type=whole_number(1), metavar="N", help="exit after N records")
    add_output(parser)


def _show_records(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.records import envelope

    printer = Printer(options.output, envelope.COLUMNS, name=envelope.name_of)
    topic_partition = _topic_partition(options.file)
    left = -1 if options.count is None else options.count
    end = 0
    for position, batch in _batches(options.file):
        end = position + batch.size
        for row in _record_rows(batch, topic_partition, options.start):
            printer.row(row)
            left -= 1
            if not left:
                printer.end()
                return Exit.OK
    printer.end()
    return _exit_code(parser, _report_trailing_bytes(options.file, end))


def _topic_partition(path: str) -> tuple[str, int]:
    """Topic and partition from the name of the folder; -1 if it is not the folder of a partition."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    topic, _, number = folder.rpartition("-")
    return topic or folder, int(number) if topic and number.isdecimal() else -1


def _record_rows(batch: BatchView | OldBatch, topic_partition: tuple[str, int], start: int) -> Iterator[Row]:
    """The data records; control batches are skipped."""
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.cli.friendly.records.envelope import row_of

    if batch.is_control or batch.last_offset < start:
        return
    for record in batch.records():
        if record.offset >= start:
            yield row_of(
                ConsumerRecord(
                    *topic_partition,
                    -1,
                    record.offset,
                    record.timestamp,
                    0,
                    record.key,
                    record.value,
                    record.headers,
                )
            )


def _report_trailing_bytes(path: str, end: int) -> int:
    """Reports bytes after the last complete batch; returns 1 if there are any, else 0."""
    trailing = os.path.getsize(path) - end
    if trailing:
        sys.stdout.flush()
        print(one_line(f"{path}: {trailing} bytes at the end are not a complete batch"), file=sys.stderr)
    return int(trailing > 0)


def _exit_code(parser: ArgumentParser, faults: int) -> int:
    if faults:
        print(f"{parser.prog}: {faults} faults found", file=sys.stderr)
    return Exit.FAILED if faults else Exit.OK


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": Subcommand("list the segments of a partition", _declare_list, _list),
    "batches": Subcommand("show the batches of a segment", _declare_batches, _show_batches),
    "records": Subcommand("show the records of a segment", _declare_records, _show_records),
}
