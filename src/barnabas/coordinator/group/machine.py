"""The group machine: all groups of one `__consumer_offsets` partition, and their offsets.

Dispatches entries to its components, and loads the log.
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
from barnabas.coordinator.group.component import GroupComponent
from barnabas.coordinator.group.consumer.consumer import ConsumerGroups
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.coordinator.group.table import GroupTable
from barnabas.coordinator.timers import Timers
from barnabas.metadata.delta import Delta
from barnabas.protocol.schema import Message

logger = logging.getLogger(__name__)

# The maximum number of warnings about unreadable records per load.
MAX_WARNINGS_PER_LOAD = 100

# The maximum number of groups and offsets per cleanup step, a few milliseconds; and the delay between steps.
MAX_CHECKED_PER_CLEANUP_STEP = 5_000
NEXT_CLEANUP_STEP_MS = 1


class GroupMachine:
    """The group machine of one shard."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.timers = Timers()
        self.table = GroupTable()
        self.events = Events()
        self._components: list[GroupComponent] = []
        self._by_key: dict[type[Message], GroupComponent] = {}
        self._by_raw_type: dict[int, GroupComponent] = {}
        # The groups that the current cleanup has not checked yet.
        self._cleanup_queue: list[str] = []
        # False while entries are replayed from the log; afterwards they are written by the groups themselves.
        self.is_loaded = False
        self._skipped = 0
        self.classic = ClassicGroups(self)
        self.add(self.classic)
        self.consumer = ConsumerGroups(self)
        self.add(self.consumer)
        self.offsets = Offsets(self)
        self.add(self.offsets)

    def add(self, component: GroupComponent) -> None:
        """Register a component."""
        self._components.append(component)
        self._by_key.update(dict.fromkeys(component.keys, component))
        self._by_raw_type.update(dict.fromkeys(component.raw_types, component))

    # Durable state

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        self._by_key[type(entry.key)].apply(entry, stamp)

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        for component in self._components:
            component.marker(producer_id, producer_epoch, committed)

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        """An unreadable record is skipped with a warning: it must not prevent loading the others."""
        payload, raw_types = columns.payload, self._by_raw_type
        starts, lengths = columns.key_starts, columns.key_lengths
        value_starts, value_lengths = columns.value_starts, columns.value_lengths
        for row, start in enumerate(starts):
            key = payload[start : start + lengths[row]]
            value_start, value_length = value_starts[row], value_lengths[row]
            value = None if value_length < 0 else payload[value_start : value_start + value_length]
            try:
                component = raw_types.get(key[0] << 8 | key[1]) if lengths[row] >= 2 else None
                if component is not None:
                    component.load_row(key, value, stamp)
                else:
                    self._load(columns.key(row), value, columns.offsets[row], stamp)
            except Exception as error:
                # An invalid record must not cost the groups of all other records.
                self._skip(columns.offsets[row], str(error))

    def _load(self, key: bytes | None, value: bytes | None, offset: int, stamp: ProducerStamp | None) -> None:
        entry = decode(key, value, GROUP)
        if isinstance(entry, Unknown):
            self._skip(offset, entry.reason)
        elif type(entry.key) not in self._by_key:
            self._skip(offset, f"{entry.key.schema.name} belongs to an unsupported group type")
        else:
            self.apply(entry, stamp)

    def _skip(self, offset: int, reason: str) -> None:
        self._skipped += 1
        if self._skipped <= MAX_WARNINGS_PER_LOAD:
            logger.warning(
                "__consumer_offsets-%d: the record at offset %d is skipped: %s",
                self.partition,
                offset,
                reason,
            )

    # Soft state

    def loaded(self, context: Context) -> None:
        self.is_loaded = True
        if self._skipped > MAX_WARNINGS_PER_LOAD:
            logger.warning(
                "__consumer_offsets-%d: %d records were skipped in total", self.partition, self._skipped
            )
        self._schedule_cleanup(_interval_ms(context))
        for component in self._components:
            component.loaded(context)

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        entries = [
            entry for component in self._components for entry in component.metadata_changed(delta, context)
        ]
        return Decision(entries, None, atomic=False)

    def clean_up(self, context: Context) -> Decision[None]:
        """Remove expired offsets, and empty groups without offsets; one step at a time."""
        queue = self._cleanup_queue or [group.group_id for group in self.table]
        remaining = len(queue)
        entries: list[Entry] = []
        expired: dict[str, int] = {}
        checked = 0
        while remaining and checked < MAX_CHECKED_PER_CLEANUP_STEP:
            remaining -= 1
            group = self.table.get(queue[remaining])
            if group is None:
                continue  # removed in the meantime
            checked += 1 + self.offsets.count(group.group_id)
            expired_entries, all_expired = self.offsets.expired(group.group_id, context)
            if expired_entries:
                expired[group.group_id] = len(expired_entries)
            entries += expired_entries
            if all_expired and group.is_empty:
                entries += group.tombstones()

        def accepted() -> None:
            self._cleanup_queue = queue
            del queue[remaining:]
            self._schedule_cleanup(NEXT_CLEANUP_STEP_MS if remaining else _interval_ms(context))
            for group_id, count in expired.items():
                self.events.note(group_id, context.now_ms, EventKind.OFFSETS_EXPIRED, count=count)

        return Decision(entries, None, accepted, atomic=False)

    def _schedule_cleanup(self, delay_ms: int) -> None:
        self.timers.schedule("cleanup", delay_ms, self.clean_up)

    def delete(self, group_ids: Sequence[str], context: Context) -> Decision[dict[str, ErrorCode]]:
        """Delete groups with their offsets; returns the result for each."""
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
        for component in self._components:
            component.dropped(error)

    def remove(self, group_id: str) -> None:
        """Called when the tombstone of a group is applied."""
        if self.table.remove(group_id) is not None:
            for component in self._components:
                component.group_removed(group_id)


def _interval_ms(context: Context) -> int:
    interval_ms: int = context.settings["offsets.retention.check.interval.ms"]
    return interval_ms
