"""Which partition a record goes to.  M-F2"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from barnabas.batch.engine.murmur import key_partition
from barnabas.client.model import Partition, Topic
from barnabas.client.options import producer_options
from barnabas.client.producer.partitioners import next_sticky, partitioner
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.runtime.random import SeededRandom

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "vectors" / "partitioner.json").read_text("utf-8"))


def layout(count: int, leaderless: tuple[int, ...] = ()) -> Topic:
    partitions = tuple(
        Partition("t", number, -1 if number in leaderless else 1, 0, (1,), (1,)) for number in range(count)
    )
    return Topic("t", partitions=partitions)


def chosen(given: object, count: int, keys: list[bytes | None]) -> list[int]:
    settings = producer_options({"bootstrap.servers": "a:1"}, {"partitioner_class": given})
    made = partitioner(settings, SeededRandom(1))
    assert made is not None
    return [made.partition("t", key, key, None, None, layout(count)) for key in keys]


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["key_hex"][:20])
def test_keys_hash_as_in_the_java_client(row: dict[str, object]) -> None:
    key = bytes.fromhex(str(row["key_hex"]))
    expected = row["partition"]
    assert isinstance(expected, dict)
    for partitions, number in expected.items():
        assert key_partition(key, int(partitions)) == number
        assert chosen("hash", int(partitions), [key]) == [number]


def test_round_robin_passes_over_who_has_no_leader() -> None:
    assert chosen("org.apache.kafka.clients.producer.RoundRobinPartitioner", 3, [b"k"] * 5) == [0, 1, 2, 0, 1]
    settings = producer_options({"bootstrap.servers": "a:1"}, {"partitioner_class": "round_robin"})
    made = partitioner(settings, SeededRandom(1))
    assert made is not None
    some = layout(3, leaderless=(1,))
    assert [made.partition("t", None, None, None, None, some) for _ in range(4)] == [0, 2, 0, 2]


def test_random_uses_all() -> None:
    assert set(chosen("random", 4, [None] * 200)) == {0, 1, 2, 3}


def test_a_function_is_enough() -> None:
    assert chosen(lambda key, count: len(key or b"") % count, 3, [b"", b"a", b"abcd"]) == [0, 1, 1]


class Named:
    """A class as an application passes it: it is made, and told the options."""

    def configure(self, settings: Settings) -> None:
        self.servers = settings["bootstrap.servers"]

    def partition(self, *_: object) -> int:
        return len(self.servers) % 3


def test_a_class_is_made_and_configured() -> None:
    assert chosen(Named, 3, [None]) == [1]


def test_the_built_in_choice_and_nonsense() -> None:
    for name in (None, "sticky"):
        settings = producer_options({"bootstrap.servers": "a:1"}, {"partitioner_class": name})
        assert partitioner(settings, SeededRandom(1)) is None
    settings = producer_options({"bootstrap.servers": "a:1"}, {"partitioner_class": "org.example.Own"})
    with pytest.raises(ConfigError, match=r"partitioner\.class"):
        partitioner(settings, SeededRandom(1))


def draw(sizes: list[int | None], adaptive: bool) -> Counter[int]:
    random = SeededRandom(7)
    return Counter(next_sticky(0, sizes, adaptive, random) for _ in range(3000))


def test_the_sticky_choice_favours_short_queues() -> None:
    """KIP-794: the chance of a partition falls with the length of its queue."""
    drawn = draw([0, 0, 3], adaptive=True)
    assert drawn[0] == pytest.approx(drawn[1], rel=0.15)
    assert drawn[2] == pytest.approx(drawn[0] / 4, rel=0.3)


def test_the_plain_sticky_choice_picks_another_partition() -> None:
    drawn = draw([0, 9, 0], adaptive=False)
    assert set(drawn) == {1, 2}
    assert drawn[1] == pytest.approx(drawn[2], rel=0.15)


def test_partitions_without_an_available_leader_are_skipped() -> None:
    assert set(draw([None, 0, None], adaptive=True)) == {1}
    assert set(draw([None, None], adaptive=True)) == {0, 1}
