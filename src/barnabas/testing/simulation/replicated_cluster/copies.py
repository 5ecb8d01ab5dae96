"""The copies of a partition on each server, as they are on its disk, read without a trace."""

from __future__ import annotations

from bisect import bisect_right

from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.file import SimulatedContent
from barnabas.runtime.simulated.world import InvariantError
from barnabas.storage.log.log import Log
from barnabas.storage.segment.segment import Segment
from barnabas.testing.simulation.replicated_cluster.history import Batch, PartitionHistory


class Copy:
    """One replica's log: its batches in order.  It stays as it is while its server is down."""

    __slots__ = (
        "batches",
        "checked_offset",
        "end_offset",
        "high_watermark",
        "history",
        "hosted",
        "is_leader",
        "leader_epoch",
        "log_start_offset",
        "server_id",
    )

    def __init__(self, server_id: int, history: PartitionHistory) -> None:
        self.server_id = server_id
        self.history = history
        self.hosted: Hosted | None = None
        self.batches: list[Batch] = []
        self.end_offset = 0
        self._begin_life()

    def _begin_life(self) -> None:
        self.high_watermark = -1
        self.leader_epoch = -1
        self.log_start_offset = 0
        self.is_leader = False
        # Up to here the log is known to be the committed one.
        self.checked_offset = 0

    @property
    def who(self) -> str:
        return f"n{self.server_id} {self.history.name}"

    # Reading

    def read(self, disk: SimulatedDisk, hosted: Hosted, log: Log) -> None:
        """Take over what was appended or truncated since the last call."""
        if hosted is not self.hosted:
            self.hosted = hosted
            self.batches = []
            self._begin_life()
        batches = self.batches
        start, end = log.log_start_offset, log.end_offset
        while batches and batches[-1].next_offset > end:
            batches.pop()
        if batches and batches[0].next_offset <= start:
            del batches[: bisect_right(batches, start, key=_next_offset)]
        known = batches[-1].next_offset if batches else -1
        self.checked_offset = min(self.checked_offset, max(known, start))
        if known < end:
            self._read_on(disk, log, known)
        self.log_start_offset, self.end_offset = start, end

    def _read_on(self, disk: SimulatedDisk, log: Log, known: int) -> None:
        batches = self.batches
        start = log.log_start_offset
        for segment in _segments_from(log, max(known, start)):
            for batch in self.history.batches_in(_content(disk, segment), 0):
                if batch.base_offset < known or batch.next_offset <= start:
                    continue
                if batch.base_offset >= log.end_offset:
                    break
                if batches and not self._follows(batch, batches[-1]):
                    raise InvariantError(f"{self.who}: {batch} follows {batches[-1]}")
                batches.append(batch)
        # A log start within a batch is beyond the end until that batch is appended.
        end = batches[-1].next_offset if batches else min(start, log.end_offset)
        is_within_a_batch = end < log.end_offset <= self.history.log_start_offset
        if end != log.end_offset and not is_within_a_batch:
            raise InvariantError(
                f"{self.who}: the files end at offset {end}, the log at {log.end_offset} (from {start})"
            )

    def _follows(self, batch: Batch, previous: Batch) -> bool:
        """Without a gap, unless it is below the log start of a leader.

        Where that lies within a batch of the leader, a follower is truncated to the first offset of that
        batch, and a batch of its own goes that contains it.
        """
        is_gapless = batch.base_offset == previous.next_offset
        is_deleted = previous.next_offset < batch.base_offset <= self.history.log_start_offset
        return (is_gapless or is_deleted) and batch.epoch >= previous.epoch

    def batches_from(self, offset: int) -> list[Batch]:
        """The batches that end beyond an offset."""
        return self.batches[bisect_right(self.batches, offset, key=_next_offset) :]

    # Comparing

    def check_committed(self, up_to: int) -> None:
        """What this replica has below an offset is what is committed there."""
        history = self.history
        offset = self.checked_offset
        if up_to <= offset:
            return
        own = self.batches_from(offset)
        if own:
            for mine, committed in zip(own, history.committed_from(own[0].base_offset), strict=False):
                if mine.base_offset >= up_to:
                    break
                if mine is not committed:
                    raise InvariantError(
                        f"{self.who} (leader epoch {self.leader_epoch}) has {mine}; {committed} is committed"
                    )
                offset = mine.next_offset
        self.checked_offset = max(offset, self.checked_offset)


def _next_offset(batch: Batch) -> int:
    return batch.next_offset


def _segments_from(log: Log, offset: int) -> list[Segment]:
    at = bisect_right(log.segments.base_offsets, offset)
    return log.segments[max(at - 1, 0) :]


def _content(disk: SimulatedDisk, segment: Segment) -> memoryview:
    """Not through the disk's interface: no fault is met, no page is marked as read."""
    content = disk._names.tree.find(segment.records.path)
    if not isinstance(content, SimulatedContent):
        return memoryview(b"")
    return memoryview(bytes(content.data[: segment.records.size]))
