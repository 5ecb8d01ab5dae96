"""The files of replicas on all nodes of a cluster, compared: batches and leader epochs are the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from barnabas.batch.view import BatchView, batches
from tests.verify.quorum.metadata_files import epoch_starts


def differences(folders: Sequence[Path], partitions: Iterable[tuple[str, int]]) -> list[str]:
    """What differs between the replicas in these data folders; they may be in use."""
    return [
        f"{topic}-{number}: {text}"
        for topic, number in partitions
        for text in _of_partition([folder / f"{topic}-{number}" for folder in folders])
    ]


def _of_partition(replicas: Sequence[Path]) -> Iterator[str]:
    logs = [list(_views(replica)) for replica in replicas]
    # One that has deleted more than the others has the rest in common with them.
    start = max((log[0].base_offset for log in logs if log), default=0)
    ends = [log[-1].next_offset if log else 0 for log in logs]
    if len(set(ends)) > 1:
        yield f"the ends are {ends}"
    contents = [[bytes(batch.copy()) for batch in log if batch.base_offset >= start] for log in logs]
    if any(content != contents[0] for content in contents):
        yield f"the batches from {start} differ"
    epochs = [_written_epochs(replica, start, end) for replica, end in zip(replicas, ends, strict=True)]
    if any(each != epochs[0] for each in epochs):
        yield f"the leader epochs are {epochs}"


def _written_epochs(replica: Path, start: int, end: int) -> list[tuple[int, int]]:
    """The epochs of these records: a leader knows its own epoch before it has written anything."""
    written = [(epoch, first) for epoch, first in sorted(epoch_starts(replica).items()) if first < end]
    at_start = [(epoch, start) for epoch, first in written if first <= start][-1:]
    return at_start + [(epoch, first) for epoch, first in written if first > start]


def _views(replica: Path) -> Iterator[BatchView]:
    """Where a segment ends is each broker's own business."""
    for path in sorted(replica.glob("*.log")):
        yield from batches(path.read_bytes())
