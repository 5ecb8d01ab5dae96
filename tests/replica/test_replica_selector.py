"""KIP-392: which replica a consumer should read from."""

from __future__ import annotations

import pytest

from barnabas.replica.replica_selector import ReplicaView, replica_in_rack

LEADER = ReplicaView(1, "a", 100, 0)


@pytest.mark.parametrize(
    ("rack", "followers", "expected"),
    [
        # The leader, if it is in the rack, or if nobody is.
        ("a", [ReplicaView(2, "a", 100, 0)], None),
        ("c", [ReplicaView(2, "b", 100, 0)], None),
        ("", [ReplicaView(2, "", 100, 0)], None),
        ("b", [ReplicaView(2, "b", 90, 0), ReplicaView(3, "c", 100, 0)], 2),
        # The furthest one; then the one that was caught up last; then the highest id, as in Apache Kafka.
        ("b", [ReplicaView(2, "b", 90, 0), ReplicaView(3, "b", 95, 9)], 3),
        ("b", [ReplicaView(2, "b", 95, 3), ReplicaView(3, "b", 95, 9)], 2),
        ("b", [ReplicaView(2, "b", 95, 3), ReplicaView(3, "b", 95, 3)], 3),
    ],
)
def test_a_consumer_reads_in_its_rack(rack: str, followers: list[ReplicaView], expected: int | None) -> None:
    assert replica_in_rack(rack, LEADER, followers) == expected
