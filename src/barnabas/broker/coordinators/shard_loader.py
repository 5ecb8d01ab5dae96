"""Loads a shard: replays a coordinator's log from its start into the state machine, a slice at a time.

A batch that cannot be read is skipped with a warning, as is every record that the machine cannot read: a
coordinator without some of its records is better than none.
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

# Read size: less than a millisecond's work.  A larger batch is read whole.
READ_BYTES = 32 * 1024


class ShardLoader:
    """One replay of one log."""

    def __init__(self, log: Log, machine: Machine, max_bytes: int = READ_BYTES) -> None:
        self._log = log
        self._machine = machine
        self._read_bytes = min(max_bytes, READ_BYTES)
        self.next_offset = log.log_start_offset
        # A range that is not in the page cache: it must be warmed by a worker before loading continues.
        self.cold: Slice | None = None

    @property
    def is_done(self) -> bool:
        return self.next_offset >= self._log.end_offset

    def steps(self) -> Iterator[None]:
        """Reads until the end, or until a range is `cold`; each step takes less than a millisecond."""
        may_wait = self.cold is not None  # it was just warmed
        self.cold = None
        while not self.is_done:
            try:
                result = self._log.read(
                    self.next_offset, self._read_bytes, upper_bound=self._log.end_offset, may_wait=may_wait
                )
            except CorruptBatch as error:
                self._skip(error)
                yield
                continue
            may_wait = False
            if result.cold is not None:
                self.cold = result.cold
                return
            if result.slice is None:
                self.next_offset = self._log.end_offset  # compaction removed all remaining records
                return
            self._replay(result.slice.read())
            yield

    def _skip(self, error: CorruptBatch) -> None:
        """Skips a corrupt batch if its header is plausible, else the rest of its segment."""
        logger.warning("%s: the data at offset %d is skipped: %s", self._log.name, self.next_offset, error)
        segments = self._log.segments
        segment = segments.floor(self.next_offset)
        following = None if segment is None else segments.after(segment)
        limit = self._log.end_offset if following is None else following.base_offset
        header = None if segment is None else segment.locate(self.next_offset)
        is_plausible = header is not None and self.next_offset <= header.last_offset < limit
        self.next_offset = header.last_offset + 1 if header is not None and is_plausible else limit

    def _replay(self, data: bytes) -> None:
        """Loads consecutive batches of one producer together; most have none."""
        pending: list[BatchView] = []
        stamp: ProducerStamp | None = None
        start_offset = self.next_offset
        for batch in batches(data):
            if batch.last_offset < start_offset:
                continue
            self.next_offset = batch.next_offset
            producer = (
                ProducerStamp(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
            )
            if batch.is_control or producer != stamp:
                self._load(pending, stamp)
                pending = []
            if batch.is_control:
                self._apply_marker(batch)
                continue
            stamp = producer
            pending.append(batch)
        self._load(pending, stamp)
        if self.next_offset == start_offset:
            logger.warning("%s: no batch can be read at offset %d", self._log.name, start_offset)
            self.next_offset = self._log.end_offset

    def _load(self, pending: list[BatchView], stamp: ProducerStamp | None) -> None:
        if not pending:
            return
        try:
            columns = columns_of(pending)
        except KafkaError as error:
            if len(pending) > 1:
                for batch in pending:
                    self._load([batch], stamp)
                return
            logger.warning(
                "%s: the batch at offset %d is skipped: %s",
                self._log.name,
                pending[0].base_offset,
                error,
            )
            return
        self._machine.load(columns, stamp)

    def _apply_marker(self, batch: BatchView) -> None:
        try:
            marker = batch_marker(batch)
        except KafkaError as error:
            logger.warning(
                "%s: the marker at offset %d is skipped: %s", self._log.name, batch.base_offset, error
            )
            return
        if marker is not None:
            self._machine.marker(batch.producer_id, batch.producer_epoch, marker.commit)
