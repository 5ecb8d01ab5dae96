"""The choice of a record's partition: key hash, sticky and adaptive (KIP-794), round robin, random,
custom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol

from barnabas.batch.engine.murmur import key_partition
from barnabas.client.model import Topic
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.runtime.random import Random

_JAVA_PACKAGE = "org.apache.kafka.clients.producer."


class Partitioner(Protocol):
    """The interface of custom partitioners; `configure` and `close` are optional."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        layout: Topic,
    ) -> int: ...


class RoundRobinPartitioner:
    """One partition after the other, regardless of the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        layout: Topic,
    ) -> int:
        led = [partition.number for partition in layout.partitions if partition.leader >= 0]
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        return led[number % len(led)] if led else number % len(layout.partitions)


class HashPartitioner:
    """By the key's hash (murmur2, as the Java client); a missing key is hashed as an empty one."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        layout: Topic,
    ) -> int:
        return key_partition(key_bytes or b"", len(layout.partitions))


class RandomPartitioner:
    """A random partition for each record."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        layout: Topic,
    ) -> int:
        return self._random.integer(0, len(layout.partitions) - 1)


class _Function:
    """A user-defined function of (key bytes, number of partitions)."""

    def __init__(self, function: Callable[[bytes | None, int], int]) -> None:
        self._function = function

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        layout: Topic,
    ) -> int:
        return self._function(key_bytes, len(layout.partitions))


def partitioner(settings: Settings, random: Random) -> Partitioner | None:
    """Return the partitioner of `partitioner.class`; None is the built-in one."""
    given = settings["partitioner.class"]
    if given is None:
        return None
    if isinstance(given, str):
        match given.removeprefix("class ").removeprefix(_JAVA_PACKAGE):
            case (
                "round_robin"
                | "RoundRobinPartitioner"
                | "org.apache.kafka.clients.producer.RoundRobinPartitioner"
            ):
                return RoundRobinPartitioner()
            case "random":
                return RandomPartitioner(random)
            case "hash" | "murmur2":
                return HashPartitioner()
            case "sticky" | "default":
                return None
        raise ConfigError(
            f"Invalid value {given} for configuration partitioner.class",
            allowed="a function of (key bytes, partitions), an object with partition(), "
            "sticky, round_robin, random, hash",
        )
    made = given() if isinstance(given, type) else given
    if not hasattr(made, "partition"):
        return _Function(made)
    if hasattr(made, "configure"):
        made.configure(settings)
    partitioner: Partitioner = made
    return partitioner


def next_sticky(current: int, queue_sizes: Sequence[int | None], adaptive: bool, random: Random) -> int:
    """Choose the next sticky partition at random, weighted towards shorter queues.

    A queue of None has no available leader: it is chosen only if all are like that.
    """
    available = [number for number, size in enumerate(queue_sizes) if size is not None]
    if not available:
        return random.integer(0, len(queue_sizes) - 1)
    if len(available) == 1:
        return available[0]
    others = [number for number in available if number != current]
    if not adaptive:
        return others[random.integer(0, len(others) - 1)]
    sizes = [queue_sizes[number] or 0 for number in available]
    weights = list(accumulate(max(sizes) + 1 - size for size in sizes))
    drawn = random.integer(0, weights[-1] - 1)
    return next(number for number, weight in zip(available, weights, strict=True) if drawn < weight)
