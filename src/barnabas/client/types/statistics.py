"""What a client has done so far, and what waits in it."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.client.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """Counts since the producer was made; the last three fields are the present."""

    records_delivered: int
    records_failed: int
    batches_delivered: int
    # Before compression.
    bytes_delivered: int
    records_waiting: int
    # Of `buffer.memory`.
    bytes_buffered: int
    requests_in_flight: int


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Records returned since the consumer was made, and the lag of each assigned partition; None if
    unknown."""

    records_returned: int
    lag: dict[TopicPartition, int | None]

    @property
    def total_lag(self) -> int:
        """Over the partitions whose lag is known."""
        return sum(lag for lag in self.lag.values() if lag is not None)
