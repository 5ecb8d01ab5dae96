"""Places the replicas of new partitions, as Apache Kafka's StripedReplicaPlacer does.

Replicas are spread over racks round-robin, and over the brokers within a rack, fenced brokers last; the first
replica, the preferred leader, is never on a fenced broker.  Each partition starts one broker further than the
previous one.  Once every broker has been first, the order is shuffled, so that the followers of a failed
leader are spread as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.hashing import java_string_hash
from barnabas.base.java_order import order_by_hash
from barnabas.controller.store import METADATA_LOG_POLICY
from barnabas.runtime.random import Random

T = TypeVar("T")


class UsableBroker(NamedTuple):
    """A broker that may hold replicas."""

    id: int
    rack: str | None
    fenced: bool


def place(
    brokers: Iterable[UsableBroker],
    partitions: int,
    replication_factor: int,
    random: Random,
    too_few_brokers: str = METADATA_LOG_POLICY.too_few_brokers,
) -> list[list[int]]:
    """Returns the replicas of each partition, the preferred leader first."""
    racks = _RackList(brokers, random)
    if replication_factor <= 0:
        raise _refused(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if racks.unfenced == 0:
        raise _refused("All brokers are currently fenced.")
    if replication_factor > racks.total:
        raise _refused(too_few_brokers.format(wanted=replication_factor, present=racks.total))
    return [racks.place(replication_factor) for _ in range(partitions)]


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, message)


class _BrokerList:
    """Brokers in round-robin order.  Each round starts one broker further than the previous one."""

    def __init__(self, brokers: list[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        self._offset = random.integer(0, len(brokers) - 1) if brokers else 0
        self._index = 0
        self._round = 0

    def next(self, round_: int) -> int | None:
        """Returns None once every broker was used in this round."""
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
        self._fenced = _BrokerList([broker.id for broker in brokers if broker.fenced], random)
        self.unfenced = _BrokerList([broker.id for broker in brokers if not broker.fenced], random)

    def next(self, round_: int) -> int | None:
        broker = self.unfenced.next(round_)
        return self._fenced.next(round_) if broker is None else broker

    def shuffle(self, random: Random) -> None:
        self._fenced.shuffle(random)
        self.unfenced.shuffle(random)


class _RackList:
    """All racks in round-robin order."""

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self.total = sum(map(len, by_rack.values()))
        self.unfenced = sum(not broker.fenced for rack in by_rack.values() for broker in rack)
        self._random = random
        # Random numbers are drawn in the order of Apache Kafka's map of racks.
        in_map_order = order_by_hash(by_rack, lambda name: java_string_hash(name or ""))
        racks = {name: _Rack(by_rack[name], random) for name in in_map_order}
        self._racks_by_hash = list(racks.values())
        # Brokers without a rack form a rack of their own, which comes first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [racks[name] for name in names]
        self._offset = random.integer(0, len(names) - 1) if names else 0
        self._round = 0

    def place(self, replication_factor: int) -> list[int]:
        if self._round == self.unfenced and self.unfenced > 1:
            _shuffle(self._racks, self._random)
            for rack in self._racks_by_hash:
                rack.shuffle(self._random)
            self._round = 0
        self._offset %= len(self._racks)
        first_rack, leader = self._leader()
        brokers = [leader]
        index, skipped = self._offset, False
        while len(brokers) < replication_factor:
            if index == first_rack and not skipped:
                # The leader's rack was already used.
                skipped = True
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    brokers.append(broker)
            index = (index + 1) % len(self._racks)
        self._round += 1
        self._offset += 1
        return brokers

    def _leader(self) -> tuple[int, int]:
        """The first unfenced broker, starting from the current rack; there always is one."""
        for step in range(len(self._racks)):
            index = (self._offset + step) % len(self._racks)
            broker = self._racks[index].unfenced.next(self._round)
            if broker is not None:
                return index, broker
        raise AssertionError("a round never exceeds the number of unfenced brokers")


def _shuffle(items: list[T], random: Random) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = random.integer(0, last)
        items[last], items[other] = items[other], items[last]
