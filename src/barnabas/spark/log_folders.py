"""Reading data folders without a broker: the segments of partitions, and their batches.

Contains finding partitions and segments, log end and last stable offsets, and reading blocks of complete
batches. Writes nothing: the folder may belong to a running broker.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from barnabas.batch.control import batch_marker
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.legacy import OldBatch, all_batches
from barnabas.batch.view import HEADER_SIZE, MAGIC_POSITION, BatchView, batch_size
from barnabas.client.consumer.fetch.completed_fetch import AbortedTransaction, CompletedFetch
from barnabas.client.model import TopicPartition
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.storage.directories.checkpoints import LOG_START_CHECKPOINT, OffsetCheckpoint
from barnabas.storage.producers.producer_snapshot import MAX_SNAPSHOT_BYTES, DamagedSnapshot, decode_snapshot
from barnabas.storage.segment.transaction_index import TransactionIndex

logger = logging.getLogger(__name__)

# The size of one read; a larger batch is read whole.
BLOCK_BYTES = 8 << 20
MAX_BATCH_BYTES = 1 << 30
_LOG_NAME = re.compile(r"(\d{20})\.log")
# The start of every batch of format 2: an offset below 2^40, a size below 2^30, an epoch, and the magic byte
# 2. The search is for the 2, so that a gigabyte of zeros, as in a preallocated file, takes little time.
_MAGIC = re.compile(rb"\x02(?<=\x00{3}.{5}[\x00-\x3f].{3}.{4}\x02)", re.DOTALL)
# The folder of a partition; those of deleted, future and stray replicas have a suffix instead of the number.
_FOLDER_NAME = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")
# Not a topic: the log of the cluster's metadata.
METADATA_TOPIC = "__cluster_metadata"
INTERNAL = frozenset({METADATA_TOPIC, "__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment file; the active one is the last, which a broker may be writing."""

    path: str
    base_offset: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A partition in a data folder."""

    topic_partition: TopicPartition
    path: str
    log_start_offset: int
    segments: tuple[Segment, ...]


def partition_folders(data_folders: Iterable[str]) -> dict[TopicPartition, PartitionFolder]:
    """Return every partition in these folders."""
    results: dict[TopicPartition, PartitionFolder] = {}
    for data_folder in data_folders:
        root = Path(data_folder)
        if not root.is_dir():
            raise FileNotFoundError(f"{data_folder} is not a folder: give the broker's log.dirs as path")
        checkpoint = OffsetCheckpoint(FolderDisk(), str(root), LOG_START_CHECKPOINT)
        starts = {tuple(partition): offset for partition, offset in checkpoint.read().items()}
        for folder in sorted(root.iterdir()):
            name = _FOLDER_NAME.fullmatch(folder.name)
            if name is None or not folder.is_dir():
                continue
            partition = TopicPartition(name["topic"], int(name["partition"]))
            segments = _segments(folder)
            if not segments:
                continue
            if partition in results:
                both = f"{results[partition].path} and in {folder}"
                raise ValueError(f"{partition} is in {both}: give one of the folders")
            start = max(segments[0].base_offset, starts.get(partition, 0))
            results[partition] = PartitionFolder(partition, str(folder), start, segments)
    return results


def _segments(folder: Path) -> tuple[Segment, ...]:
    bases = sorted(int(name[1]) for file in folder.iterdir() if (name := _LOG_NAME.fullmatch(file.name)))
    return tuple(
        Segment(str(folder / f"{base:020}.log"), base, is_active=base == bases[-1]) for base in bases
    )


# ------------------------------------------------------------------------------------------------ end offsets


def end_offsets(partition: PartitionFolder, *, fail_on_damage: bool) -> tuple[int, int]:
    """Return the log end offset and the last stable offset."""
    active = partition.segments[-1]
    open_transactions = _open_before(partition, active.base_offset)
    end = active.base_offset
    for block, _ in blocks(active, fail_on_damage=fail_on_damage):
        for batch in all_batches(block):
            end = batch.next_offset
            if isinstance(batch, BatchView):
                _follow(batch, open_transactions)
    return end, min([end, *open_transactions.values()])


def _follow(batch: BatchView, open_transactions: dict[int, int]) -> None:
    if batch.is_control:
        if batch_marker(batch) is not None:
            open_transactions.pop(batch.producer_id, None)
    elif batch.is_transactional:
        open_transactions.setdefault(batch.producer_id, batch.base_offset)


def _open_before(partition: PartitionFolder, base_offset: int) -> dict[int, int]:
    """Return the first offsets of transactions that were open at the start of the active segment.

    A broker writes them to a snapshot when it rolls a segment; without it the earlier segments are read.
    """
    path = Path(partition.path) / f"{base_offset:020}.snapshot"
    try:
        if path.stat().st_size <= MAX_SNAPSHOT_BYTES:
            return {
                entry.producer_id: entry.current_transaction_first_offset
                for entry in decode_snapshot(path.read_bytes())
                if entry.current_transaction_first_offset >= 0
            }
    except (FileNotFoundError, DamagedSnapshot):
        pass
    results: dict[int, int] = {}
    for segment in partition.segments[:-1]:
        for block, _ in blocks(segment):
            for batch in all_batches(block):
                if isinstance(batch, BatchView):
                    _follow(batch, results)
    return results


# ---------------------------------------------------------------------------------------------------- batches


def aborted_between(partition: PartitionFolder, start: int, end: int) -> list[tuple[int, AbortedTransaction]]:
    """Return the aborted transactions that overlap [start, end), each after the offset of its marker."""
    aborted = []
    for number, segment in enumerate(partition.segments):
        following = partition.segments[number + 1 : number + 2]
        if following and following[0].base_offset <= start:
            continue
        path = segment.path.removesuffix(".log") + ".txnindex"
        index = TransactionIndex(FolderDisk(), path, segment.base_offset)
        try:
            some, is_complete = index.collect(start, end)
        finally:
            index.release()
        aborted += [
            (transaction.last_offset, AbortedTransaction(transaction.first_offset, transaction.producer_id))
            for transaction in some
        ]
        if is_complete:
            break
    return aborted


def segment_fetches(
    topic_partition: TopicPartition,
    segment: Segment,
    start: int,
    end: int,
    aborted: list[tuple[int, AbortedTransaction]] | None,
    *,
    fail_on_damage: bool,
) -> Iterator[CompletedFetch]:
    """Return the batches of a segment with offsets in [start, end)."""
    for block, first in blocks(segment, start, fail_on_damage=fail_on_damage):
        if first >= end:
            return
        first_offset = max(start, first)
        touching = (
            None
            if aborted is None
            else [transaction for marker, transaction in aborted if marker >= first_offset]
        )
        yield CompletedFetch(topic_partition, block, first_offset, touching, check_crcs=not segment.is_active)


def blocks(segment: Segment, start: int = 0, *, fail_on_damage: bool = True) -> Iterator[tuple[bytes, int]]:
    """Yield complete batches, many at a time, with the offset of the first; those before `start` are skipped.

    A broker may be writing the active segment: it ends before the first incomplete batch.  If complete ones
    follow, the segment is damaged, which is an error with `fail_on_damage`.
    """
    with Path(segment.path).open("rb") as file:
        position, size = 0, BLOCK_BYTES
        while data := os.pread(file.fileno(), size, position):
            batches, fault = _whole_batches(data, check_crcs=segment.is_active)
            wanted = [batch for batch in batches if batch.next_offset > start]
            end = batches[-1].start + batches[-1].size if batches else 0
            if wanted:
                yield data[wanted[0].start : end], wanted[0].base_offset
            if fault is None and not batches and len(data) < size:
                fault = f"{len(data)} bytes that are not a complete batch"
            if fault is not None:
                _stop_at(file.fileno(), segment, position + end, fault, fail_on_damage=fail_on_damage)
                return
            # No complete batch: the first one is larger than what was read.
            size = BLOCK_BYTES if batches else _size_of_first(data)
            position += end


def _whole_batches(data: bytes, *, check_crcs: bool) -> tuple[list[BatchView | OldBatch], str | None]:
    """Return the batches up to the first damaged one, and what is wrong with that."""
    results: list[BatchView | OldBatch] = []
    try:
        for batch in all_batches(data):
            if check_crcs and isinstance(batch, BatchView):
                batch.ensure_valid()
            results.append(batch)
        # This size is invalid; reading on would take it for an incomplete batch.
        end = results[-1].start + results[-1].size if results else 0
        if (batch_size(data, end) or 0) > MAX_BATCH_BYTES:
            return results, f"a batch of more than {MAX_BATCH_BYTES} bytes"
    except CorruptBatch as error:
        return results, error.message
    return results, None


def _size_of_first(data: bytes) -> int:
    return batch_size(data, 0) or BLOCK_BYTES


def _stop_at(file: int, segment: Segment, position: int, why: str, *, fail_on_damage: bool) -> None:
    if not segment.is_active:
        raise CorruptBatch(f"{segment.path} is damaged at byte {position}: {why}")
    following = _next_valid(file, position + 1) if fail_on_damage else None
    # The broker may be writing meanwhile: the incomplete batch may be complete now.
    if following is not None and not _is_valid(file, position):
        raise CorruptBatch(
            f"{segment.path} is damaged at byte {position}: {why}.  Complete batches follow at byte "
            f"{following}, so this is not a write in progress; failOnDataLoss=false reads what precedes it"
        )
    logger.warning("%s was read up to byte %s: %s", segment.path, position, why)


def _next_valid(file: int, position: int) -> int | None:
    """Return the position of the next complete and valid batch; None if there is none."""
    while len(data := os.pread(file, BLOCK_BYTES, position)) >= HEADER_SIZE:
        for found in _MAGIC.finditer(data):
            start = position + found.start() - MAGIC_POSITION
            if _is_valid(file, start):
                return start
        # A header may span two reads.
        position += len(data) - HEADER_SIZE + 1
    return None


def _is_valid(file: int, position: int) -> bool:
    """Whether a complete batch with a valid checksum begins here."""
    header = os.pread(file, HEADER_SIZE, position)
    if len(header) < HEADER_SIZE or _MAGIC.search(header[: MAGIC_POSITION + 1]) is None:
        return False
    try:
        size = batch_size(header, 0)
        if size is None or size < HEADER_SIZE or position + size > os.fstat(file).st_size:
            return False
        data = os.pread(file, size, position)
        return len(data) == size and BatchView(data).crc_ok()
    except CorruptBatch:
        return False
