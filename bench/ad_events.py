"""The Yahoo streaming benchmark's events, and how many of them belong to which campaign and window.

Ads are shown, clicked and bought; a query keeps the views, looks up the campaign of each ad in a table that
does not change, and counts by campaign in windows of ten seconds.  There are a hundred campaigns of ten ads
and three kinds of events, as in the original (github.com/yahoo/streaming-benchmarks).  As a program it sends
events at a pace:

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
# A pace is kept by as many sends a second.
TICKS_A_SECOND = 50
# Further behind, it is the generator that would be measured.
MOST_BEHIND_S = 5.0


@dataclass(frozen=True, slots=True)
class Ads:
    """Names of ads, users and pages, the same every time."""

    campaigns: dict[str, str]
    users: tuple[str, ...]


def ads() -> Ads:
    chance = random.Random(SEED)
    campaigns = {
        _name(chance): campaign
        for campaign in [_name(chance) for _ in range(CAMPAIGNS)]
        for _ in range(ADS_A_CAMPAIGN)
    }
    return Ads(campaigns, tuple(_name(chance) for _ in range(USERS)))


def _name(chance: random.Random) -> str:
    """Looks as the original's, which are UUIDs."""
    digits = f"{chance.getrandbits(128):032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Generator:
    """Events one after the other, and a count of those that a right query counts."""

    def __init__(self, seed: int = SEED) -> None:
        known = ads()
        self._ads = list(known.campaigns)
        self._users = known.users
        self._chance = random.Random(seed)
        self.counted = 0

    def event(self, time_ms: int) -> Record:
        draw = self._chance.random
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
        """So many, evenly over this time."""
        for number in range(count):
            yield self.event(end_ms - span_ms + number * span_ms // count)


@dataclass(frozen=True, slots=True)
class Update:
    """A count as it stood at some time, and the last event in it."""

    campaign: str
    window_ms: int
    count: int
    last_event_ms: int

    @classmethod
    def read(cls, value: bytes) -> Update:
        campaign, window_ms, count, last_event_ms = value.decode().split(",")
        return cls(campaign, int(window_ms), int(count), int(last_event_ms))


def final_total(updates: list[Update]) -> int:
    """Of all windows, at the highest count that each had: counts only grow."""
    final: dict[tuple[str, int], int] = {}
    for one in updates:
        place = one.campaign, one.window_ms
        final[place] = max(final.get(place, 0), one.count)
    return sum(final.values())


def percentile(values: list[float], share: float) -> float:
    """The nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def send_paced(address: tuple[str, int], topic: str, rate: int, seconds: float) -> tuple[int, int]:
    """Events of now, tick by tick; how many, and how many of them count."""
    generator = Generator(now_ms())
    sent = 0
    with RawConnection(address) as connection:
        began = time.monotonic()
        for tick in range(int(seconds * TICKS_A_SECOND)):
            wait = began + tick / TICKS_A_SECOND - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            assert wait > -MOST_BEHIND_S, f"{rate} events a second are too many"
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
