"""Assignors against the plans that Apache Kafka's own make.  M-G3"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.consumer.assignors.registry import assignors
from barnabas.client.group_protocol import Subscription
from barnabas.client.model import TopicPartition
from barnabas.config.errors import ConfigError

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors" / "assignors.json").read_text("utf-8"))
STICKY = ("sticky", "cooperative-sticky")


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def subscription(row_of_member: Mapping[str, Any]) -> Subscription:
    user_data = row_of_member["user_data_hex"]
    return Subscription(
        topics=tuple(row_of_member["topics"]),
        user_data=None if user_data is None else bytes.fromhex(user_data),
        owned=tuple(map(partition, row_of_member["owned"])),
        group_instance_id=row_of_member.get("group_instance_id"),
    )


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['assignor']}: {row['case']}")
def test_plans_equal_apache_kafkas(row: Mapping[str, Any]) -> None:
    (assignor,) = assignors([row["assignor"]])
    members = {member: subscription(row_of_member) for member, row_of_member in row["members"].items()}
    plan = assignor.assign(row["partitions"], members)
    assert {member: [str(one) for one in mine] for member, mine in plan.items()} == row["assignment"]


def test_only_the_cooperative_assignor_keeps_partitions_during_a_rebalance() -> None:
    made = assignors(["range", "roundrobin", "sticky", "cooperative-sticky"])
    assert {assignor.name: assignor.is_cooperative for assignor in made} == {
        "range": False,
        "roundrobin": False,
        "sticky": False,
        "cooperative-sticky": True,
    }
    java = "org.apache.kafka.clients.consumer."
    names = [f"{java}RangeAssignor", f"class {java}RoundRobinAssignor", f"{java}StickyAssignor"]
    made = assignors([*names, f"{java}CooperativeStickyAssignor"])
    assert [assignor.name for assignor in made] == ["range", "roundrobin", "sticky", "cooperative-sticky"]


@pytest.mark.parametrize("given", [[], ["range", "range"], ["nothing"]])
def test_assignors_are_known_and_different(given: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy"):
        assignors(given)
