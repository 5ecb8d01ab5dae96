"""Rates of new connections (KIP-612): of a broker, of each listener, and of each IP address.

Above the rate of the broker or the listener, the listener accepts a connection late.  Above the rate of its
address, which is a quota of the cluster, a connection is not served, and closed after its throttle time: so
its client cannot try again at once.  No throttle time is longer than one window, `quota.window.size.seconds`.

The listener between brokers does not count for the broker's rate, unless it is the only one, nor do those of
controllers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.broker.quotas.rates import Rate, Window, throttle_ms
from barnabas.config.settings import Settings
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image

CONNECTION_RATE = "connection_creation_rate"
_MAX_RATE = "max.connection.creation.rate"
NO_LIMIT = 2**31 - 1
# Addresses with rates of their own.  Beyond that idle ones are forgotten, and then new ones are not counted:
# who has so many addresses gains nothing by it, and the broker's own rate still holds.
MAX_ADDRESSES = 10_000
# In the place of a rate of 0, which throttles each connection for a whole window.
_LEAST_BOUND = 1e-9
_IP, _LOCALHOST = "ip", "localhost"


class Arrival(NamedTuple):
    """What becomes of a new connection: it is served after a delay, or turned away and closed after one."""

    delay_ms: int = 0
    turned_away_ms: int = 0


SERVED_AT_ONCE = Arrival()


class ConnectionRates:
    """The rates of one broker's connections, and their limits."""

    def __init__(self, settings: Settings, listeners: Iterable[str], exempt: Iterable[str]) -> None:
        """`exempt` listeners do not count for the rate of the broker."""
        self._window = Window(settings["quota.window.num"], settings["quota.window.size.seconds"] * 1000)
        self._rate = Rate(self._window)
        self._rate_of = {name: Rate(self._window) for name in listeners}
        self._exempt = frozenset(exempt)
        self._rate_of_address: dict[str, Rate] = {}
        self._bound_of_address: dict[str, float] = {}
        self._default_bound: float | None = None
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Applies these limits; they may change while the broker runs."""
        self._bound: int = settings[_MAX_RATE]
        self._bound_of: Mapping[str, int] = {
            name: int(settings.get(f"listener.name.{name.lower()}.{_MAX_RATE}", self._bound))
            for name in self._rate_of
        }

    def load(self, image: Image) -> None:
        """Loads the quotas of addresses."""
        self._default_bound = None
        self._bound_of_address = {}
        for entity, values in image.quotas.items():
            bound = values.get(CONNECTION_RATE)
            if bound is None or [kind for kind, _ in entity] != [_IP]:
                continue
            ((_, name),) = entity
            if name is None:
                self._default_bound = bound
            else:
                self._bound_of_address[_address(name)] = bound

    def apply(self, delta: Delta) -> None:
        """Applies changed quotas."""
        if delta.quotas:
            self.load(delta.image)

    def arrived(self, listener: str, host: str, now_ms: int) -> Arrival:
        """Counts a connection; one that is turned away counts for nothing."""
        turned_away_ms = self._turned_away_ms(host, now_ms)
        if turned_away_ms:
            return Arrival(turned_away_ms=turned_away_ms)
        delay_ms = self._throttle_ms(self._rate_of[listener], self._bound_of[listener], now_ms)
        if listener not in self._exempt:
            delay_ms = max(delay_ms, self._throttle_ms(self._rate, self._bound, now_ms))
        return Arrival(delay_ms) if delay_ms else SERVED_AT_ONCE

    def _turned_away_ms(self, host: str, now_ms: int) -> int:
        if self._default_bound is None and not self._bound_of_address:
            return 0
        host = _address(host)
        bound = self._bound_of_address.get(host, self._default_bound)
        if bound is None:
            return 0
        rate = self._rate_of_address.get(host) or self._new_rate(host, now_ms)
        wait_ms = self._throttle_ms(rate, bound, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _throttle_ms(self, rate: Rate, bound: float, now_ms: int) -> int:
        if bound >= NO_LIMIT:
            return 0
        rate.record(1, now_ms)
        return throttle_ms(rate, max(bound, _LEAST_BOUND), now_ms, self._window.sample_ms)

    def _new_rate(self, host: str, now_ms: int) -> Rate:
        rates = self._rate_of_address
        if len(rates) >= MAX_ADDRESSES:
            idle_since_ms = now_ms - self._window.all_ms
            self._rate_of_address = rates = {
                name: rate for name, rate in rates.items() if rate.last_ms > idle_since_ms
            }
        rate = Rate(self._window)
        if len(rates) < MAX_ADDRESSES:
            rates[host] = rate
        return rate


def _address(text: str) -> str:
    """One form for each address: IPv6 has several, and an IPv4 address may be written in it."""
    if text == _LOCALHOST:
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)
