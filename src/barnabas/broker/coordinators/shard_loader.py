"""Loading a shard: a coordinator's log is read from its start, a slice at a time, into its machine.

What lives here: the way from segments to the machine.  What may not: what the records mean.

A batch that cannot be read is passed over with a line in the log, as is every record that the machine cannot
read: a coordinator without some of its records serves better than none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from barnabas.base.errors import KafkaError
from barnabas.batch.columnar import columns_of
from barnabas.batch.control import batch_marker
from barnabas.batch.view import BatchView, CorruptBatch, batches
from barnabas.coordinator.decision import ProducerStamp
from barnabas.coordinator.shard import Machine
from barnabas.runtime.disk.disk import Slice
from barnabas.storage.log.log import Log

logger = logging.getLogger(__name__)

# Read at once: less than a millisecond's work.  A larger batch comes whole.
READ_BYTES = 32 * 1024


class ShardLoader:
    """One run over one log."""

    def __init__(self, log: Log, machine: Machine, most_bytes: int = READ_BYTES) -> None:
        self._log = log
        self._machine = machine
        self._read_bytes = min(most_bytes, READ_BYTES)
        self.next_offset = log.log_start_offset
        # A part of the log that lies on the device alone: it is to be read elsewhere before going on.
        self.cold: Slice | None = None

    @property
    def is_done(self) -> bool:
        return self.next_offset >= self._log.end_offset

    def steps(self) -> Iterator[None]:
        """Read on until the end, or until something is `cold`; each step is less than one millisecond."""
        may_wait = self.cold is not None  # now or never: it was warmed
        self.cold = None
        while not self.is_done:
            try:
                result = self._log.read(
                    self.next_offset, self._read_bytes, upper_bound=self._log.end_offset, may_wait=may_wait
                )
            except CorruptBatch as error:
                self._pass_over(error)
                yield
                continue
            may_wait = False
            if result.cold is not None:
                self.cold = result.cold
                return
            if result.slice is None:
                self.next_offset = self._log.end_offset  # all behind was compacted away
                return
            self._take(result.slice.read())
            yield

    def _pass_over(self, error: CorruptBatch) -> None:
        """What its header says of a damaged batch, if that can be; else the rest of its segment."""
        logger.warning("%s: what is at offset %d is passed over: %s", self._log.name, self.next_offset, error)
        segments = self._log.segments
        segment = segments.floor(self.next_offset)
        following = None if segment is None else segments.after(segment)
        limit = self._log.end_offset if following is None else following.base_offset
        head = None if segment is None else segment.locate(self.next_offset)
        is_likely = head is not None and self.next_offset <= head.last_offset < limit
        self.next_offset = head.last_offset + 1 if head is not None and is_likely else limit

    def _take(self, data: bytes) -> None:
        """Batches of one producer together, as most are of none."""
        gathered: list[BatchView] = []
        stamp: ProducerStamp | None = None
        before = self.next_offset
        for batch in batches(data):
            if batch.last_offset < before:
                continue
            self.next_offset = batch.next_offset
            theirs = (
                ProducerStamp(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            )
            if batch.is_control or theirs != stamp:
                self._load(gathered, stamp)
                gathered = []
            if batch.is_control:
                self._mark(batch)
                continue
            stamp = theirs
            gathered.append(batch)
        self._load(gathered, stamp)
        if self.next_offset == before:
            logger.warning("%s: nothing can be read at offset %d", self._log.name, before)
            self.next_offset = self._log.end_offset

    def _load(self, gathered: list[BatchView], stamp: ProducerStamp | None) -> None:
        if not gathered:
            return
        try:
            found = columns_of(gathered)
        except KafkaError as error:
            if len(gathered) > 1:
                for batch in gathered:
                    self._load([batch], stamp)
                return
            logger.warning(
                "%s: the batch at offset %d is passed over: %s",
                self._log.name,
                gathered[0].base_offset,
                error,
            )
            return
        self._machine.load(found, stamp)

    def _mark(self, batch: BatchView) -> None:
        try:
            marker = batch_marker(batch)
        except KafkaError as error:
            logger.warning(
                "%s: the marker at offset %d is passed over: %s", self._log.name, batch.base_offset, error
            )
            return
        if marker is not None:
            self._machine.marker(batch.producer_id, batch.producer_epoch, marker.commit)
