"""The iteration order of Java's hash maps, as seen in Apache Kafka's records."""

from __future__ import annotations

from barnabas.base.java_order import buckets_for, buckets_of_copy, hash_map_order

FEATURES = (
    "metadata.version",
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
)


def test_brokers_and_controllers_list_their_features_in_this_order() -> None:
    # golden/logs/kraft-4.1.0, offsets 8 and 10: maps created with one bucket and with sixteen.
    assert hash_map_order(FEATURES, 1) == [
        "group.version",
        "transaction.version",
        "eligible.leader.replicas.version",
        "kraft.version",
        "metadata.version",
        "share.version",
    ]
    assert hash_map_order(FEATURES) == [
        "group.version",
        "kraft.version",
        "metadata.version",
        "share.version",
        "transaction.version",
        "eligible.leader.replicas.version",
    ]


def test_a_key_counts_once_and_the_map_grows() -> None:
    assert hash_map_order(["b", "a", "b"]) == ["a", "b"]
    numbers = [str(number) for number in range(40)]
    assert sorted(hash_map_order(numbers)) == sorted(numbers)


def test_the_number_of_buckets_is_a_power_of_two_as_in_java() -> None:
    """`HashMap.tableSizeFor`, and `HashSet(Collection)` with its load factor of 0.75."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 16: 16, 17: 32}
    assert {size: buckets_for(size) for size in sizes} == sizes
    copies = {0: 16, 11: 16, 12: 32, 23: 32, 24: 64}
    assert {size: buckets_of_copy(size) for size in copies} == copies
