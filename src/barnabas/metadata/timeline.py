"""The events of a cluster's timeline: elections, fenced brokers, other leaders and ISRs, with their causes.

Contains the event, what committed records mean as events, and how the timelines of several nodes become one.
Keeping and writing them belongs in `broker/timeline.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.metadata.topics import NO_LEADER, RECOVERING, Partition
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

# A broker that fails may lead very many partitions: one batch has at most this many events about partitions.
MAX_PARTITION_EVENTS = 50
_FENCE, _UNFENCE = 1, -1


class Kind(StrEnum):
    """The kinds of events."""

    NODE_STARTED = "node-started"
    NODE_STOPPED = "node-stopped"
    ELECTION_STARTED = "election-started"
    LEADER_ELECTED = "leader-elected"
    LEADER_RESIGNED = "leader-resigned"
    BROKER_REGISTERED = "broker-registered"
    BROKER_UNFENCED = "broker-unfenced"
    BROKER_STOPPING = "broker-stopping"
    BROKER_FENCED = "broker-fenced"
    BROKER_UNREGISTERED = "broker-unregistered"
    LOG_DIR_FULL = "log-dir-full"
    LOG_DIR_HAS_ROOM = "log-dir-has-room"
    PARTITION_LEADER = "partition-leader"
    PARTITION_ISR = "partition-isr"
    PARTITIONS = "partitions"


# Within an epoch of the quorum: its election comes before all records, the resignation after them.
_POSITIONS: dict[Kind, float] = {
    Kind.ELECTION_STARTED: -2,
    Kind.LEADER_ELECTED: -1,
    Kind.LEADER_RESIGNED: float("inf"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event.  The time is that of the active controller for records, else of the node.

    `epoch` and `offset` are those of the metadata record; an election has an epoch only.  `nodes`: those that
    have seen the event; `sequence`: its number on the first of them, since the node's start.
    """

    time_ms: int
    kind: Kind
    subject: str
    detail: str = ""
    cause: str = ""
    epoch: int | None = None
    offset: int | None = None
    nodes: tuple[int, ...] = ()
    sequence: int = 0
    # Reported by the node that decided it, which knows the cause best.
    is_first_hand: bool = False

    def line(self) -> bytes:
        """As one line of JSON; `read_event` reads it."""
        return json.dumps(asdict(self), ensure_ascii=False).encode() + b"\n"


def read_event(line: bytes) -> Event | None:
    """None if the line is not an event: torn by a crash, or written by a later release."""
    try:
        fields = json.loads(line)
        return Event(**{**fields, "kind": Kind(fields["kind"]), "nodes": tuple(fields["nodes"])})
    except (ValueError, TypeError, KeyError):
        return None


# Records ----------------------------------------------------------------------------------------------------


# Whether a broker's session has expired; None: not known.
HasExpired = Callable[[int], bool | None]


def record_events(
    before: Image,
    batch: MetadataBatch,
    has_expired: HasExpired | None = None,
    *,
    on_zookeeper: bool = False,
) -> list[Event]:
    """The events of a committed batch; `before` is the image without it.

    Only the active controller knows whose session `has_expired`: a record does not say why it fences.  In
    ZooKeeper mode a broker is fenced when its session has ended, and what follows is in later batches.
    """
    if not any(isinstance(record, _EVENTFUL) for record in batch.records):
        return []
    reader = _BatchReader(before, batch.records, has_expired, on_zookeeper=on_zookeeper)
    base_offset = batch.last_offset - len(batch.records) + 1
    events: list[Event] = []
    partitions = 0
    for offset, record in enumerate(batch.records, base_offset):
        if isinstance(record, records.PartitionChangeRecord):
            partitions += 1
            if partitions > MAX_PARTITION_EVENTS:
                continue
        event = reader.event(record)
        if event is not None:
            events.append(replace(event, time_ms=batch.timestamp_ms, epoch=batch.epoch, offset=offset))
    if partitions > MAX_PARTITION_EVENTS:
        others = f"{partitions - MAX_PARTITION_EVENTS} other partitions changed in the same batch"
        last = batch.last_offset
        events.append(Event(batch.timestamp_ms, Kind.PARTITIONS, others, epoch=batch.epoch, offset=last))
    return events


_EVENTFUL = (
    records.RegisterBrokerRecord,
    records.BrokerRegistrationChangeRecord,
    records.FenceBrokerRecord,
    records.UnfenceBrokerRecord,
    records.UnregisterBrokerRecord,
    records.PartitionChangeRecord,
)


