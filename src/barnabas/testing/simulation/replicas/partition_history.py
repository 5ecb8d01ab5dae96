"""What has happened to one partition: who led, which batches were written, and what was exposed."""

from __future__ import annotations

from bisect import bisect_right

from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.replicas.stored_log import Batch, StoredLog

_Key = tuple[int, int]


def covering(batches: list[Batch], offset: int) -> Batch | None:
    """The batch that contains this offset."""
    index = bisect_right(batches, offset, key=lambda batch: batch.base_offset) - 1
    return batches[index] if index >= 0 and batches[index].end > offset else None


class PartitionHistory:
    """One partition, over all epochs."""

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.leaders: dict[int, int] = {}
        # By base offset and epoch: the batch, and the one before it in the first log that got it.
        self._written: dict[_Key, tuple[Batch, Batch | None]] = {}
        self._values: set[int] = set()
        # What leaders have exposed, in order of offsets, and by epoch how far.
        self._batches: list[Batch] = []
        self.exposed_end = 0
        self.exposed: dict[int, int] = {}
        self.deleted_to = 0
        # The epoch of the last unclean election, and whether its leader has not shown its log yet.
        self.unclean_epoch = 0
        self.is_disputed = False
        # Nobody may be elected but by an unclean election.
        self.is_forsaken = False
        self.acknowledged: list[tuple[int, int]] = []

    def leads(self, broker_id: int, epoch: int) -> bool:
        return self.leaders.setdefault(epoch, broker_id) == broker_id

    def appended(self, broker_id: int, before: Batch | None, batch: Batch) -> str | None:
        """A replica has this batch from now on; returns what is wrong with that."""
        key = (batch.base_offset, batch.epoch)
        if before is not None and before.end <= self.deleted_to:
            before = None  # what was deleted may differ: its epochs are not known any more
        known = self._written.get(key)
        if known is None:
            if not self.leads(broker_id, batch.epoch):
                return f"{batch} is written by another than n{self.leaders[batch.epoch]}"
            if batch.value in self._values:
                return f"{batch} was written before"
            self._values.add(batch.value)
            self._written[key] = (batch, before)
            return None
        if known[0] != batch:
            return f"{batch}, where another has {known[0]}"
        other = known[1]
        if before is not None and other is not None and before != other and other.end > self.deleted_to:
            return f"{batch} is behind {before}, and elsewhere behind {other}"
        return None

    # What was exposed

    def exposed_before(self, epoch: int) -> int:
        """By the leaders of earlier epochs."""
        return max((end for each, end in self.exposed.items() if each < epoch), default=0)

    def expose(self, stored: StoredLog, end: int) -> None:
        """A leader has exposed its log up to here."""
        batches = self._batches
        last = batches[-1].base_offset if batches else -1
        first = bisect_right(stored.batches, last, key=lambda batch: batch.base_offset)
        for batch in stored.batches[first:]:
            if batch.base_offset >= end:
                break
            batches.append(batch)
        self.exposed_end = end

    def agrees(self, stored: StoredLog, end: int, log_start: int) -> bool:
        """Whether a log has what was exposed up to this offset: the last batch says it of all before."""
        if end <= max(log_start, self.deleted_to):
            return True
        own, exposed = covering(stored.batches, end - 1), covering(self._batches, end - 1)
        return own is not None and own == exposed

    # Unclean elections

    def elected_uncleanly(self, epoch: int) -> None:
        self.unclean_epoch = epoch
        self.is_disputed = True
        self.acknowledged = []

    def rewind_to(self, stored: StoredLog, end: int, epoch: int) -> None:
        """The log of the leader of this epoch counts from now on."""
        self.is_disputed = False
        kept = min(end, self.exposed_end)
        self._batches = [batch for batch in stored.batches if batch.base_offset < kept]
        self.exposed_end = kept
        self.exposed = {each: min(known, kept) for each, known in self.exposed.items()}

    # Acknowledgements

    def acknowledge(self, base_offset: int, value: int) -> str | None:
        problem = self._missing(base_offset, value)
        if problem is None:
            self.acknowledged.append((base_offset, value))
        return problem

    def _missing(self, base_offset: int, value: int) -> str | None:
        if base_offset < self.deleted_to:
            return None
        batch = covering(self._batches, base_offset)
        if batch is None or batch.value != value or batch.end > self.exposed_end:
            return f"{value} is acknowledged at {base_offset}, where {batch} is exposed"
        return None

    def lost(self) -> str | None:
        """The first acknowledged batch that is gone."""
        if self.unclean_epoch:
            return None
        return next(filter(None, (self._missing(*each) for each in self.acknowledged)), None)
