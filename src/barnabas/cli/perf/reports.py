"""Reports as Apache Kafka's performance tools print them: counts, percentiles and lines."""

from __future__ import annotations

from collections.abc import Mapping

MEGABYTE = 1024 * 1024
MAX_SAMPLES = 500_000
PERCENTILES = (0.5, 0.95, 0.99, 0.999)


def rate(amount: float, time: float) -> float:
    """Java's floating-point division: 0 / 0 is NaN."""
    if time:
        return amount / time
    return float("inf") if amount > 0 else float("nan")


def java_number(value: float, digits: int) -> str:
    """As Java's `%.4f` prints it, including NaN and infinity."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def percentiles(latencies_ms: list[int]) -> list[int]:
    ordered = sorted(latencies_ms)
    return [ordered[min(int(part * len(ordered)), len(ordered) - 1)] for part in PERCENTILES]


class ProduceStatistics:
    """Count, size and latency of records, in total and since the last report."""

    def __init__(self, records: int, now_ms: int, interval_ms: int) -> None:
        self._start_ms = now_ms
        self._interval_ms = interval_ms
        self._sampling = max(1, records // MAX_SAMPLES)
        self._latencies_ms: list[int] = []
        self.count = 0
        self.bytes = 0
        self._total_ms = 0
        self._max_ms = 0
        self._new_window(now_ms)

    def _new_window(self, now_ms: int) -> None:
        self._window_start_ms = now_ms
        self._window_count = self._window_bytes = self._window_total_ms = self._window_max_ms = 0

    def record(self, latency_ms: int, size: int, now_ms: int) -> str | None:
        """Counts a written record; returns a line to print if a report is due."""
        if self.count % self._sampling == 0:
            self._latencies_ms.append(latency_ms)
        self.count += 1
        self.bytes += size
        self._total_ms += latency_ms
        self._max_ms = max(self._max_ms, latency_ms)
        self._window_count += 1
        self._window_bytes += size
        self._window_total_ms += latency_ms
        self._window_max_ms = max(self._window_max_ms, latency_ms)
        if now_ms - self._window_start_ms < self._interval_ms:
            return None
        line = self._window(now_ms - self._window_start_ms)
        self._new_window(now_ms)
        return line

    def _window(self, elapsed_ms: int) -> str:
        average_ms = rate(self._window_total_ms, self._window_count)
        return (
            f"{_throughput(self._window_count, self._window_bytes, elapsed_ms)}, "
            f"{java_number(average_ms, 1)} ms avg latency, {self._window_max_ms:.1f} ms max latency."
        )

    def total(self, now_ms: int) -> str:
        average_ms = rate(self._total_ms, self.count)
        parts = percentiles(self._latencies_ms or [0])
        return (
            f"{_throughput(self.count, self.bytes, now_ms - self._start_ms)}, "
            f"{java_number(average_ms, 2)} ms avg latency, {self._max_ms:.2f} ms max latency, "
            f"{parts[0]} ms 50th, {parts[1]} ms 95th, {parts[2]} ms 99th, {parts[3]} ms 99.9th."
        )


def _throughput(count: int, size: int, elapsed_ms: int) -> str:
    records = java_number(1000.0 * rate(count, elapsed_ms), 1)
    megabytes = java_number(1000.0 * rate(size, elapsed_ms) / MEGABYTE, 2)
    return f"{count} records sent, {records} records/sec ({megabytes} MB/sec)"


def metrics_table(metrics: Mapping[str, float | str]) -> str:
    """Names and values, sorted by name."""
    width = max(map(len, metrics))
    rows = "".join(
        f"{name:<{width}} : {value if isinstance(value, str) else f'{value:.3f}'}\n"
        for name, value in sorted(metrics.items())
    )
    return f"\n{'Metric Name':<{width}}   Value\n{rows}"
