"""What a broker counts, and the text in which Prometheus reads it.

What lives here: counters of requests and connections, gauges that are asked when somebody looks, the text
format.  What may not: serving it (metrics_page) and anything that acts on a number.

Counting must cost next to nothing: a request adds to three integers and one cell of a list.  The cells are
powers of two of nanoseconds, which is as precise as a latency histogram has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.protocol.apis import Api

PREFIX = "barnabas_"
# Cell n counts what took less than 2^n ns.  The last one, about 18 minutes, also takes all that is longer.
LATENCY_CELLS = 41
# The text shows every second power of two from 4 us to 17 s: a page that people can still read.
_SHOWN_CELLS = range(12, 35, 2)

Gauge = Callable[[], float]


class RequestMetrics:
    """Of one API."""

    __slots__ = ("cells", "count", "errors", "name", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.errors = 0
        self.total_ns = 0
        self.cells = [0] * LATENCY_CELLS

    def record(self, elapsed_ns: int) -> None:
        self.count += 1
        self.total_ns += elapsed_ns
        cell = elapsed_ns.bit_length()
        self.cells[cell if cell < LATENCY_CELLS else LATENCY_CELLS - 1] += 1

    def _lines(self) -> Iterator[str]:
        label, below, shown = f'api="{self.name}"', 0, 0
        for cell in _SHOWN_CELLS:
            below += sum(self.cells[shown : cell + 1])
            shown = cell + 1
            yield f'{PREFIX}request_seconds_bucket{{{label},le="{(1 << cell) / 1e9:.9g}"}} {below}'
        yield f'{PREFIX}request_seconds_bucket{{{label},le="+Inf"}} {self.count}'
        yield f"{PREFIX}request_seconds_sum{{{label}}} {self.total_ns / 1e9:.9g}"
        yield f"{PREFIX}request_seconds_count{{{label}}} {self.count}"


class Metrics:
    """Of one broker."""

    def __init__(self) -> None:
        self._requests: dict[int, RequestMetrics] = {}
        self._gauges: dict[str, tuple[str, Gauge]] = {}
        self._counters: dict[str, tuple[str, Gauge]] = {}
        self.connections_accepted = 0
        self.connections_refused = 0
        self.connections_failed = 0
        self.counter(
            "connections_accepted_total", "connections that were accepted", lambda: self.connections_accepted
        )
        self.counter(
            "connections_refused_total", "connections above a limit", lambda: self.connections_refused
        )
        self.counter(
            "connections_failed_total",
            "connections closed for what they sent",
            lambda: self.connections_failed,
        )

    def requests(self, api: Api) -> RequestMetrics:
        """The counters of an API; the same object each time, so that a caller may keep it."""
        found = self._requests.get(api.key)
        if found is None:
            found = self._requests[api.key] = RequestMetrics(api.name)
        return found

    def gauge(self, name: str, explanation: str, read: Gauge) -> None:
        """A value that goes up and down; it is read when somebody looks."""
        self._gauges[name] = (explanation, read)

    def counter(self, name: str, explanation: str, read: Gauge) -> None:
        """A value that only grows."""
        self._counters[name] = (explanation, read)

    def text(self) -> str:
        """All of it in Prometheus' text format 0.0.4."""
        return "\n".join([*self._values(), *self._request_lines(), ""])

    def _values(self) -> Iterator[str]:
        for kind, values in (("counter", self._counters), ("gauge", self._gauges)):
            for name, (explanation, read) in values.items():
                yield f"# HELP {PREFIX}{name} {explanation}"
                yield f"# TYPE {PREFIX}{name} {kind}"
                yield f"{PREFIX}{name} {read():.12g}"

    def _request_lines(self) -> Iterator[str]:
        used = sorted((one for one in self._requests.values() if one.count), key=lambda one: one.name)
        yield f"# HELP {PREFIX}request_errors_total requests refused as a whole, or answered by closing"
        yield f"# TYPE {PREFIX}request_errors_total counter"
        for one in used:
            yield f'{PREFIX}request_errors_total{{api="{one.name}"}} {one.errors}'
        yield f"# HELP {PREFIX}request_seconds from the reading of a request to the sending of its answer"
        yield f"# TYPE {PREFIX}request_seconds histogram"
        for one in used:
            yield from one._lines()
