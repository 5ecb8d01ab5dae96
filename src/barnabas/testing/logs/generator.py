"""Generated logs of imaginary services: seeded, in several formats, with realistic faults.

Every event has a time, a service, an id and a level.  Requests have a trace id; some end in an error, which
another line reports a moment later with the same trace id.  Some lines are bad (truncated, garbled, empty),
some are duplicated, some are late, and some are too late for any watermark.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.testing.logs.formats import FORMATS, Event, Format

SERVICES = (
    "checkout", "search", "login", "images", "cart", "payments",
    "profile", "mail", "stock", "prices", "reviews", "shipping",
)  # fmt: skip
OWNERS = {service: f"team-{'abcd'[number % 4]}" for number, service in enumerate(SERVICES)}
PATHS = ("/", "/items", "/items/42", "/basket", "/orders", "/account", "/health")
PROBLEMS = ("upstream timed out", "connection refused", "deadlock found", "out of memory", "no such user")
# Older than any watermark.
HOPELESS_MS = 6 * 3600 * 1000


@dataclass(frozen=True)
class Shares:
    """The shares of faulty lines; the others are correct."""

    bad: float = 0.01
    twice: float = 0.02
    late: float = 0.03
    hopeless: float = 0.002
    requests: float = 0.6
    failing: float = 0.02
    # Within a burst of trouble.
    failing_in_trouble: float = 0.5


class Line(NamedTuple):
    """One line, and the service whose file it goes to."""

    service: str
    text: bytes


@dataclass
class Truth:
    """The truth about all lines so far: what a pipeline must find out."""

    lines: int = 0
    bad: list[bytes] = field(default_factory=list)
    twice: int = 0
    late: int = 0
    hopeless: int = 0
    # All events except the hopelessly late ones, each once.
    events: list[Event] = field(default_factory=list)
    newest_ms: int = 0


class Generator:
    """Lines in the order in which services write them.

    Generates `per_second` lines per second of event time; services have their own bursts of trouble, in which
    many requests fail.
    """

    def __init__(
        self,
        seed: int,
        *,
        start_ms: int,
        per_second: float = 100.0,
        services: tuple[str, ...] = SERVICES,
        shares: Shares | None = None,
        late_ms: int = 20_000,
        settled_lines: int = 0,
        tag: str = "",
    ) -> None:
        """`late_ms`: the maximum delay of late lines.  `settled_lines`: no hopelessly late line comes before
        this many others, as a pipeline needs a watermark to recognize it.  `tag`: part of every id, so that
        runs differ."""
        self.truth = Truth()
        self._random = random.Random(seed)
        self._services = services
        self._shares = shares or Shares()
        self._late_ms = late_ms
        self._settled_lines = settled_lines
        self._step_ms = 1000.0 / per_second
        self._now_ms = float(start_ms)
        self._start_ms = start_ms
        self._number = 0
        self._tag = tag
        # Delayed lines: (time of arrival, tie breaker, line).
        self._waiting: list[tuple[float, int, Line]] = []
        self._trouble_until_ms = dict.fromkeys(services, 0.0)

    @property
    def now_ms(self) -> int:
        """The current event time."""
        return int(self._now_ms)

    def lines(self, count: int) -> Iterator[Line]:
        """Generate `count` more lines."""
        for _ in range(count):
            self.truth.lines += 1
            yield self._next()

    def rest(self) -> Iterator[Line]:
        """Yield the delayed lines: late lines, errors of requests, duplicates."""
        while self._waiting:
            self.truth.lines += 1
            yield heapq.heappop(self._waiting)[2]

    def _next(self) -> Line:
        if self._waiting and self._waiting[0][0] <= self._now_ms:
            return heapq.heappop(self._waiting)[2]
        draw, shares = self._random, self._shares
        self._now_ms += self._step_ms * draw.uniform(0.0, 2.0)
        service = draw.choice(self._services)
        if draw.random() < shares.bad:
            return self._bad(service)
        if draw.random() < shares.hopeless and self.truth.lines > self._settled_lines:
            self.truth.hopeless += 1
            return self._line(self._event(service, self._start_ms - HOPELESS_MS, "INFO", "note"))
        event = self._happened(service)
        line = self._line(event)
        if draw.random() < shares.twice:
            self.truth.twice += 1
            self._wait(line, draw.uniform(0.0, self._late_ms))
        if draw.random() < shares.late:
            self.truth.late += 1
            self._wait(line, draw.uniform(0.0, self._late_ms))
            return self._next()
        return line

    def _happened(self, service: str) -> Event:
        """A request, which may fail, or a note."""
        draw, shares = self._random, self._shares
        if draw.random() >= shares.requests:
            return self._true(
                self._event(service, self.now_ms, draw.choice(("INFO", "INFO", "WARN")), "note")
            )
        in_trouble = self._is_in_trouble(service)
        fails = draw.random() < (shares.failing_in_trouble if in_trouble else shares.failing)
        request = self._event(service, self.now_ms, "INFO", "request", fails=fails)
        if fails:
            after_ms = draw.uniform(1, 2_000)
            error = self._event(service, self.now_ms + int(after_ms), "ERROR", "error", trace=request.trace)
            self._wait(self._line(self._true(error)), after_ms)
        return self._true(request)

    def _is_in_trouble(self, service: str) -> bool:
        if self._now_ms < self._trouble_until_ms[service]:
            return True
        if self._random.random() < 0.0005:
            self._trouble_until_ms[service] = self._now_ms + self._random.uniform(60_000, 240_000)
        return False

    def _event(
        self, service: str, time_ms: int, level: str, kind: str, *, fails: bool = False, trace: str = ""
    ) -> Event:
        draw = self._random
        self._number += 1
        return Event(
            time_ms=time_ms,
            service=service,
            id=f"{service}-{self._tag}{self._number:09d}",
            level=level,
            kind=kind,
            trace=trace or f"{draw.getrandbits(64):016x}",
            status=(500 if fails else 200) if kind == "request" else 0,
            duration_ms=int(draw.expovariate(1 / 40)) + (2_000 if fails else 1) if kind == "request" else 0,
            message=draw.choice(PROBLEMS) if kind == "error" else f"GET {draw.choice(PATHS)}",
        )

    def _true(self, event: Event) -> Event:
        self.truth.events.append(event)
        self.truth.newest_ms = max(self.truth.newest_ms, event.time_ms)
        return event

    def _line(self, event: Event) -> Line:
        return Line(event.service, self._format_of(event.service).write(event))

    def _format_of(self, service: str) -> type[Format]:
        return FORMATS[self._services.index(service) % len(FORMATS)]

    def _wait(self, line: Line, delay_ms: float) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (self._now_ms + delay_ms, self._number, line))

    def _bad(self, service: str) -> Line:
        draw = self._random
        whole = self._format_of(service).write(self._event(service, self.now_ms, "INFO", "note"))
        kind = draw.randrange(3)
        if kind == 0:
            text = whole[: draw.randrange(1, 20)]
        elif kind == 1:
            text = b"\xff\xfe" + bytes(draw.randrange(128, 256) for _ in range(20))
        else:
            text = b"?" + whole[:10]
        self.truth.bad.append(text)
        return Line(service, text)
