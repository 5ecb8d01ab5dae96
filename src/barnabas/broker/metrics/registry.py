"""The metrics of a broker in Prometheus' text format: counters of requests and connections, and gauges.

Counting must be cheap: a request adds to three integers and one bucket.  Bucket boundaries are powers of two
of nanoseconds, which is precise enough for a latency histogram.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from barnabas.protocol.apis import Api

PREFIX = "barnabas_"
# Bucket n counts requests that took less than 2^n ns.  The last one, about 18 minutes, has all longer ones.
LATENCY_BUCKETS = 41
# The text has every second power of two from 4 us to 17 s, to stay readable.
_SHOWN_BUCKETS = range(12, 35, 2)

Gauge = Callable[[], float]


class RequestMetrics:
    """The metrics of one API."""

    __slots__ = ("buckets", "count", "errors", "name", "total_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.errors = 0
        self.total_ns = 0
        self.buckets = [0] * LATENCY_BUCKETS

    def record(self, elapsed_ns: int) -> None:
        self.count += 1
        self.total_ns += elapsed_ns
        bucket = elapsed_ns.bit_length()
        self.buckets[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1

    def _lines(self) -> Iterator[str]:
        label, below, shown = f'api="{self.name}"', 0, 0
        for bucket in _SHOWN_BUCKETS:
            below += sum(self.buckets[shown : bucket + 1])
            shown = bucket + 1
            yield f'{PREFIX}request_seconds_bucket{{{label},le="{(1 << bucket) / 1e9:.9g}"}} {below}'
        yield f'{PREFIX}request_seconds_bucket{{{label},le="+Inf"}} {self.count}'
        yield f"{PREFIX}request_seconds_sum{{{label}}} {self.total_ns / 1e9:.9g}"
        yield f"{PREFIX}request_seconds_count{{{label}}} {self.count}"


class Metrics:
    """The metrics of one broker."""

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
        """Returns the counters of an API; always the same object, so that callers may keep it."""
        metrics = self._requests.get(api.key)
        if metrics is None:
            metrics = self._requests[api.key] = RequestMetrics(api.name)
        return metrics

    def gauge(self, name: str, explanation: str, read: Gauge) -> None:
        """Adds a gauge; it is read when the text is requested."""
        self._gauges[name] = (explanation, read)

    def counter(self, name: str, explanation: str, read: Gauge) -> None:
        """Adds a counter; it is read when the text is requested."""
        self._counters[name] = (explanation, read)

    def text(self) -> str:
        """Returns all metrics in Prometheus' text format 0.0.4."""
        return "\n".join([*self._values(), *self._request_lines(), ""])

    def _values(self) -> Iterator[str]:
        for kind, values in (("counter", self._counters), ("gauge", self._gauges)):
            for name, (explanation, read) in values.items():
                yield f"# HELP {PREFIX}{name} {explanation}"
                yield f"# TYPE {PREFIX}{name} {kind}"
                yield f"{PREFIX}{name} {read():.12g}"

    def _request_lines(self) -> Iterator[str]:
        used = sorted(
            (metrics for metrics in self._requests.values() if metrics.count),
            key=lambda metrics: metrics.name,
        )
        yield f"# HELP {PREFIX}request_errors_total requests refused as a whole, or answered by closing"
        yield f"# TYPE {PREFIX}request_errors_total counter"
        for metrics in used:
            yield f'{PREFIX}request_errors_total{{api="{metrics.name}"}} {metrics.errors}'
        yield f"# HELP {PREFIX}request_seconds from the reading of a request to the sending of its answer"
        yield f"# TYPE {PREFIX}request_seconds histogram"
        for metrics in used:
            yield from metrics._lines()
