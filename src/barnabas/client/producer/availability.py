"""Which brokers take what is ready for them (KIP-794, `partitioner.availability.timeout.ms`).

What lives here: for how long data has waited for a broker that could not be sent to.  What may not: why it
could not (sender), and which partition is chosen instead (partitioners).
"""

from __future__ import annotations

from barnabas.config.settings import Settings


class BrokerAvailability:
    """Two moments for each broker: when data was last ready for it, and when it could last be sent."""

    def __init__(self, settings: Settings) -> None:
        adaptive = settings["partitioner.adaptive.partitioning.enable"]
        self._timeout_s: float = settings["partitioner.availability.timeout.ms"] / 1000 if adaptive else 0.0
        self._ready_at: dict[int, float] = {}
        self._sendable_at: dict[int, float] = {}

    def note(self, node_id: int, now: float, *, can_send: bool) -> None:
        """Data is ready for a broker; it can be sent now, or not."""
        if not self._timeout_s:
            return
        # A broker that is met for the first time has not failed yet.
        if can_send or node_id not in self._sendable_at:
            self._sendable_at[node_id] = now
        self._ready_at[node_id] = now

    def is_available(self, node_id: int) -> bool:
        """False for a broker that has taken nothing for longer than the time-out although data was ready."""
        ready_at = self._ready_at.get(node_id)
        return ready_at is None or ready_at - self._sendable_at[node_id] <= self._timeout_s
