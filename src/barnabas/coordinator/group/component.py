"""The interface of the group machine's components: classic groups, consumer groups, offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from barnabas.base.errors import KafkaError
from barnabas.coordinator.decision import Context, ProducerStamp
from barnabas.coordinator.entry import Entry
from barnabas.metadata.delta import Delta
from barnabas.protocol.schema import Message

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine


class GroupComponent:
    """Subclasses declare the keys of their entries and override what they need."""

    # The key types of its entries.
    keys: ClassVar[tuple[type[Message], ...]] = ()
    # Key types that it loads from bytes, with `load_row`.
    raw_types: ClassVar[tuple[int, ...]] = ()

    def __init__(self, machine: GroupMachine) -> None:
        self.machine = machine

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        """Called when an entry is in the log: the only way to change durable state."""

    def load_row(self, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        """Like `apply`, from bytes; raises ProtocolError or ValueError if they are corrupt."""

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Called when a transaction marker is in the log."""

    def loaded(self, context: Context) -> None:
        """Called when the whole log is applied: initialize soft state and timers."""

    def metadata_changed(self, delta: Delta, context: Context) -> list[Entry]:
        """Called when the cluster metadata has changed; returns entries to write."""
        return []

    def group_removed(self, group_id: str) -> None:
        """Called when a group of any kind was removed."""

    def dropped(self, error: KafkaError) -> None:
        """Called when the shard is unloaded: fail all waiting requests."""
