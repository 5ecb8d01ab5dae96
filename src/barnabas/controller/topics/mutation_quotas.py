"""Quotas of controller mutations (KIP-599): partitions that a client creates or deletes, a second.

A token bucket for each user, client id or pair that a quota tells apart.  It is full at first, refills at the
rate of the quota, and holds as much as `controller.quota.window.num` windows bring.  A request that finds it
at zero or above may take any number of tokens; the debt is waited for.  Soft state: a new controller starts
with full buckets, as in Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.config.settings import Settings
from barnabas.controller.decision import Context
from barnabas.metadata.image import Image, quota_for

MUTATION = "controller_mutation_rate"
# Clients with buckets of their own; beyond that full buckets are forgotten, and then new clients share one.
MAX_BUCKETS = 10_000
_TOO_MANY = "\0too many"
_NS_PER_S = 1_000_000_000
MAX_THROTTLE_MS = 2**31 - 1
# A znode that somebody wrote by hand may say 0.
_LEAST_RATE = 1e-9


@dataclass(slots=True)
class TokenBucket:
    """What a client may still change; below zero it is in debt."""

    tokens: float
    rate: float
    capacity: float
    updated_ns: int

    def refill(self, rate: float, capacity: float, now_ns: int) -> float:
        """Brings the bucket up to date with this quota; returns the tokens."""
        self.rate, self.capacity = rate, capacity
        self.tokens = min(capacity, self.tokens + rate * (now_ns - self.updated_ns) / _NS_PER_S)
        self.updated_ns = now_ns
        return self.tokens

    def is_full_at(self, now_ns: int) -> bool:
        return self.refill(self.rate, self.capacity, now_ns) >= self.capacity


class MutationQuota:
    """The quota of one request.

    A strict one refuses mutations while the bucket is in debt.  A permissive one, for versions of requests
    whose clients do not know THROTTLING_QUOTA_EXCEEDED, lets them pass and only throttles.
    """

    def __init__(self, bucket: TokenBucket, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._is_strict = is_strict
        self.throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Counts mutations; raises THROTTLING_QUOTA_EXCEEDED if they are refused."""
        bucket = self._bucket
        if self._is_strict and bucket.tokens < 0:
            self.throttle_ms = self._wait_ms()
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        bucket.tokens = min(bucket.capacity, bucket.tokens - partitions)
        if not self._is_strict and bucket.tokens < 0:
            self.throttle_ms = self._wait_ms()

    def _wait_ms(self) -> int:
        # A rate close to 0 would take longer than the field of the response can say.
        return min(round(-self._bucket.tokens / max(self._bucket.rate, _LEAST_RATE) * 1000), MAX_THROTTLE_MS)


class NoMutationQuota:
    """For clients without a quota."""

    throttle_ms = 0

    def record(self, partitions: int) -> None:
        """Nothing is counted."""


NO_MUTATION_QUOTA = NoMutationQuota()


class MutationQuotas:
    """The buckets of all clients."""

    def __init__(self, settings: Settings) -> None:
        window_s = int(settings["controller.quota.window.size.seconds"])
        # How many seconds of its quota a client may use at once.
        self._burst_s = int(settings["controller.quota.window.num"]) * window_s
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def of(self, image: Image, context: Context, *, strict_from: int) -> MutationQuota | NoMutationQuota:
        """The quota of a request; it is strict from this version of its API on."""
        user = context.principal.partition(":")[2]
        quota = quota_for(image.quotas, MUTATION, user, context.client_id)
        if quota is None:
            return NO_MUTATION_QUOTA
        bucket = self._bucket(quota.user, quota.client_id, quota.bound, context.now_ns)
        return MutationQuota(bucket, is_strict=context.version >= strict_from)

    def _bucket(self, user: str, client_id: str, rate: float, now_ns: int) -> TokenBucket:
        capacity = rate * self._burst_s
        bucket = self._buckets.get((user, client_id))
        if bucket is None and len(self._buckets) >= MAX_BUCKETS:
            self._buckets = {
                name: each for name, each in self._buckets.items() if not each.is_full_at(now_ns)
            }
            if len(self._buckets) >= MAX_BUCKETS:
                user = client_id = _TOO_MANY
                bucket = self._buckets.get((user, client_id))
        if bucket is None:
            bucket = self._buckets[user, client_id] = TokenBucket(capacity, rate, capacity, now_ns)
        bucket.refill(rate, capacity, now_ns)
        return bucket
