"""Client quotas (KIP-13, KIP-55, KIP-124, KIP-219): which quota applies to a client, and its usage.

The computation of rates belongs in rates.py; the controller itself counts mutations of topics (KIP-599) and
says the throttle time in its response, which is applied here.

Without quotas a request only checks `is_set`.  A client above its quota gets its response at once with the
throttle time, and its connection is muted for that time.
"""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple, Protocol

from barnabas.base.units import NS_PER_MS
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.quotas.rates import Rate, Window, throttle_ms
from barnabas.config.settings import Settings
from barnabas.controller.topics.mutation_quotas import MUTATION
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image, quota_for
from barnabas.metadata.image import Quotas as QuotasByEntity
from barnabas.runtime.clock import Clock

PRODUCE_KEY = 0
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
NO_LIMIT = 2**31 - 1
# Clients with known usage; at the limit idle ones are removed.
MAX_CLIENTS = 10_000
# Minimum time between two searches for idle clients.
IDLE_CHECK_INTERVAL_MS = 1_000
# Longer client ids are replaced by their hashes.
MAX_CLIENT_ID_LENGTH = 249
_TOO_MANY = "\0too many"
# A second of the loop's time is 100 percent.
_PERCENT_PER_NS = 100 / 1e9


class Limits(Protocol):
    """The quotas of one client."""

    def received(self, api_key: int, request_bytes: int) -> int:
        """Counts a request; returns the throttle time in milliseconds."""
        ...

    def worked(self, elapsed_ns: int) -> int:
        """Counts the processing time of a request; returns the throttle time in milliseconds."""
        ...

    def fetched(self, response_bytes: int) -> int:
        """Counts a fetch response; if it exceeds the quota, it is not sent and does not count."""
        ...

    @property
    def max_fetch_bytes(self) -> int:
        """The maximum size of one fetch response."""
        ...


class Quotas(Protocol):
    """The interface that dispatch and fetch use."""

    is_set: bool

    def limits_of(self, context: RequestContext) -> Limits | None:
        """Returns the quotas of this client; None if there are none."""
        ...

    def load(self, image: Image) -> None:
        """Loads the quotas of this image."""
        ...

    def apply(self, delta: Delta) -> None:
        """Applies changed quotas."""
        ...


class Meter(NamedTuple):
    """A rate and its quota."""

    rate: Rate
    bound: float


class ClientLimits:
    """The meters of one client; clients of the same user or client id may share some."""

    __slots__ = ("_clock", "_fetch", "_produce", "_request", "_window")

    def __init__(
        self, clock: Clock, window: Window, produce: Meter | None, fetch: Meter | None, request: Meter | None
    ) -> None:
        self._clock = clock
        self._window = window
        self._produce = produce
        self._fetch = fetch
        self._request = request

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS

    def received(self, api_key: int, request_bytes: int) -> int:
        if self._produce is None or api_key != PRODUCE_KEY:
            return 0
        return _record(self._produce, request_bytes, self._now_ms())

    def worked(self, elapsed_ns: int) -> int:
        if self._request is None:
            return 0
        used = elapsed_ns * _PERCENT_PER_NS
        return _record(self._request, used, self._now_ms(), max_ms=self._window.sample_ms)

    def fetched(self, response_bytes: int) -> int:
        if self._fetch is None:
            return 0
        now_ms = self._now_ms()
        wait_ms = _record(self._fetch, response_bytes, now_ms)
        if wait_ms:
            self._fetch.rate.record(-response_bytes, now_ms)
        return wait_ms

    @property
    def max_fetch_bytes(self) -> int:
        if self._fetch is None:
            return NO_LIMIT
        return min(NO_LIMIT, int(self._fetch.bound * self._window.full_seconds))


def _record(meter: Meter, amount: float, now_ms: int, max_ms: int | None = None) -> int:
    meter.rate.record(amount, now_ms)
    return throttle_ms(meter.rate, meter.bound, now_ms, max_ms)


class ClientQuotas:
    """The quotas of the image, and the usage of clients on this broker."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.is_set = False
        self._clock = clock
        self._window = Window(settings["quota.window.num"], settings["quota.window.size.seconds"] * 1000)
        self._quotas: QuotasByEntity = {}
        # By user and client id; None if no quota applies.
        self._limits: dict[tuple[str, str], ClientLimits | None] = {}
        # By quota, user and client id; a name is empty if all share the rate.
        self._rates: dict[tuple[str, str, str], Rate] = {}
        self._last_idle_check_ms = -IDLE_CHECK_INTERVAL_MS

    def load(self, image: Image) -> None:
        self._quotas = image.quotas
        self.is_set = any(
            key in values for values in image.quotas.values() for key in (PRODUCE, FETCH, REQUEST, MUTATION)
        )
        self._limits.clear()

    def apply(self, delta: Delta) -> None:
        if delta.quotas:
            self.load(delta.image)

    def limits_of(self, context: RequestContext) -> Limits | None:
        user, client_id = context.principal.partition(":")[2], context.client_id
        if len(client_id) > MAX_CLIENT_ID_LENGTH:
            client_id = _digest(client_id)
        try:
            return self._limits[user, client_id]
        except KeyError:
            return self._find_limits(user, client_id)

    def _find_limits(self, user: str, client_id: str) -> Limits | None:
        if len(self._limits) >= MAX_CLIENTS:
            self._limits.clear()
        produce, fetch, request = (self._meter(key, user, client_id) for key in (PRODUCE, FETCH, REQUEST))
        limits = None
        if produce or fetch or request:
            limits = ClientLimits(self._clock, self._window, produce, fetch, request)
        self._limits[user, client_id] = limits
        return limits

    def _meter(self, key: str, user: str, client_id: str) -> Meter | None:
        """Returns the meter of the most specific quota; all clients that it is set for share the rate."""
        quota = quota_for(self._quotas, key, user, client_id)
        return None if quota is None else Meter(self._rate(key, quota.user, quota.client_id), quota.bound)

    def _rate(self, key: str, user: str, client_id: str) -> Rate:
        rate = self._rates.get((key, user, client_id))
        if rate is None:
            if len(self._rates) >= MAX_CLIENTS:
                self._remove_idle()
            if len(self._rates) >= MAX_CLIENTS:
                # Clients with ever new names share one rate.
                user = client_id = _TOO_MANY
                if (key, user, client_id) in self._rates:
                    return self._rates[key, user, client_id]
            rate = self._rates[key, user, client_id] = Rate(self._window)
        return rate

    def _remove_idle(self) -> None:
        """Removes clients that were idle for a whole window: their rate is 0, like a new client's."""
        now_ms = self._clock.monotonic_ns() // NS_PER_MS
        if now_ms < self._last_idle_check_ms + IDLE_CHECK_INTERVAL_MS:
            return
        self._last_idle_check_ms = now_ms
        before_ms = now_ms - self._window.all_ms
        self._rates = {name: rate for name, rate in self._rates.items() if rate.last_ms > before_ms}
        self._limits.clear()


def _digest(client_id: str) -> str:
    """Replaces a long client id, which would waste memory; no quota can be set for one."""
    return "sha256:" + sha256(client_id.encode("utf-8", "replace")).hexdigest()
