"""What became of each partition: every batch that was ever written, what leaders exposed, and who they were.

A leader exposes what is below its high watermark.  That is committed: later leaders have it, with the same
bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from struct import Struct

from barnabas.base.ids import Uuid
from barnabas.batch.control import ControlType
from barnabas.batch.view import BatchView, batches
from barnabas.runtime.simulated.world import InvariantError

# Base offset, length, leader epoch.
_PEEK = Struct(">qii")
_CONTROL_TYPE = Struct(">2xh")
_LENGTH_AND_OFFSET = 12
MAX_SEQUENCE = 2**31 - 1


class Batch:
    """One batch at its place in a log; the same object on every replica."""

    __slots__ = (
        "base_offset",
        "base_sequence",
        "content",
        "epoch",
        "is_control",
        "is_read_as_committed",
        "is_transactional",
        "last_sequence",
        "next_offset",
        "outcome",
        "producer_epoch",
        "producer_id",
        "values",
    )

    def __init__(self, content: bytes) -> None:
        view = BatchView(content)
        self.content = content
        self.base_offset = view.base_offset
        self.next_offset = view.next_offset
        self.epoch = view.leader_epoch
        self.producer_id = view.producer_id
        self.producer_epoch = view.producer_epoch
        self.base_sequence = view.base_sequence
        self.last_sequence = view.last_sequence
        self.is_control = view.is_control
        self.is_transactional = view.is_transactional
        # Of a transactional batch: whether it was committed; None before its marker.
        self.outcome: bool | None = None
        self.is_read_as_committed: bool | None = None
        records = list(view.records())
        self.values = [(record.key if view.is_control else record.value) or b"" for record in records]

    def __repr__(self) -> str:
        return f"[{self.base_offset}, {self.next_offset}) of epoch {self.epoch}"


def _base_offset(batch: Batch) -> int:
    return batch.base_offset


class PartitionHistory:
    """One partition, by its topic's id: a topic that is made again has another history."""

    def __init__(self, name: str, topic_id: Uuid, index: int) -> None:
        self.topic = name
        self.name = f"{name}-{index}"
        self.topic_id = topic_id
        self.index = index
        # By base offset and leader epoch.
        self.written: dict[tuple[int, int], Batch] = {}
        # The first sequence numbers of those by producer and its epoch.
        self.sequences: dict[tuple[int, int], set[int]] = {}
        # What leaders exposed, without gaps.
        self.committed: list[Batch] = []
        self.end_offset = 0
        # The highest offset that the leader of each epoch exposed, and that leader.
        self.exposed: dict[int, int] = {}
        self.leaders: dict[int, int] = {}
        # Values of committed records, with their offsets.
        self.offsets: dict[bytes, int] = {}
        # Nobody may miss records from here on.
        self.log_start_offset = 0
        self._index: dict[int, int] = {}
        self._sequences: dict[int, tuple[int, int, int]] = {}
        # Batches without a marker, by producer.
        self._open: dict[int, list[Batch]] = {}
        self._is_internal = name.startswith("__")
        # The leader epoch of the last unclean election, and whether its leader has not been seen yet.
        self.unclean_epoch = -1
        self.is_disputed = False
        # Called with every committed batch.
        self.on_commit: Callable[[Batch], None] | None = None

    def batches_in(self, data: bytes | bytearray | memoryview, start: int) -> list[Batch]:
        """The complete batches in these bytes from a position on, each known by offset and epoch."""
        found, position, end = [], start, len(data)
        while position + _PEEK.size <= end:
            base_offset, length, epoch = _PEEK.unpack_from(data, position)
            following = position + _LENGTH_AND_OFFSET + length
            if length <= 0 or following > end:
                break
            found.append(self._intern(base_offset, epoch, bytes(data[position:following])))
            position = following
        return found

    def _intern(self, base_offset: int, epoch: int, content: bytes) -> Batch:
        known = self.written.get((base_offset, epoch))
        if known is None:
            known = self.written[base_offset, epoch] = Batch(content)
            if known.producer_id >= 0:
                producer = known.producer_id, known.producer_epoch
                self.sequences.setdefault(producer, set()).add(known.base_sequence)
        elif known.content != content:
            raise InvariantError(
                f"{self.name}: two batches have the offset {base_offset} and the leader epoch {epoch}"
            )
        return known

    # Leaders

    def leads(self, server_id: int, epoch: int) -> None:
        leader = self.leaders.setdefault(epoch, server_id)
        if leader != server_id:
            raise InvariantError(f"{self.name}: n{leader} and n{server_id} both lead epoch {epoch}")

    def exposed_before(self, epoch: int) -> int:
        """What the leaders of earlier epochs have exposed."""
        return max((offset for known, offset in self.exposed.items() if known < epoch), default=0)

    def expose(self, batches: Sequence[Batch], high_watermark: int, epoch: int) -> None:
        """The leader of an epoch exposes its log, of which these are the batches from our end on."""
        self.exposed[epoch] = max(self.exposed.get(epoch, 0), high_watermark)
        for batch in batches:
            if batch.next_offset > high_watermark:
                break
            self._commit(batch)
        if self.end_offset < high_watermark:
            raise InvariantError(
                f"{self.name}: the leader of epoch {epoch} exposes offset {high_watermark}, and its batches"
                f" end at {self.end_offset}"
            )

    # Unclean elections

    @property
    def is_unclean(self) -> bool:
        """Whether what was committed may have been lost."""
        return self.unclean_epoch >= 0

    def elected_uncleanly(self, epoch: int) -> None:
        """From this epoch on the log is its leader's; earlier leaders may go on, but what they do is void."""
        self.unclean_epoch = epoch
        self.is_disputed = True

    def rewind_to(self, batches: Sequence[Batch], log_start_offset: int) -> None:
        """What is not in the log of the first leader after an unclean election is lost."""
        own = {batch.base_offset: batch for batch in batches}
        kept = 0
        for batch in self.committed:
            if batch.next_offset > log_start_offset and own.get(batch.base_offset) is not batch:
                break
            kept += 1
        for batch in self.committed[kept:]:
            del self._index[batch.base_offset]
            for value in batch.values:
                self.offsets.pop(value, None)
        del self.committed[kept:]
        self.end_offset = self.committed[-1].next_offset if self.committed else 0
        self.exposed = {epoch: min(offset, self.end_offset) for epoch, offset in self.exposed.items()}
        self.log_start_offset = min(self.log_start_offset, log_start_offset)
        # With its records a producer is forgotten: any first sequence number is accepted.
        self._sequences.clear()
        self.is_disputed = False

    def _commit(self, batch: Batch) -> None:
        if batch.base_offset != self.end_offset:
            raise InvariantError(f"{self.name}: {batch} follows offset {self.end_offset}")
        if self.committed and batch.epoch < self.committed[-1].epoch:
            # Below its log start a leader that was elected uncleanly may have had something else.
            is_known = not self.is_unclean or self.committed[-1].next_offset > self.log_start_offset
            if is_known:
                raise InvariantError(f"{self.name}: {batch} follows {self.committed[-1]}")
        self._index[batch.base_offset] = len(self.committed)
        self.committed.append(batch)
        self.end_offset = batch.next_offset
        if self.on_commit is not None:
            self.on_commit(batch)
        if batch.is_control:
            self._complete(batch)
            return
        self._check_sequence(batch)
        if batch.is_transactional:
            self._open.setdefault(batch.producer_id, []).append(batch)
        if self._is_internal:
            return
        for place, value in enumerate(batch.values):
            offset = batch.base_offset + place
            earlier = self.offsets.get(value)
            if earlier is not None and earlier >= self.log_start_offset:
                raise InvariantError(f"{self.name}: {value!r} is at offset {earlier} and again at {offset}")
            self.offsets[value] = offset

    def _complete(self, marker: Batch) -> None:
        is_commit = _CONTROL_TYPE.unpack_from(marker.values[0])[0] == ControlType.COMMIT
        for batch in self._open.pop(marker.producer_id, ()):
            batch.outcome = is_commit
            self._check_read(batch)
            if batch.producer_epoch > marker.producer_epoch:
                raise InvariantError(
                    f"{self.name}: {marker} of producer epoch {marker.producer_epoch} ends {batch} of epoch"
                    f" {batch.producer_epoch}"
                )

    def read(self, batch: Batch, *, is_committed: bool) -> None:
        """A reader of committed transactions takes a batch for committed, or for aborted.

        Its marker may not be committed yet: a leader that was restarted knows from its snapshot that the
        transaction has ended, and not that its marker is beyond the high watermark (as in Apache Kafka).  The
        coordinator has decided, so every leader will have the same marker.
        """
        batch.is_read_as_committed = is_committed
        if batch.outcome is not None:
            self._check_read(batch)

    def _check_read(self, batch: Batch) -> None:
        if batch.is_read_as_committed is not None and batch.is_read_as_committed is not batch.outcome:
            raise InvariantError(
                f"{self.name}: {batch} of producer {batch.producer_id} was committed: {batch.outcome};"
                f" for a reader: {batch.is_read_as_committed}"
            )

    def marker_after(self, offset: int, producer_id: int) -> int:
        """The offset of a producer's next marker."""
        at = bisect_right(self.committed, offset, key=_base_offset) - 1
        for batch in self.committed[at:]:
            if batch.is_control and batch.producer_id == producer_id:
                return batch.base_offset
        return self.end_offset

    @property
    def has_open_transactions(self) -> bool:
        return bool(self._open)

    def is_visible(self, offset: int) -> bool | None:
        """Whether a record is committed to readers of committed transactions; None if that is open."""
        at = bisect_right(self.committed, offset, key=_base_offset) - 1
        batch = self.committed[at]
        return batch.outcome if batch.is_transactional else True

    def _check_sequence(self, batch: Batch) -> None:
        if batch.producer_id < 0:
            return
        known = self._sequences.get(batch.producer_id)
        epoch, last, end_offset = known or (-1, -1, 0)
        # A replica that never had a producer's records, as they are deleted, does not know it.
        is_forgotten = known is not None and end_offset <= self.log_start_offset
        if is_forgotten:
            epoch = -1
        if batch.producer_epoch < epoch:
            raise InvariantError(f"{self.name}: {batch} of producer epoch {batch.producer_epoch} < {epoch}")
        expected = 0 if batch.producer_epoch > epoch else (last + 1) & MAX_SEQUENCE
        if epoch < 0 and (self.is_unclean or is_forgotten):
            expected = batch.base_sequence
        if batch.base_sequence != expected:
            raise InvariantError(
                f"{self.name}: {batch} of producer {batch.producer_id} has the sequence number"
                f" {batch.base_sequence}, not {expected}"
            )
        self._sequences[batch.producer_id] = batch.producer_epoch, batch.last_sequence, batch.next_offset

    # What others have

    def committed_from(self, offset: int) -> list[Batch]:
        """The committed batches from this base offset on."""
        if offset >= self.end_offset:
            return []
        at = self._index.get(offset)
        if at is None:
            raise InvariantError(f"{self.name}: no committed batch begins at offset {offset}")
        return self.committed[at:]

    def batch_at(self, base_offset: int) -> Batch | None:
        at = self._index.get(base_offset)
        return None if at is None else self.committed[at]

    def check_read(self, who: str, records: bytes, high_watermark: int) -> list[Batch]:
        """What a consumer read is committed."""
        found = []
        for view in batches(records):
            batch = self.batch_at(view.base_offset)
            if batch is None or batch.content != view.copy():
                raise InvariantError(
                    f"{who} read {view!r} of {self.name}, which is not committed: {batch!r} is"
                )
            if batch.next_offset > high_watermark:
                raise InvariantError(
                    f"{who} read {batch!r} of {self.name} beyond the high watermark {high_watermark}"
                )
            found.append(batch)
        return found
