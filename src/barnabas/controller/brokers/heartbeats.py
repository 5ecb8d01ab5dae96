"""Soft state: when each broker was last heard of, and what it is about to do.

What lives here: leases and the next state of a broker, as its heartbeat asks for it (KIP-631).  What may not:
anything durable.  On a new leader every unfenced broker gets a whole session anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from barnabas.metadata.cluster import Broker

NOT_SHUTTING_DOWN = -1
NEVER = 2**63 - 1


class BrokerState(Enum):
    """A broker as the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)


@dataclass(slots=True)
class _Lease:
    """What is known of one registration."""

    epoch: int
    fenced: bool
    contact_ns: int | None = None
    metadata_offset: int = -1
    controlled_shutdown_offset: int = NOT_SHUTTING_DOWN

    @property
    def shutting_down(self) -> bool:
        return self.controlled_shutdown_offset != NOT_SHUTTING_DOWN


class Heartbeats:
    """The leases by broker id."""

    def __init__(self, session_timeout_ns: int) -> None:
        self.session_timeout_ns = session_timeout_ns
        self._leases: dict[int, _Lease] = {}

    def activate(self, brokers: Iterable[Broker], now_ns: int, *, ended: int | None = None) -> None:
        """This node leads now: leases begin anew.  `ended` is a broker whose process is known to be over."""
        self._leases.clear()
        for broker in sorted(brokers, key=lambda broker: broker.id):
            lease = self._leases[broker.id] = _Lease(broker.epoch, broker.fenced)
            if not broker.fenced:
                lease.contact_ns = now_ns
                if broker.id == ended:
                    lease.contact_ns = now_ns - self.session_timeout_ns - 1

    def deactivate(self) -> None:
        self._leases.clear()

    def registered(self, broker: Broker) -> None:
        """A record has registered or changed a broker."""
        lease = self._leases.get(broker.id)
        if lease is None or lease.epoch != broker.epoch:
            self._leases[broker.id] = _Lease(broker.epoch, broker.fenced)
        elif lease.fenced != broker.fenced:
            lease.fenced = broker.fenced
            if broker.fenced:
                lease.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def removed(self, broker_id: int) -> None:
        self._leases.pop(broker_id, None)

    def heard_of(self, broker_id: int, broker_epoch: int, now_ns: int) -> None:
        """A heartbeat has come, whatever becomes of it."""
        lease = self._leases.get(broker_id)
        if lease is not None and lease.epoch == broker_epoch:
            lease.contact_ns = now_ns

    def has_session(self, broker_id: int, broker_epoch: int, now_ns: int) -> bool:
        """Whether that registration may still be in use.  One that is fenced serves nobody."""
        lease = self._leases.get(broker_id)
        return (
            lease is not None
            and lease.epoch == broker_epoch
            and not lease.fenced
            and lease.contact_ns is not None
            and not self._is_over(lease.contact_ns, now_ns)
        )

    def expired(self, now_ns: int) -> Iterator[int]:
        """Brokers whose session is over and that are not fenced yet; each is named until it is."""
        for broker_id, lease in self._leases.items():
            if not lease.fenced and lease.contact_ns is not None and self._is_over(lease.contact_ns, now_ns):
                yield broker_id

    def _is_over(self, contact_ns: int, now_ns: int) -> bool:
        return contact_ns + self.session_timeout_ns < now_ns

    def touch(self, broker_id: int, *, fenced: bool, metadata_offset: int) -> None:
        """What a heartbeat led to."""
        lease = self._leases[broker_id]
        lease.fenced = fenced
        lease.metadata_offset = metadata_offset
        if fenced:
            lease.controlled_shutdown_offset = NOT_SHUTTING_DOWN

    def start_shutdown(self, broker_id: int, offset: int) -> None:
        """Its leaders move away with the record at this offset, unless it had begun before."""
        lease = self._leases[broker_id]
        if not lease.shutting_down:
            lease.controlled_shutdown_offset = offset

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
        leads: bool,
    ) -> tuple[BrokerState, BrokerState]:
        """The state a broker is in, and the one that its heartbeat leads to."""
        lease = self._leases[broker_id]
        if lease.shutting_down:
            current = BrokerState.CONTROLLED_SHUTDOWN
            done = not leads and lease.controlled_shutdown_offset <= self._lowest_active_offset()
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
            return current, BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        return current, current

    def _lowest_active_offset(self) -> int:
        """How far all brokers that stay have read: from there on nobody asks the leaving one any more."""
        active = (lease for lease in self._leases.values() if not lease.fenced and not lease.shutting_down)
        return min((lease.metadata_offset for lease in active), default=NEVER)
