"""Where the replicas of new partitions go: spread over brokers and racks, leaders evenly.

What lives here: the way of Apache Kafka's StripedReplicaPlacer.  Racks take turns; within a rack brokers take
turns, those that are fenced last; the first replica, which will lead, is never on a fenced broker.  A
partition starts one broker further than the one before, and when all brokers have been first the order is
shuffled, so that the followers of a failing leader are spread, too.  What may not: which brokers there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.random import Random

T = TypeVar("T")


class UsableBroker(NamedTuple):
    """A broker that may hold replicas."""

    id: int
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, random: Random
) -> list[list[int]]:
    """The replicas of each partition, the preferred leader first."""
    racks = _Racks(brokers, random)
    if replication_factor <= 0:
        raise _refused(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if racks.unfenced == 0:
        raise _refused("All brokers are currently fenced.")
    if replication_factor > racks.total:
        raise _refused(
            f"The target replication factor of {replication_factor} cannot be reached because only"
            f" {racks.total} broker(s) are registered."
        )
    return [racks.place(replication_factor) for _ in range(partitions)]


def _refused(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)


class _Turns:
    """Brokers that take turns.  Each round starts one further than the last."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._offset = random.integer(0, len(brokers) - 1) if brokers else 0
        self._index = 0
        self._round = 0

    def next(self, round_: int) -> int | None:
        """None when all had their turn in this round."""
        if not self._brokers:
            return None
        if self._round != round_:
            self._round = round_
            self._index = 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker

    def shuffle(self, random: Random) -> None:
        _shuffle(self._brokers, random)


class _Rack:
    """The brokers of one rack."""

    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        self.unfenced = _Turns([broker.id for broker in brokers if not broker.fenced], random)
        self._fenced = _Turns([broker.id for broker in brokers if broker.fenced], random)

    def next(self, round_: int) -> int | None:
        found = self.unfenced.next(round_)
        return self._fenced.next(round_) if found is None else found

    def shuffle(self, random: Random) -> None:
        self._fenced.shuffle(random)
        self.unfenced.shuffle(random)


class _Racks:
    """All racks, and whose turn it is."""

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self.total = sum(map(len, by_rack.values()))
        self.unfenced = sum(not broker.fenced for rack in by_rack.values() for broker in rack)
        self._random = random
        # Brokers without a rack are a rack of their own, before all others.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random) for name in names]
        self._offset = random.integer(0, len(names) - 1) if names else 0
        self._round = 0

    def place(self, replication_factor: int) -> list[int]:
        if self._round == self.unfenced and self.unfenced > 1:
            _shuffle(self._racks, self._random)
            for rack in self._racks:
                rack.shuffle(self._random)
            self._round = 0
        self._offset %= len(self._racks)
        first_rack, leader = self._leader()
        brokers = [leader]
        index, skipped = self._offset, False
        while len(brokers) < replication_factor:
            if index == first_rack and not skipped:
                # The leader's rack has had its turn.
                skipped = True
            else:
                found = self._racks[index].next(self._round)
                if found is not None:
                    brokers.append(found)
            index = (index + 1) % len(self._racks)
        self._round += 1
        self._offset += 1
        return brokers

    def _leader(self) -> tuple[int, int]:
        """The first unfenced broker from the rack whose turn it is on; there is one."""
        for step in range(len(self._racks)):
            index = (self._offset + step) % len(self._racks)
            found = self._racks[index].unfenced.next(self._round)
            if found is not None:
                return index, found
        raise AssertionError("the rounds are as many as the unfenced brokers")


def _shuffle(items: list[T], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.integer(0, last)
        items[last], items[other] = items[other], items[last]
