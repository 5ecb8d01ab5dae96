"""Loads a segment of the metadata log, or a snapshot, into an image.

The file may belong to a running node: an incomplete batch at the end is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.base.errors import KafkaError
from barnabas.batch.view import MAGIC_POSITION, MAGIC_V2, BatchView
from barnabas.cli.dump_log.file_reader import LogReader
from barnabas.cli.framework.exits import CommandError
from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.image import Image
from barnabas.metadata.replay import Replay
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.disk import Disk


def load(disk: Disk, path: str) -> Image:
    """The image of all records in the file; raises CommandError if it is not a metadata log."""
    file = disk.open(path, writable=False)
    try:
        replay = Replay()
        for _, data in LogReader(file, path).batches():
            _replay(replay, _checked(data, path), path)
        return replay.delta.image
    finally:
        file.close()


def _checked(data: memoryview, path: str) -> BatchView:
    if data[MAGIC_POSITION] < MAGIC_V2:
        raise CommandError(f"{path}: not a file of the metadata log: its batches have an older format")
    batch = BatchView(data)
    if not batch.crc_ok():
        raise CommandError(f"{path}: the batch at offset {batch.base_offset} is damaged (its CRC is wrong)")
    return batch


def _replay(replay: Replay, batch: BatchView, path: str) -> None:
    """Control batches belong to KRaft and are not part of the image."""
    if batch.is_control:
        return
    try:
        replay.take(_records(batch, path), batch.last_offset, batch.leader_epoch, batch.max_timestamp)
    except InconsistentRecordError as error:
        raise CommandError(
            f"{path}: the records at offset {batch.base_offset} need records that are missing here ({error});"
            " if the start of the log was deleted, use the .checkpoint next to it"
        ) from error


def _records(batch: BatchView, path: str) -> Iterator[Message]:
    for record in batch.records():
        try:
            yield read_metadata_record(record.value or b"")[0]
        except KafkaError as error:
            raise CommandError(
                f"{path}: the record at offset {record.offset} is not a metadata record ({error.message})"
            ) from error
