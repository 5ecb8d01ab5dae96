"""The iteration order of Java's hash maps, as seen in Apache Kafka's records."""

from __future__ import annotations

from barnabas.base.java_order import hash_map_order

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
