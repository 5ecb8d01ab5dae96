"""A part of the group machine: classic groups, consumer groups, offsets.

What lives here: what the machine tells its parts; a part answers to what concerns it.  What may not: any
decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.base.errors import KafkaError
from barnabas.coordinator.decision import Context, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.metadata.delta import Delta
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine


class Part:
    """Subclasses name the keys of their entries and override what they need."""

    # Entries with these keys are theirs.
    keys: ClassVar[tuple[type[Message], ...]] = ()
    # Types of keys that they load from bytes themselves, by `load_row`.
    raw_types: ClassVar[tuple[int, ...]] = ()

    def __init__(self, machine: GroupMachine) -> None:
        self.machine = machine

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        """The log has taken an entry of theirs: the only way in which durable state changes."""

    def load_row(self, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        """`apply` from bytes; ProtocolError or ValueError if they are damaged."""

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """The log has taken the end of a transaction."""

    def loaded(self, context: Context) -> None:
        """The whole log is applied: begin with soft state and timers."""

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """The cluster's metadata has changed; entries to be written because of it."""
        return []

    def group_removed(self, group_id: str) -> None:
        """A group of any kind is gone."""

    def dropped(self, error: KafkaError) -> None:
        """The shard goes: fail every reply that they hold."""
