"""Ten consumers that are stuck for different reasons, and the diagnoses of `barnabas explain`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.client import NewTopic, OffsetAndMetadata, TopicPartition
from barnabas.client.admin.security.acls import AclBinding
from barnabas.client.sync import Admin, Consumer, Producer
from barnabas.security.acls import Operation, Permission, ResourceType
from tests.cli.conftest import Call
from tests.cli.friendly.phantom import Phantom
from tools.raw_broker import BrokerProcess

PATIENCE_S = 120
WATCH = "300ms"


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def send(bootstrap: str, topic: str) -> Callable[..., None]:
    def send(*values: bytes, **options: Any) -> None:
        with Producer(bootstrap_servers=bootstrap, **options) as producer:
            for delivery in [producer.send(topic, value) for value in values]:
                delivery.result(PATIENCE_S)

    return send


@pytest.fixture
def causes(barnabas: Call, group: str) -> Callable[..., list[dict[str, object]]]:
    """The causes that `explain` finds, the deepest cause first."""

    def explain(*options: str) -> list[dict[str, object]]:
        result = barnabas("explain", group, "-o", "json", "--watch", WATCH, *options)
        found: list[dict[str, object]] = json.loads(result.out)
        is_missing = any(each["cause"] in ("no group", "no topic") for each in found)
        is_refused = any(each["cause"] == "denied" and "--principal" not in options for each in found)
        expected = Exit.DENIED if is_refused else Exit.NOT_FOUND if is_missing else Exit.OK
        assert result.code == expected, result.err
        return found

    return explain


@contextmanager
def member(bootstrap: str, topic: str, group: str, **options: Any) -> Iterator[Consumer]:
    """A consumer with its assigned partitions, if there are any."""
    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest", **options}
    with Consumer(bootstrap_servers=bootstrap, group_id=group, **settings) as consumer:
        consumer.subscribe([topic])
        yield consumer


def until_assigned(consumer: Consumer, count: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(consumer.assignment()) != count:
        assert time.monotonic() < deadline, "the group did not settle"
        consumer.poll(timeout_ms=100, max_records=1)


def one(found: list[dict[str, object]]) -> dict[str, object]:
    assert len(found) == 1, found
    return found[0]


def test_no_leader(
    broker: BrokerProcess,
    admin: Admin,
    topic: str,
    group: str,
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    with Phantom(broker, 2):
        admin.create_topics([NewTopic(topic, assignments={0: [2]})]).raise_first()
    admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    found = causes()
    assert found[0]["cause"] == "no leader"
    assert found[0]["partitions"] == [f"{topic}-0"]
    assert "replicas 2, in sync none, leader none" in str(found[0]["evidence"])


def test_the_high_watermark_is_held(
    broker: BrokerProcess,
    admin: Admin,
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    with Phantom(broker, 3):
        configs = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(topic, assignments={0: [1, 3]}, configs=configs)]).raise_first()
    send(b"1", b"2", acks="1", enable_idempotence=False)
    with member(bootstrap, topic, group) as consumer:
        until_assigned(consumer)
        consumer.commit({TopicPartition(topic, 0): 0})
        found = one(causes())
    assert found["cause"] == "high watermark held"
    assert "in sync 1 of replicas 1,3, but min.insync.replicas=2" in str(found["evidence"])
    assert "high watermark 0, log end 2" in str(found["evidence"])


def test_rebalancing(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1")
    with member(bootstrap, topic, group) as slow:
        until_assigned(slow)
        with member(bootstrap, topic, group) as second:
            # The first one processes its record, and does not notice that it has to rejoin.
            second.poll(timeout_ms=500)
            found = causes("--topic", topic)
            assert found[0]["cause"] == "rebalancing"
            assert "PreparingRebalance" in str(found[0]["summary"])


def test_more_members_than_partitions(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1")
    with (
        member(bootstrap, topic, group, group_protocol="consumer", client_id="first") as first,
        member(bootstrap, topic, group, group_protocol="consumer", client_id="second") as second,
    ):
        until_assigned(first)
        first.commit({TopicPartition(topic, 0): 1})
        deadline = time.monotonic() + PATIENCE_S
        found: list[dict[str, object]] = []
        while time.monotonic() < deadline and [each["cause"] for each in found] != [
            "more members than partitions"
        ]:
            first.poll(timeout_ms=100)
            second.poll(timeout_ms=100)
            found = causes()
        assert one(found)["summary"] == "1 of 2 members have no partition, as there are only 1"
        assert "nothing is assigned to second at 127.0.0.1" in str(found[0]["evidence"])


def test_paused(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1", b"2", b"3")
    with member(bootstrap, topic, group, client_id="sleepy") as consumer:
        until_assigned(consumer)
        consumer.pause(TopicPartition(topic, 0))
        consumer.commit({TopicPartition(topic, 0): 1})
        found = one(causes())
    assert found["cause"] == "paused"
    assert "2 records can be read, but sleepy at 127.0.0.1 reads or commits none" in str(found["summary"])
    assert "the committed offset 1 did not move in 0.3 s, end 3" in str(found["evidence"])


def test_committed_below_log_start(
    admin: Admin,
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(*[b"x"] * 5)
    with member(bootstrap, topic, group) as consumer:
        until_assigned(consumer)
        consumer.commit({TopicPartition(topic, 0): 1})
        admin.delete_records({TopicPartition(topic, 0): 4}).raise_first()
        found = one(causes())
    assert found["cause"] == "committed below log start"
    assert found["summary"] == f"{topic}-0: committed offset 1 is below the log start 4"
    assert "--to earliest" in str(found["advice"])


def test_an_open_transaction(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1")
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"2").result(PATIENCE_S)
        producer.send(topic, b"3").result(PATIENCE_S)
        with member(bootstrap, topic, group, isolation_level="read_committed") as consumer:
            until_assigned(consumer)
            consumer.commit({TopicPartition(topic, 0): 1})
            found = one(causes())
        producer.abort_transaction()
    assert found["cause"] == "open transaction"
    assert "last stable offset 1, high watermark 3" in str(found["evidence"])
    assert f"transactional.id tx-{topic}, state Ongoing" in str(found["evidence"])


def test_denied(
    barnabas: Call,
    admin: Admin,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1")
    admin.alter_consumer_group_offsets(group, {TopicPartition(topic, 0): OffsetAndMetadata(0)})
    for who, permission in (("User:ANONYMOUS", Permission.DENY), ("User:alice", Permission.ALLOW)):
        rule = AclBinding(ResourceType.TOPIC, topic, who, Operation.READ, permission)
        admin.create_acls([rule]).raise_first()
    describe = AclBinding(ResourceType.TOPIC, topic, "User:ANONYMOUS", Operation.DESCRIBE)
    admin.create_acls([describe]).raise_first()
    found = causes()
    assert found[0]["cause"] == "denied"
    assert found[0]["summary"] == f"User:you may not READ the topic {topic}"
    # And of other principals, whose permissions the ACLs define.
    denied = {each["summary"]: str(each["evidence"]) for each in causes("--principal", "User:bob")}
    assert "none allows it" in denied[f"User:bob may not READ the topic {topic}"]
    assert "no ACL covers it" in denied[f"User:bob may not READ the group {group}"]
    admin.create_acls([AclBinding(ResourceType.GROUP, group, "User:alice", Operation.READ)]).raise_first()
    result = barnabas("explain", group, "--principal", "User:alice")
    assert (result.code, result.err.count("\n")) == (Exit.DENIED, 1)
    describe = AclBinding(ResourceType.GROUP, group, "User:ANONYMOUS", Operation.DESCRIBE)
    admin.create_acls([describe]).raise_first()
    assert "denied" not in [each["cause"] for each in causes("--principal", "User:alice")]


def test_an_undecodable_record(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b'{"id": 1}', b'{"id": 2}', b"\xff\x00", b'{"id": 4}')
    with member(bootstrap, topic, group) as consumer:
        until_assigned(consumer)
        consumer.commit({TopicPartition(topic, 0): 2})
        found = one(causes())
        # The format of the values is not reported if no value has to be decoded.
        assert one(causes("--value", "bytes"))["cause"] == "paused"
    assert found["cause"] == "undecodable record"
    assert found["summary"] == f"{topic}-0: the next record, at offset 2, cannot be decoded"
    assert "its value is not json, as the 2 before it are" in str(found["evidence"])
    assert f"barnabas group reset {group} --topic {topic} -p 0 --to 3" in str(found["advice"])


def test_reset_to_latest_on_an_old_topic(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(b"1", b"2")
    with member(bootstrap, topic, group, auto_offset_reset="latest") as consumer:
        until_assigned(consumer)
        assert consumer.poll(timeout_ms=100) == []
        found = one(causes())
    assert found["cause"] == "nothing committed"
    assert (
        found["summary"]
        == f"{topic}-0: nothing is committed, and 2 records were written before the consumer started"
    )
    assert "auto.offset.reset=latest" in str(found["evidence"])


# Groups that are not stuck, or do not exist
# ------------------------------------------------------------------------------


def test_caught_up_and_behind(
    bootstrap: str,
    topic: str,
    group: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    send(*[b"x"] * 10)
    with member(bootstrap, topic, group) as consumer:
        until_assigned(consumer)
        consumer.commit({TopicPartition(topic, 0): 10})
        found = one(causes())
    assert (found["cause"], found["is_stuck"]) == ("caught up", False)


def test_no_cluster_and_no_topic(
    barnabas: Call,
    group: str,
    topic: str,
    send: Callable[..., None],
    causes: Callable[..., list[dict[str, object]]],
) -> None:
    assert [each["cause"] for each in causes("--topic", "not-there")] == ["no group", "no topic"]
    send(b"1")
    assert barnabas("consume", topic, "-g", group).code == Exit.OK
    send(b"2")
    found = one(causes())
    assert found["cause"] == "no members"
    assert "1 record waits to be read" in str(found["evidence"])


def test_the_table_is_readable(barnabas: Call, group: str) -> None:
    result = barnabas("explain", group)
    assert result.code == Exit.NOT_FOUND
    assert result.out.splitlines()[:4] == [
        f"group {group}: not there, 0 members, 0 partitions",
        "",
        f"NO GROUP  there is no group {group}",
        "  seen   no member has joined it, and nothing is committed under its name",
    ]


def test_a_wrong_duration_is_a_wrong_command_line(barnabas: Call, group: str) -> None:
    result = barnabas("explain", group, "--watch", "soon")
    assert result.code == Exit.USAGE
    assert "'soon' is not a duration: write 500ms" in result.err
