"""Which brokers accept data that is ready for them (KIP-794, `partitioner.availability.timeout.ms`)."""

from __future__ import annotations

from barnabas.config.settings import Settings


class BrokerAvailability:
    """Per broker: when data was last ready for it, and when it could last be sent."""

    def __init__(self, settings: Settings) -> None:
        adaptive = settings["partitioner.adaptive.partitioning.enable"]
        self._timeout_s: float = settings["partitioner.availability.timeout.ms"] / 1000 if adaptive else 0.0
        self._ready_at: dict[int, float] = {}
        self._sendable_at: dict[int, float] = {}

    def note(self, node_id: int, now: float, *, can_send: bool) -> None:
        """Record that data is ready for a broker, and whether it can be sent now."""
        if not self._timeout_s:
            return
        # A broker that was not seen before has not failed yet.
        if can_send or node_id not in self._sendable_at:
            self._sendable_at[node_id] = now
        self._ready_at[node_id] = now

    def is_available(self, node_id: int) -> bool:
        """Return False for a broker that accepted nothing for longer than the time-out while data was
        ready."""
        ready_at = self._ready_at.get(node_id)
        return ready_at is None or ready_at - self._sendable_at[node_id] <= self._timeout_s
