"""The events of the Yahoo streaming benchmark, and their counts by campaign and window.

Ads are shown, clicked and bought; a query keeps the views, looks up the campaign of each ad in a table that
does not change, and counts by campaign in windows of ten seconds.  There are a hundred campaigns of ten ads
and three kinds of events, as in the original (github.com/yahoo/streaming-benchmarks).  As a program it
sends events at a fixed rate:

    python -m bench.ad_events HOST PORT TOPIC EVENTS_A_SECOND SECONDS
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from barnabas.batch.records import Record
from bench.spark import PARTITIONS, now_ms, send
from tools.raw_broker import RawConnection

CAMPAIGNS = 100
ADS_A_CAMPAIGN = 10
EVENT_TYPES = ("view", "click", "purchase")
COUNTED = EVENT_TYPES[0]
AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")
USERS = 1_000
WINDOW_MS = 10_000
SEED = 7
# Sends per second to keep the rate.
TICKS_A_SECOND = 50
# If it lags further behind, the generator itself would be measured.
MAX_BEHIND_S = 5.0


@dataclass(frozen=True, slots=True)
class Ads:
    """Names of ads, users and pages, always the same."""

    campaigns: dict[str, str]
    users: tuple[str, ...]


def ads() -> Ads:
    rng = random.Random(SEED)
    campaigns = {
        _name(rng): campaign
        for campaign in [_name(rng) for _ in range(CAMPAIGNS)]
        for _ in range(ADS_A_CAMPAIGN)
    }
    return Ads(campaigns, tuple(_name(rng) for _ in range(USERS)))


def _name(rng: random.Random) -> str:
    """UUIDs, as in the original."""
    digits = f"{rng.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Generator:
    """Generates events, and counts those that a correct query counts."""

    def __init__(self, seed: int = SEED) -> None:
        known = ads()
        self._ads = list(known.campaigns)
        self._users = known.users
        self._rng = random.Random(seed)
        self.counted = 0

    def event(self, time_ms: int) -> Record:
        draw = self._rng.random
        kind = EVENT_TYPES[int(draw() * len(EVENT_TYPES))]
        ad = self._ads[int(draw() * len(self._ads))]
        user = self._users[int(draw() * USERS)]
        page = self._users[int(draw() * USERS)]
        ad_type = AD_TYPES[int(draw() * len(AD_TYPES))]
        self.counted += kind == COUNTED
        value = (
            f'{{"user_id":"{user}","page_id":"{page}","ad_id":"{ad}","ad_type":"{ad_type}",'
            f'"event_type":"{kind}","event_time":"{time_ms}","ip_address":"1.2.3.4"}}'
        )
        return Record(0, time_ms, None, value.encode())

    def spread(self, count: int, end_ms: int, span_ms: int) -> Iterator[Record]:
        """`count` events, evenly over this time."""
        for number in range(count):
            yield self.event(end_ms - span_ms + number * span_ms // count)


@dataclass(frozen=True, slots=True)
class Update:
    """A count at some time, and the last event in it."""

    campaign: str
    window_ms: int
    count: int
    last_event_ms: int

    @classmethod
    def read(cls, value: bytes) -> Update:
        campaign, window_ms, count, last_event_ms = value.decode().split(",")
        return cls(campaign, int(window_ms), int(count), int(last_event_ms))


def final_total(updates: list[Update]) -> int:
    """The sum of the highest count of each window: counts only grow."""
    final: dict[tuple[str, int], int] = {}
    for update in updates:
        window = update.campaign, update.window_ms
        final[window] = max(final.get(window, 0), update.count)
    return sum(final.values())


def percentile(values: list[float], share: float) -> float:
    """By nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def send_paced(address: tuple[str, int], topic: str, rate: int, seconds: float) -> tuple[int, int]:
    """Sends events with the current time at a fixed rate; returns how many, and how many of them count."""
    generator = Generator(now_ms())
    sent = 0
    with RawConnection(address) as connection:
        began = time.monotonic()
        for tick in range(int(seconds * TICKS_A_SECOND)):
            wait = began + tick / TICKS_A_SECOND - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            assert wait > -MAX_BEHIND_S, f"{rate} events a second are too many"
            due = rate * (tick + 1) // TICKS_A_SECOND - sent
            events = [generator.event(now_ms()) for _ in range(due)]
            shares = {index: events[index::PARTITIONS] for index in range(PARTITIONS)}
            send(connection, topic, {index: share for index, share in shares.items() if share})
            sent += due
    return sent, generator.counted


def main() -> int:
    host, port, topic, rate, seconds = sys.argv[1:]
    sent, counted = send_paced((host, int(port)), topic, int(rate), float(seconds))
    print(json.dumps({"sent": sent, "counted": counted}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
