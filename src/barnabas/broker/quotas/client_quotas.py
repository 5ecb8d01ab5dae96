"""How much a client may ask of a broker (KIP-13, KIP-55, KIP-124, KIP-219): whose quota holds, and its use.

What lives here: the questions of dispatch and fetch, the choice among the quotas that are set, and what each
client has used.  What may not: the arithmetic of rates (quota_rates.py), and which quotas exist (controller).

As long as no quota is set, nobody is asked anything: `is_set` is all that the way of a request looks at.  A
client that is over its quota is answered at once, told for how long, and not read from meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple, Protocol

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.quotas.rates import Rate, Window, throttle_ms
from barnabas.config.settings import Settings
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image, QuotaEntity
from barnabas.runtime.clock import Clock

PRODUCE_KEY = 0
PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
NO_LIMIT = 2**31 - 1
# Clients whose use is known; at the limit those that have been quiet are forgotten.
MAX_CLIENTS = 10_000
# All of them are looked through for quiet ones at most so often.
FORGET_EACH_MS = 1_000
# Longer client ids are told apart by their hashes.
LONGEST_CLIENT_ID = 249
_TOO_MANY = "\0too many"
_USER, _CLIENT = "user", "client-id"
_MS = 1_000_000
# A second of the loop's time is 100 percent.
_PERCENT_PER_NS = 100 / 1e9


class Limits(Protocol):
    """What holds for one client."""

    def received(self, api_key: int, request_bytes: int) -> int:
        """Count a request; for how many milliseconds this client is to be silent."""
        ...

    def worked(self, elapsed_ns: int) -> int:
        """Count the time that a request took; as above."""
        ...

    def fetched(self, response_bytes: int) -> int:
        """Count what a fetch would give; if it is too much it is not given, and does not count."""
        ...

    @property
    def max_fetch_bytes(self) -> int:
        """The most that one fetch may give."""
        ...


class Quotas(Protocol):
    """What dispatch and fetch ask."""

    is_set: bool

    def limits_of(self, context: RequestContext) -> Limits | None:
        """What holds for this client; None if nothing does."""
        ...

    def load(self, image: Image) -> None:
        """Begin with the quotas of this image."""
        ...

    def apply(self, delta: Delta) -> None:
        """Quotas have changed."""
        ...


class Meter(NamedTuple):
    """A rate and what it may be."""

    rate: Rate
    bound: float


class ClientLimits:
    """The meters of one client, some of them shared with others of the same user or client id."""

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
        return self._clock.monotonic_ns() // _MS

    def received(self, api_key: int, request_bytes: int) -> int:
        if self._produce is None or api_key != PRODUCE_KEY:
            return 0
        return _use(self._produce, request_bytes, self._now_ms())

    def worked(self, elapsed_ns: int) -> int:
        if self._request is None:
            return 0
        used = elapsed_ns * _PERCENT_PER_NS
        return _use(self._request, used, self._now_ms(), most_ms=self._window.sample_ms)

    def fetched(self, response_bytes: int) -> int:
        if self._fetch is None:
            return 0
        now_ms = self._now_ms()
        wait_ms = _use(self._fetch, response_bytes, now_ms)
        if wait_ms:
            self._fetch.rate.record(-response_bytes, now_ms)
        return wait_ms

    @property
    def max_fetch_bytes(self) -> int:
        if self._fetch is None:
            return NO_LIMIT
        return min(NO_LIMIT, int(self._fetch.bound * self._window.full_seconds))


def _use(meter: Meter, amount: float, now_ms: int, most_ms: int | None = None) -> int:
    meter.rate.record(amount, now_ms)
    return throttle_ms(meter.rate, meter.bound, now_ms, most_ms)


class ClientQuotas:
    """The quotas of the image, and what clients have used of them here."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.is_set = False
        self._clock = clock
        self._window = Window(settings["quota.window.num"], settings["quota.window.size.seconds"] * 1000)
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        # By user and client id, as found; None where nothing holds.
        self._limits: dict[tuple[str, str], ClientLimits | None] = {}
        # By quota, user and client id; an empty name where all share it.
        self._rates: dict[tuple[str, str, str], Rate] = {}
        self._forgot_ms = -FORGET_EACH_MS

    def load(self, image: Image) -> None:
        self._quotas = image.quotas
        self.is_set = any(
            key in values for values in image.quotas.values() for key in (PRODUCE, FETCH, REQUEST)
        )
        self._limits.clear()

    def apply(self, delta: Delta) -> None:
        if delta.quotas:
            self.load(delta.image)

    def limits_of(self, context: RequestContext) -> Limits | None:
        user, client_id = context.principal.partition(":")[2], context.client_id
        if len(client_id) > LONGEST_CLIENT_ID:
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
        """The most special quota that is set counts; who it is set for shares it."""
        for entity, by_user, by_client in _entities(user, client_id):
            bound = self._quotas.get(entity, {}).get(key)
            if bound is not None:
                return Meter(self._rate(key, user if by_user else "", client_id if by_client else ""), bound)
        return None

    def _rate(self, key: str, user: str, client_id: str) -> Rate:
        rate = self._rates.get((key, user, client_id))
        if rate is None:
            if len(self._rates) >= MAX_CLIENTS:
                self._forget_quiet()
            if len(self._rates) >= MAX_CLIENTS:
                # Whoever comes under ever new names shares what is left with others who do.
                user = client_id = _TOO_MANY
                if (key, user, client_id) in self._rates:
                    return self._rates[key, user, client_id]
            rate = self._rates[key, user, client_id] = Rate(self._window)
        return rate

    def _forget_quiet(self) -> None:
        """Who has not come for a whole window has a rate of 0, like a newcomer."""
        now_ms = self._clock.monotonic_ns() // _MS
        if now_ms < self._forgot_ms + FORGET_EACH_MS:
            return
        self._forgot_ms = now_ms
        before_ms = now_ms - self._window.all_ms
        self._rates = {name: rate for name, rate in self._rates.items() if rate.last_ms > before_ms}
        self._limits.clear()


def _digest(client_id: str) -> str:
    """In the place of a long client id, of which thousands would be remembered; no quota is set for one."""
    return "sha256:" + sha256(client_id.encode("utf-8", "replace")).hexdigest()


def _entities(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, bool, bool]]:
    """In the order of KIP-55, with whether users and client ids have a rate each; None is the default."""
    for name in (user, None):
        yield ((_CLIENT, client_id), (_USER, name)), True, True
        yield ((_CLIENT, None), (_USER, name)), True, True
        yield ((_USER, name),), True, False
    yield ((_CLIENT, client_id),), False, True
    yield ((_CLIENT, None),), False, True