class _BatchReader:
    """What the records of one batch change.  They are one decision: brokers explain partitions."""

    def __init__(
        self,
        before: Image,
        batch_records: Sequence[Message],
        has_expired: HasExpired | None,
        *,
        on_zookeeper: bool,
    ) -> None:
        self._on_zookeeper = on_zookeeper
        self._before = before
        self._has_expired = has_expired
        self._partitions: dict[object, Partition] = {}
        self._fenced: set[int] = set()
        self._unfenced: set[int] = set()
        self._stopping = {
            broker.id
            for broker in before.brokers.values()
            if broker.in_controlled_shutdown and not broker.fenced
        }
        self._unregistered: set[int] = set()
        self._registered_ids: set[int] = set()
        for record in batch_records:
            self._note_broker(record)

    def _note_broker(self, record: Message) -> None:
        match record:
            case records.BrokerRegistrationChangeRecord():
                if record.fenced == _FENCE:
                    self._fenced.add(record.broker_id)
                elif record.fenced == _UNFENCE:
                    self._unfenced.add(record.broker_id)
                if record.in_controlled_shutdown > 0:
                    self._stopping.add(record.broker_id)
            case records.FenceBrokerRecord():
                self._fenced.add(record.id)
            case records.UnfenceBrokerRecord():
                self._unfenced.add(record.id)
            case records.UnregisterBrokerRecord():
                self._unregistered.add(record.broker_id)
            case records.RegisterBrokerRecord():
                self._registered_ids.add(record.broker_id)

    def event(self, record: Message) -> Event | None:
        match record:
            case records.RegisterBrokerRecord():
                return self._registered(record)
            case records.BrokerRegistrationChangeRecord():
                return self._changed(record)
            case records.FenceBrokerRecord():
                return self._fence(record.id)
            case records.UnfenceBrokerRecord():
                return _broker_event(Kind.BROKER_UNFENCED, record.id, "it has caught up with the metadata")
            case records.UnregisterBrokerRecord():
                if self._on_zookeeper:
                    return None  # It was fenced before.
                return _broker_event(
                    Kind.BROKER_UNREGISTERED, record.broker_id, "an administrator asked for it"
                )
            case records.PartitionChangeRecord():
                return self._partition(record)
        return None

    # Brokers

    def _registered(self, record: records.RegisterBrokerRecord) -> Event:
        known = self._before.brokers.get(record.broker_id)
        cause = "it is new"
        if known is not None:
            is_same = known.incarnation_id == record.incarnation_id
            cause = "it registered again" if is_same else "it has restarted"
        if self._on_zookeeper:
            cause = "it has a session with ZooKeeper"
        return _broker_event(
            Kind.BROKER_REGISTERED, record.broker_id, cause, f"broker epoch {record.broker_epoch}"
        )

    def _changed(self, record: records.BrokerRegistrationChangeRecord) -> Event | None:
        if record.fenced == _FENCE:
            return self._fence(record.broker_id)
        if record.fenced == _UNFENCE:
            cause = "it has caught up with the metadata"
            return _broker_event(Kind.BROKER_UNFENCED, record.broker_id, cause)
        if record.in_controlled_shutdown > 0:
            return _broker_event(Kind.BROKER_STOPPING, record.broker_id, "it asked for a controlled shutdown")
        return None

    def _fence(self, broker_id: int) -> Event:
        has_expired = None if self._has_expired is None else self._has_expired(broker_id)
        if has_expired:
            cause = "it sent no heartbeat within broker.session.timeout.ms"
        elif broker_id in self._stopping:
            cause = "its controlled shutdown is complete"
        elif self._on_zookeeper:
            cause = "its session with ZooKeeper has ended"
        else:
            cause = "it stops" if has_expired is False else "it stopped, or sent no heartbeat in time"
        event = _broker_event(Kind.BROKER_FENCED, broker_id, cause)
        return replace(event, is_first_hand=has_expired is not None)

    # Partitions

    def _partition(self, record: records.PartitionChangeRecord) -> Event | None:
        key = (record.topic_id, record.partition_id)
        topic = self._before.topics.get(record.topic_id)
        if topic is None:
            return None  # Created in the same batch.
        old = self._partitions.get(key) or topic.partitions.get(record.partition_id)
        if old is None:
            return None
        new = self._partitions[key] = old.changed_by(record)
        subject = f"{topic.name}-{record.partition_id}"
        if (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch):
            change = f"leader {_broker(old.leader)} -> {_broker(new.leader)}, leader epoch {new.leader_epoch}"
            if new.leader == old.leader:
                change = f"leader {_broker(new.leader)}, leader epoch {new.leader_epoch}"
            detail = f"{change}, ISR {list(new.isr)}"
            return Event(0, Kind.PARTITION_LEADER, subject, detail, self._leader_cause(old, new))
        if set(new.isr) != set(old.isr):
            detail = f"ISR {list(old.isr)} -> {list(new.isr)}"
            return Event(0, Kind.PARTITION_ISR, subject, detail, self._isr_cause(old, new))
        return None

    def _leader_cause(self, old: Partition, new: Partition) -> str:
        if new.leader_recovery_state == RECOVERING and old.leader_recovery_state != RECOVERING:
            return "unclean election: no replica that surely has all records is alive"
        cause = self._absence(old.leader)
        if cause:
            return cause
        if new.leader in self._unfenced:
            return f"broker {new.leader} is back"
        if new.leader == old.leader:
            return self._isr_cause(old, new)
        if new.leader == NO_LEADER:
            return "no replica of the ISR is alive"
        if new.replicas != old.replicas:
            return "reassignment"
        if old.leader in old.isr and old.leader not in new.isr:
            return f"broker {old.leader} cannot write: its log directory is full, or has failed"
        if new.leader == new.replicas[0]:
            return "election of the preferred leader"
        return "election"

    def _isr_cause(self, old: Partition, new: Partition) -> str:
        removed, added = set(old.isr) - set(new.isr), set(new.isr) - set(old.isr)
        causes = [
            self._absence(broker_id) or f"broker {broker_id} has fallen behind"
            for broker_id in sorted(removed)
        ]
        causes += [f"broker {broker_id} has caught up" for broker_id in sorted(added)]
        return ", ".join(causes) or "the set of replicas changed"

    def _absence(self, broker_id: int) -> str:
        """Why a broker can no longer lead; empty if it can."""
        if broker_id in self._stopping:
            return f"controlled shutdown of broker {broker_id}"
        if broker_id in self._fenced:
            return f"broker {broker_id} was fenced"
        if broker_id in self._unregistered:
            return f"broker {broker_id} was unregistered"
        if broker_id in self._registered_ids:
            return f"broker {broker_id} has restarted"
        known = self._before.brokers.get(broker_id)
        if self._on_zookeeper and broker_id != NO_LEADER and (known is None or known.fenced):
            return f"the session of broker {broker_id} has ended"
        return ""


