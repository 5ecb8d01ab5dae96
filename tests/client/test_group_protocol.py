"""Subscriptions and assignments as Apache Kafka's clients write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.client.group_protocol import (
    Assignment,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from barnabas.client.model import TopicPartition
from barnabas.protocol.primitives import ProtocolError

VECTORS = json.loads(
    (Path(__file__).parents[1] / "data" / "vectors" / "group-protocol.json").read_text("utf-8")
)
HEX = {row["what"]: bytes.fromhex(row["hex"]) for row in VECTORS}
OWNED = (TopicPartition("t1", 0), TopicPartition("t1", 2), TopicPartition("t2", 1))


@pytest.mark.parametrize("version", range(4))
def test_bytes_equal_apache_kafkas(version: int) -> None:
    subscription = Subscription(("t1", "t2"), b"ud", OWNED, 5, "rack-a")
    assert write_subscription(subscription, version) == HEX[f"subscription v{version}"]
    read = read_subscription(HEX[f"subscription v{version}"])
    assert (read.topics, read.user_data) == (("t1", "t2"), b"ud")
    assert read.owned == (OWNED if version >= 1 else ())
    assert read.generation_id == (5 if version >= 2 else -1)
    assert read.rack_id == ("rack-a" if version >= 3 else None)
    assert write_assignment(Assignment(OWNED, b"ud"), version) == HEX[f"assignment v{version}"]
    assert read_assignment(HEX[f"assignment v{version}"]) == Assignment(OWNED, b"ud")


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = b"\x00\x09" + HEX["subscription v3"][2:] + b"something new"
    assert read_subscription(data).rack_id == "rack-a"


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\1\x7f\xff\xff\xff"])
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_subscription(data)
