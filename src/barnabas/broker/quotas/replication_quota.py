"""The quota of throttled replicas, on the side of the leader or of the follower (KIP-73).

Contains which replicas are throttled, and whether the rate is exceeded.  A replica in sync is never held
back: a throttle must not make it leave the ISR.
"""

from __future__ import annotations

from collections import deque

from barnabas.base.units import NS_PER_MS
from barnabas.broker.quotas.rates import Window
from barnabas.config.settings import Settings
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.runtime.clock import Clock

UNLIMITED = 2**63 - 1
EVERY_REPLICA = "*"


class ReplicationQuota:
    """One side of a broker; `side` is `leader` or `follower`, as in the names of the options."""

    def __init__(self, side: str, broker_id: int, window: Window, clock: Clock) -> None:
        self._rate_name = f"{side}.replication.throttled.rate"
        self._replicas_name = f"{side}.replication.throttled.replicas"
        self._broker_id = broker_id
        self._window = window
        self._clock = clock
        self._image = EMPTY_IMAGE
        self._rate = UNLIMITED
        # Topic -> its throttled partitions here; None for all.
        self._topics: dict[str, frozenset[int] | None] = {}
        # Start and bytes of each sample, oldest first.
        self._samples: deque[list[int]] = deque()

    @property
    def is_set(self) -> bool:
        return self._rate != UNLIMITED

    def configure(self, image: Image) -> None:
        """The configs of the cluster have changed."""
        self._image = image
        self._topics.clear()
        for name in (str(self._broker_id), ""):
            value = image.configs_of(ConfigResource.BROKER, name).get(self._rate_name)
            if value is not None:
                self._rate = int(value)
                return
        self._rate = UNLIMITED

    def is_throttled(self, topic: str, index: int) -> bool:
        """Whether this broker's replica is in the topic's list of throttled ones."""
        if topic not in self._topics:
            value = self._image.configs_of(ConfigResource.TOPIC, topic).get(self._replicas_name) or ""
            self._topics[topic] = self._parsed(value)
        throttled = self._topics[topic]
        return throttled is None or index in throttled

    def _parsed(self, value: str) -> frozenset[int] | None:
        if value.strip() == EVERY_REPLICA:
            return None
        pairs = (pair.strip().split(":") for pair in value.split(",") if pair.strip())
        return frozenset(int(index) for index, broker_id in pairs if int(broker_id) == self._broker_id)

    def record(self, size: int) -> None:
        """Bytes of throttled replicas were sent or received."""
        now_ms = self._now_ms()
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window.sample_ms:
            samples.append([now_ms, 0])
        samples[-1][1] += size

    def throttle_ms(self) -> int:
        """The time until the rate falls to the quota, at most one sample; 0 if it is not exceeded."""
        if self._rate == UNLIMITED:
            return 0
        now_ms = self._now_ms()
        samples = self._samples
        while samples and now_ms - samples[0][0] >= self._window.all_ms:
            samples.popleft()
        if not samples:
            return 0
        total = sum(size for _, size in samples)
        # The first sample counts as a whole, as in Apache Kafka: a rate of its beginning would be too high.
        covered_ms = max(now_ms - samples[0][0], self._window.sample_ms)
        if total * 1000 <= self._rate * covered_ms:
            return 0
        needed_ms = self._window.sample_ms if not self._rate else total * 1000 // self._rate - covered_ms
        return max(1, min(needed_ms, self._window.sample_ms))

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // NS_PER_MS


def replication_quotas(
    broker_id: int, settings: Settings, clock: Clock
) -> tuple[ReplicationQuota, ReplicationQuota]:
    """The quotas of a broker as leader and as follower."""
    window = Window(
        settings["replication.quota.window.num"], settings["replication.quota.window.size.seconds"] * 1000
    )
    return (
        ReplicationQuota("leader", broker_id, window, clock),
        ReplicationQuota("follower", broker_id, window, clock),
    )
