"""Failed records whose errors nobody has asked for: close() reports them, so that none is lost in silence."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.errors.local import UndeliveredError
from barnabas.client.producer.batches import ProducerBatch

# Failed batches are kept until the producer is closed; of further ones only the number of records.
MAX_BATCHES = 100
MAX_REFUSED = 1_000
SHOWN = 3


class Undelivered:
    """What failed: batches, and records of the blocking producer that never came into one."""

    def __init__(self) -> None:
        self._batches: list[ProducerBatch] = []
        self._refused: dict[object, tuple[str, Exception]] = {}
        self._further = 0

    def add(self, batch: ProducerBatch) -> None:
        if len(self._batches) < MAX_BATCHES:
            self._batches.append(batch)
        else:
            self._further += batch.unclaimed

    def refuse(self, record: object, topic: str, error: Exception) -> None:
        """A record that was not accepted; `claim` it when somebody has seen its error."""
        if len(self._refused) < MAX_REFUSED:
            self._refused[record] = (topic, error)
        else:
            self._further += 1

    def claim(self, record: object) -> None:
        self._refused.pop(record, None)

    def error(self) -> UndeliveredError | None:
        """What to raise when the producer closes, if anything was lost unseen."""
        failures: list[tuple[str, int, Exception]] = [
            (f"{batch.topic}-{batch.partition}", batch.unclaimed, batch.error)
            for batch in self._batches
            if batch.error is not None
        ]
        failures += [(topic, 1, error) for topic, error in self._refused.values()]
        counts: dict[str, int] = {}
        errors: dict[str, Exception] = {}
        for place, count, error in failures:
            if count:
                counts[place] = counts.get(place, 0) + count
                errors.setdefault(place, error)
        total = sum(counts.values()) + self._further
        if not total:
            return None
        return UndeliveredError(_message(total, counts, errors), total, errors)


def _message(total: int, counts: dict[str, int], errors: dict[str, Exception]) -> str:
    shown = [f"{counts[place]} for {place} ({errors[place]})" for place in list(counts)[:SHOWN]]
    return f"{_records(total)} not delivered: {_listed(shown, len(counts))}"


def _records(count: int) -> str:
    return "1 record was" if count == 1 else f"{count} records were"


def _listed(shown: Iterable[str], count: int) -> str:
    text = "; ".join(shown)
    return text + (f"; and more in {count - SHOWN} other partitions" if count > SHOWN else "")