def _broker_event(kind: Kind, broker_id: int, cause: str, detail: str = "") -> Event:
    return Event(0, kind, f"broker {broker_id}", detail, cause)


def _broker(broker_id: int) -> str:
    return "none" if broker_id == NO_LEADER else str(broker_id)


# Several nodes ----------------------------------------------------------------------------------------------


def merge(timelines: Iterable[Iterable[Event]]) -> list[Event]:
    """One timeline of several nodes' ones, in the order of the metadata log as far as it is known.

    Clocks of nodes differ, the order of the log does not: events with an epoch are ordered by epoch and
    offset, and the others are put among them by their time.  An event that several nodes have seen is one.
    """
    merged: dict[object, Event] = {}
    for event in (event for timeline in timelines for event in timeline):
        key = _identity(event)
        known = merged.get(key)
        merged[key] = event if known is None else _together(known, event)
    in_log = sorted((event for event in merged.values() if event.epoch is not None), key=_log_position)
    others = [event for event in merged.values() if event.epoch is None]
    placed = [*_never_back(in_log), *((event.time_ms, -1, event) for event in others)]
    placed.sort(key=lambda place: (place[0], place[1], place[2].nodes, place[2].sequence))
    return [event for _, _, event in placed]


def _never_back(in_log: Sequence[Event]) -> Iterator[tuple[int, int, Event]]:
    """Each event with the latest time so far: the clock of another controller may be behind."""
    latest_ms = 0
    for index, event in enumerate(in_log):
        latest_ms = max(latest_ms, event.time_ms)
        yield latest_ms, index, event


def _identity(event: Event) -> object:
    if event.epoch is None or event.kind is Kind.ELECTION_STARTED:
        return event.nodes, event.kind, event.epoch, event.time_ms, event.sequence
    return event.kind, event.epoch, event.offset, event.subject


def _together(known: Event, event: Event) -> Event:
    """Seen by more nodes."""
    nodes = tuple(sorted({*known.nodes, *event.nodes}))
    first = min(known, event, key=lambda report: (not report.is_first_hand, report.time_ms))
    return replace(first, nodes=nodes, time_ms=min(known.time_ms, event.time_ms))


def _log_position(event: Event) -> tuple[int, float, int, int]:
    assert event.epoch is not None
    position = _POSITIONS.get(event.kind, 0) if event.offset is None else event.offset
    return event.epoch, position, event.time_ms, event.sequence
