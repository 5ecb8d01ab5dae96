"""Soft state of the controller: broker leases, and the state transition each heartbeat requests (KIP-631).

Durable state belongs in the image.  After a controller failover every unfenced broker gets a full session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from barnabas.metadata.cluster import Broker

NOT_SHUTTING_DOWN = -1
UNKNOWN_OFFSET = -1
NEVER = 2**63 - 1


class BrokerState(Enum):
    """The controller's view of a broker's state."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


@dataclass(slots=True)
class _Lease:
    """The soft state of one registration."""

    epoch: int
    fenced: bool
    contact_ns: int | None = None
    metadata_offset: int = UNKNOWN_OFFSET
    controlled_shutdown_offset: int = NOT_SHUTTING_DOWN
    # Whether it still led partitions at its last heartbeat of a controlled shutdown.
    led_partitions: bool = False

    @property
    def shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != NOT_SHUTTING_DOWN


class Heartbeats:
    """The leases by broker id."""

    def __init__(self, session_timeout_ns: int) -> None:
        self.session_timeout_ns = session_timeout_ns
        self._leases: dict[int, _Lease] = {}

    def activate(self, brokers: Iterable[Broker], now_ns: int, *, stopped_broker: int | None = None) -> None:
        """Start new leases on activation.  The process of `stopped_broker` is known to have ended."""
        self._leases.clear()
        for broker in sorted(brokers, key=lambda broker: broker.id):
            lease = self._leases[broker.id] = _Lease(broker.epoch, broker.fenced)
            if not broker.fenced:
                lease.contact_ns = now_ns
                if broker.id == stopped_broker:
                    self.expire(broker.id, now_ns)

    def deactivate(self) -> None:
        self._leases.clear()

    def registered(self, broker: Broker) -> None:
        """Called when a broker has registered: for the first time, or the same process again."""
        lease = self._leases.get(broker.id)
        if lease is None or lease.epoch != broker.epoch:
            self._leases[broker.id] = _Lease(broker.epoch, broker.fenced)
        else:
            lease.metadata_offset = UNKNOWN_OFFSET
            self.changed(broker)

    def changed(self, broker: Broker) -> None:
        """Called when a record has changed a registration."""
        lease = self._leases.get(broker.id)
        if lease is not None and lease.fenced != broker.fenced:
            lease.fenced = broker.fenced
            if broker.fenced:
                lease.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def removed(self, broker_id: int) -> None:
        self._leases.pop(broker_id, None)

    def record_contact(self, broker_id: int, broker_epoch: int, now_ns: int) -> None:
        """Called for every heartbeat, even if it is rejected later."""
        lease = self._leases.get(broker_id)
        if lease is not None and lease.epoch == broker_epoch:
            lease.contact_ns = now_ns

    def silence_ns(self, broker_id: int, now_ns: int) -> int | None:
        """How long ago a broker's last heartbeat was; None if it has sent none to this controller."""
        lease = self._leases.get(broker_id)
        return None if lease is None or lease.contact_ns is None else now_ns - lease.contact_ns

    def has_session(self, broker_id: int, broker_epoch: int, now_ns: int) -> bool:
        """Whether the registration is still in use, by a fenced broker too: it may be starting."""
        lease = self._leases.get(broker_id)
        return (
            lease is not None
            and lease.epoch == broker_epoch
            and lease.contact_ns is not None
            and not self._is_expired(lease.contact_ns, now_ns)
        )

    def expired(self, now_ns: int) -> Iterator[int]:
        """Brokers with an expired session that are not fenced yet; each is returned until it is fenced."""
        for broker_id, lease in self._leases.items():
            if (
                not lease.fenced
                and lease.contact_ns is not None
                and self._is_expired(lease.contact_ns, now_ns)
            ):
                yield broker_id

    def _is_expired(self, contact_ns: int, now_ns: int) -> bool:
        return contact_ns + self.session_timeout_ns < now_ns

    def expire(self, broker_id: int, now_ns: int) -> None:
        """The process is known to have ended: its session has expired."""
        lease = self._leases.get(broker_id)
        if lease is not None and lease.contact_ns is not None:
            lease.contact_ns = now_ns - self.session_timeout_ns - 1

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int) -> None:
        """Called when a heartbeat was accepted."""
        lease = self._leases[broker_id]
        lease.fenced = fenced
        lease.metadata_offset = metadata_offset
        if fenced:
            lease.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def end_session(self, broker_id: int) -> None:
        """Called when a broker may shut down: its next process need not wait for the session to expire.

        Apache Kafka lets it wait.
        """
        self._leases[broker_id].contact_ns = None

    def start_shutdown(self, broker_id: int, offset: int, *, leads: bool = False) -> None:
        """Start or continue a controlled shutdown: leaders have moved with the records up to this offset.

        It stays the same once the broker leads nothing any more, or a busy log would prevent the shutdown.
        """
        lease = self._leases[broker_id]
        if not lease.shutting_down or lease.led_partitions:
            lease.controlled_shutdown_offset = offset
        lease.led_partitions = leads

    def is_shutting_down(self, broker_id: int) -> bool:
        lease = self._leases.get(broker_id)
        return lease is not None and lease.shutting_down

    def next_state(
        self,
        broker_id: int,
        *,
        want_fence: bool,
        want_shut_down: bool,
        caught_up: bool,
        leads: Callable[[], bool],
    ) -> tuple[BrokerState, BrokerState]:
        """Returns the current state of a broker and the state that its heartbeat leads to."""
        lease = self._leases[broker_id]
        if lease.shutting_down:
            current = BrokerState.CONTROLLED_SHUTDOWN
            has_moved = not leads() and not lease.led_partitions
            done = has_moved and lease.controlled_shutdown_offset <= self._lowest_active_offset()
            return current, BrokerState.SHUTDOWN_NOW if done else current
        if lease.fenced:
            current = BrokerState.FENCED
            if want_shut_down:
                return current, BrokerState.SHUTDOWN_NOW
            return current, current if want_fence or not caught_up else BrokerState.UNFENCED
        current = BrokerState.UNFENCED
        if want_fence:
            return current, BrokerState.SHUTDOWN_NOW if want_shut_down else BrokerState.FENCED
        if want_shut_down:
            return current, BrokerState.CONTROLLED_SHUTDOWN if leads() else BrokerState.SHUTDOWN_NOW
        return current, current

    def _lowest_active_offset(self) -> int:
        """The offset that all remaining brokers have reached: they no longer use the one shutting down."""
        active = (lease for lease in self._leases.values() if not lease.fenced and not lease.shutting_down)
        return min((lease.metadata_offset for lease in active), default=NEVER)
