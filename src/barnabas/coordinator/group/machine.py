"""The group machine: all groups of one partition of `__consumer_offsets`, and their offsets.

What lives here: its parts, which of them an entry belongs to, and loading.  What may not: what the parts do.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.columnar import Columns
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import GROUP, Entry, Unknown, decode
from barnabas.coordinator.events import EventKind, Events
from barnabas.coordinator.group.classic.classic import ClassicGroups
from barnabas.coordinator.group.consumer.consumer import ConsumerGroups
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.coordinator.group.part import Part
from barnabas.coordinator.group.table import GroupTable
from barnabas.coordinator.timers import Timers
from barnabas.metadata.delta import Delta
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)

# Of records that cannot be read: with so many lines the log has said enough.
MAX_LINES_PER_LOAD = 100

# Groups and offsets looked at in one go, which takes a few milliseconds; and until the next.
MAX_CLEANED_AT_ONCE = 5_000
NEXT_PART_MS = 1


class GroupMachine:
    """Of one shard."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.timers = Timers()
        self.table = GroupTable()
        self.events = Events()
        self._parts: list[Part] = []
        self._by_key: dict[type[Message], Part] = {}
        self._by_raw_type: dict[int, Part] = {}
        # Groups that a round of cleaning has yet to look at.
        self._unclean: list[str] = []
        # Until then entries are of an earlier life; afterwards they are the groups' own.
        self.is_loaded = False
        self._passed_over = 0
        self.classic = ClassicGroups(self)
        self.add(self.classic)
        self.consumer = ConsumerGroups(self)
        self.add(self.consumer)
        self.offsets = Offsets(self)
        self.add(self.offsets)

    def add(self, part: Part) -> None:
        """A part takes its place."""
        self._parts.append(part)
        self._by_key.update(dict.fromkeys(part.keys, part))
        self._by_raw_type.update(dict.fromkeys(part.raw_types, part))

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        self._by_key[type(entry.key)].apply(entry, stamp)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        for part in self._parts:
            part.marker(producer_id, producer_epoch, committed)

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        """A record that cannot be read is passed over with a line in the log: it must not cost the others."""
        payload, raw = columns.payload, self._by_raw_type
        starts, lengths = columns.key_starts, columns.key_lengths
        value_starts, value_lengths = columns.value_starts, columns.value_lengths
        for row, start in enumerate(starts):
            key = payload[start : start + lengths[row]]
            value_start, value_length = value_starts[row], value_lengths[row]
            value = None if value_length < 0 else payload[value_start : value_start + value_length]
            try:
                part = raw.get(key[0] << 8 | key[1]) if lengths[row] >= 2 else None
                if part is not None:
                    part.load_row(key, value, stamp)
                else:
                    self._load(columns.key(row), value, columns.offsets[row], stamp)
            except Exception as error:
                # Whatever is wrong with it, the groups of all other records are worth more.
                self._pass_over(columns.offsets[row], str(error))

    def _load(self, key: bytes | None, value: bytes | None, offset: int, stamp: ProducerStamp | None) -> None:
        entry = decode(key, value, GROUP)
        if isinstance(entry, Unknown):
            self._pass_over(offset, entry.reason)
        elif type(entry.key) not in self._by_key:
            self._pass_over(offset, f"{entry.key.schema.name} is of a kind of group that is not served")
        else:
            self.apply(entry, stamp)

    def _pass_over(self, offset: int, reason: str) -> None:
        self._passed_over += 1
        if self._passed_over <= MAX_LINES_PER_LOAD:
            logger.warning(
                "__consumer_offsets-%d: the record at offset %d is passed over: %s",
                self.partition,
                offset,
                reason,
            )

    # Soft state

    def loaded(self, context: Context) -> None:
        self.is_loaded = True
        if self._passed_over > MAX_LINES_PER_LOAD:
            logger.warning(
                "__consumer_offsets-%d: %d records were passed over in all", self.partition, self._passed_over
            )
        self._schedule_cleanup(_interval_ms(context))
        for part in self._parts:
            part.loaded(context)

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        entries = [entry for part in self._parts for entry in part.metadata_changed(delta, context)]
        return Decision(entries, None, atomic=False)

    def clean_up(self, context: Context) -> Decision[None]:
        """Offsets that have expired go, and groups that are empty and have none left; a part at a time."""
        unclean = self._unclean or [group.group_id for group in self.table]
        left = len(unclean)
        entries: list[Entry] = []
        expired: dict[str, int] = {}
        looked_at = 0
        while left and looked_at < MAX_CLEANED_AT_ONCE:
            left -= 1
            group = self.table.get(unclean[left])
            if group is None:
                continue  # it has gone meanwhile
            looked_at += 1 + self.offsets.count(group.group_id)
            theirs, is_nothing_left = self.offsets.expired(group.group_id, context)
            if theirs:
                expired[group.group_id] = len(theirs)
            entries += theirs
            if is_nothing_left and group.is_empty:
                entries += group.tombstones()

        def accepted() -> None:
            self._unclean = unclean
            del unclean[left:]
            self._schedule_cleanup(NEXT_PART_MS if left else _interval_ms(context))
            for group_id, count in expired.items():
                self.events.note(group_id, context.now_ms, EventKind.OFFSETS_EXPIRED, count=count)

        return Decision(entries, None, accepted, atomic=False)

    def _schedule_cleanup(self, delay_ms: int) -> None:
        self.timers.schedule("cleanup", delay_ms, self.clean_up)

    def delete(self, group_ids: Sequence[str], context: Context) -> Decision[dict[str, ErrorCode]]:
        """Groups with all that is theirs; what became of each."""
        entries: list[Entry] = []
        results: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            try:
                group = self.table.find(group_id)
                group.validate_delete()
            except KafkaError as error:
                results[group_id] = error.code
                continue
            results[group_id] = ErrorCode.NONE
            entries += [*self.offsets.tombstones(group_id), *group.tombstones()]

        def accepted() -> None:
            for group_id, code in results.items():
                if code is ErrorCode.NONE:
                    self.events.note(group_id, context.now_ms, EventKind.GROUP_DELETED)

        return Decision(entries, results, accepted, atomic=False)

    def dropped(self, error: KafkaError) -> None:
        for part in self._parts:
            part.dropped(error)

    def remove(self, group_id: str) -> None:
        """A group's last entry is a tombstone: forget it."""
        if self.table.remove(group_id) is not None:
            for part in self._parts:
                part.group_removed(group_id)


def _interval_ms(context: Context) -> int:
    interval_ms: int = context.settings["offsets.retention.check.interval.ms"]
    return interval_ms
