"""`/brokers/topics/T` and `…/partitions/P/state`: assignments, leaders and ISRs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.ids import Uuid
from barnabas.broker.modes.zookeeper.znodes.json_data import decode, encode, scala_order

TOPIC_VERSION = 3
STATE_VERSION = 1
# Scala's map of four fields has this many buckets.
_TOPIC_BUCKETS = 8


class Assignment(NamedTuple):
    """The replicas of a partition, and which of them a reassignment adds and removes (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The data of a topic's znode.  One that an old tool wrote has no id yet."""

    topic_id: Uuid | None
    partitions: Mapping[int, Assignment] = field(default_factory=dict)

    def encode(self) -> bytes:
        def lists(values: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
            order = scala_order(str(number) for number in sorted(values))
            return {number: list(values[int(number)]) for number in order}

        assigned = self.partitions
        values: dict[str, object] = {
            "version": TOPIC_VERSION,
            "partitions": lists({number: each.replicas for number, each in assigned.items()}),
            "adding_replicas": lists({n: each.adding for n, each in assigned.items() if each.adding}),
            "removing_replicas": lists({n: each.removing for n, each in assigned.items() if each.removing}),
        }
        if self.topic_id is not None:
            values["topic_id"] = str(self.topic_id)
        return encode({name: values[name] for name in scala_order(values, _TOPIC_BUCKETS)})


def decode_topic(path: str, data: bytes | None) -> TopicAssignment:
    """Version 1 had partitions alone, 2 the reassignment, 3 the id."""
    found = decode(path, data)
    partitions = found.integer_lists("partitions")
    if not partitions:
        raise found.fail("it has no partitions")
    adding, removing = found.integer_lists("adding_replicas"), found.integer_lists("removing_replicas")
    topic_id = found.optional_text("topic_id")
    try:
        parsed = None if topic_id is None else Uuid.parse(topic_id)
    except ValueError as error:
        raise found.fail(str(error)) from error
    return TopicAssignment(
        parsed,
        {
            number: Assignment(replicas, adding.get(number, ()), removing.get(number, ()))
            for number, replicas in sorted(partitions.items())
        },
    )


class PartitionState(NamedTuple):
    """Leader and ISR of a partition, and the epoch of the controller that wrote them."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    # 1 after an unclean election, until the leader has recovered (KIP-704).
    leader_recovery_state: int = 0

    def encode(self) -> bytes:
        # In the order of Scala's immutable map of five fields, and of six.
        values: dict[str, object] = {
            "controller_epoch": self.controller_epoch,
            "leader": self.leader,
            "version": STATE_VERSION,
            "leader_epoch": self.leader_epoch,
            "isr": list(self.isr),
        }
        if self.leader_recovery_state:
            values["leader_recovery_state"] = self.leader_recovery_state
        return encode(values)


def decode_state(path: str, data: bytes | None) -> PartitionState:
    found = decode(path, data)
    return PartitionState(
        leader=found.integer("leader"),
        leader_epoch=found.integer("leader_epoch"),
        isr=found.integers("isr"),
        controller_epoch=found.integer("controller_epoch"),
        leader_recovery_state=found.integer("leader_recovery_state", 0),
    )
