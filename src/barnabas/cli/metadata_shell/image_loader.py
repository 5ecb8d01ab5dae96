"""Loads a segment of the metadata log, a snapshot, or the whole folder, into an image.

They may belong to a running node: no lock is taken, and an incomplete batch at the end is skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from barnabas.base.errors import KafkaError
from barnabas.batch.view import MAGIC_POSITION, MAGIC_V2, BatchView
from barnabas.cli.dump_log.file_reader import LogReader
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.metadata.bootstrap import METADATA_FOLDER
from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.image import Image
from barnabas.metadata.metadata_transaction import Replay
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft.snapshot import SnapshotState, parse_snapshot_name
from barnabas.runtime.disk.disk import Disk

LOG_SUFFIX = ".log"
ATTEMPTS = 3


def load(disk: Disk, path: str) -> Image:
    """The image of all records in the file; raises CommandError if it is not a metadata log."""
    replay = Replay()
    _load_file(disk, path, replay, 0)
    return replay.delta.image


def load_directory(disk: Disk, directory: str) -> Image:
    """The image of a log directory, or of the metadata folder in it; raises CommandError without one."""
    folder = os.path.join(directory, METADATA_FOLDER)
    if not disk.is_folder(folder):
        folder = directory
    for attempt in range(ATTEMPTS):
        try:
            return _load_folder(disk, folder)
        except FileNotFoundError:
            # The node has just deleted a segment that a newer snapshot replaces.
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


def _load_folder(disk: Disk, folder: str) -> Image:
    names = disk.names(folder)
    snapshots = [
        parsed[0]
        for name in names
        if (parsed := parse_snapshot_name(name)) is not None and parsed[1] is SnapshotState.WHOLE
    ]
    segments = [name for name in names if name.endswith(LOG_SUFFIX)]
    if not segments:
        raise CommandError(f"{folder}: there is no metadata log ({METADATA_FOLDER})", Exit.NOT_FOUND)
    replay = Replay()
    start_offset = 0
    if snapshots:
        latest = max(snapshots)
        _load_file(disk, os.path.join(folder, latest.file_name), replay, 0)
        start_offset = latest.offset
        if start_offset > 0:
            replay.delta.at(start_offset - 1, latest.epoch, replay.delta.image.timestamp_ms)
    for name, following in zip(segments, [*segments[1:], None], strict=True):
        if following is None or int(following.removesuffix(LOG_SUFFIX)) > start_offset:
            _load_file(disk, os.path.join(folder, name), replay, start_offset)
    return replay.delta.image


def _load_file(disk: Disk, path: str, replay: Replay, start_offset: int) -> None:
    """Takes the batches from an offset on."""
    file = disk.open(path, writable=False)
    try:
        for _, data in LogReader(file, path).batches():
            batch = _checked(data, path)
            if batch.base_offset >= start_offset:
                _replay(replay, batch, path)
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
        replay.take(list(_records(batch, path)), batch.last_offset, batch.leader_epoch, batch.max_timestamp)
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
