"""Topic and partition as a pair: the name of a log in checkpoints and folders."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """Formats as `orders-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
