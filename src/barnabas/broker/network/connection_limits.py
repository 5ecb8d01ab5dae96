"""Connection limits of a broker: in total, per listener, and per IP address.

At `max.connections` new connections wait in the listen queue until another one is closed; the inter-broker
listener is exempt unless it is the only one (KIP-402).  Above `max.connections.per.ip` a new connection is
closed.  How fast connections may come belongs in `quotas.connection_rates`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from barnabas.broker.quotas.connection_rates import ConnectionRates
from barnabas.config.node.listeners import Listeners, split_map
from barnabas.config.settings import Settings

_MAX = "max.connections"
_MAX_PER_IP = "max.connections.per.ip"


class ConnectionLimits:
    """The connection counts of one broker, and their limits."""

    def __init__(self, settings: Settings, listeners: Listeners) -> None:
        self.by_listener: dict[str, int] = {end.listener_name: 0 for end in listeners.listeners}
        self._by_host: defaultdict[str, int] = defaultdict(int)
        self._protected = listeners.inter_broker_name if len(self.by_listener) > 1 else None
        exempt = (
            listeners.controller_names
            if self._protected is None
            else (*listeners.controller_names, self._protected)
        )
        self.rates = ConnectionRates(settings, self.by_listener, exempt)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies these limits; they may change while the broker runs."""
        self._max: int = settings[_MAX]
        self._max_per_ip: int = settings[_MAX_PER_IP]
        self.rates.configure(settings)
        self._overrides: Mapping[str, int] = {
            host: int(limit)
            for host, limit in split_map(_MAX_PER_IP, settings[f"{_MAX_PER_IP}.overrides"]).items()
        }
        self._max_of: dict[str, int] = {
            name: int(settings.get(f"listener.name.{name.lower()}.{_MAX}", self._max))
            for name in self.by_listener
        }

    @property
    def total(self) -> int:
        return sum(self.by_listener.values())

    def has_room(self, listener: str) -> bool:
        """Whether this listener may accept another connection."""
        if self.by_listener[listener] >= self._max_of[listener]:
            return False
        return listener == self._protected or self.total < self._max

    def is_welcome(self, host: str) -> bool:
        """Whether another connection from this address is allowed."""
        return self._by_host[host] < self._overrides.get(host, self._max_per_ip)

    def opened(self, listener: str, host: str) -> None:
        self.by_listener[listener] += 1
        self._by_host[host] += 1

    def closed(self, listener: str, host: str) -> None:
        self.by_listener[listener] -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
