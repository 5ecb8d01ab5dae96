"""Errors that the kit answers with beside the same answers of Apache Kafka, and faults of fetches: what clients see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.testing import wait_for
from tests.verify.answers.broker_ask import RawClient, batch
from tests.verify.kit.producing import CLIENT, Client, existing_topic, values
from tests.verify.kit.sides import BROKERS, TIMEOUT_S, Side, state_of

SHORT_S, SHORT_MS = 0.5, 500


def written(topic: str, timeout_ms: int = 5_000) -> dict[str, Any]:
    data = [{"index": 0, "records": batch("a")}]
    return {"acks": -1, "timeout_ms": timeout_ms, "topic_data": [{"name": topic, "partition_data": data}]}


def told_of(answer: Any) -> Any:
    """An answer without what depends on the cluster."""
    if isinstance(answer, dict):
        return {name: told_of(value) for name, value in answer.items() if name != "throttle_time_ms"}
    return [told_of(each) for each in answer] if isinstance(answer, list) else answer


LISTED = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
FETCHED = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000}
# Error, API, version, fields of the request: an answer of a broker that is not the right one.
ERRORS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("NOT_LEADER_OR_FOLLOWER", "Produce", 9, written("codes")),
    (
        "NOT_LEADER_OR_FOLLOWER",
        "ListOffsets",
        6,
        {"replica_id": -1, "topics": [{"name": "codes", "partitions": [LISTED]}]},
    ),
    ("NOT_COORDINATOR", "Heartbeat", 4, {"group_id": "codes", "generation_id": 1, "member_id": "m"}),
    (
        "NOT_COORDINATOR",
        "OffsetCommit",
        8,
        {
            "group_id": "codes",
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": "codes", "partitions": [{"partition_index": 0, "committed_offset": 1}]}],
        },
    ),
    (
        "NOT_LEADER_OR_FOLLOWER",
        "Fetch",
        12,
        {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic": "codes", "partitions": [FETCHED]}]},
    ),
    ("NOT_COORDINATOR", "InitProducerId", 4, {"transactional_id": "codes", "transaction_timeout_ms": 1_000}),
]


@pytest.mark.parametrize(("error", "api", "version", "fields"), ERRORS, ids=lambda each: str(each)[:24])
def test_an_injected_error_is_answered_as_a_real_one(
    sides: dict[str, Side], error: str, api: str, version: int, fields: dict[str, Any]
) -> None:
    for side in sides.values():
        make_codes(side)
    apache, kit = sides["apache"], sides["kit"]
    # Some broker is not the leader, or coordinator.
    answers = [answer_of(apache.port(node), api, version, fields) for node in BROKERS]
    leader = kit.port(state_of(kit.topics, "codes").leader)
    with kit.struck("judge", api, error=error):
        injected = answer_of(leader, api, version, fields)
    assert injected in answers, (injected, answers)
    if "topics" in fields or "topic_data" in fields:
        with kit.struck("judge", api, error=error, topic="codes", partition=0):
            assert answer_of(leader, api, version, fields) == injected


def make_codes(side: Side) -> None:
    if "codes" not in side.topics.topic_names():
        side.topics.topic("codes", replication_factor=1)
        # Their coordinators exist.
        side.topics.group("codes").offsets()
        Client(side, **{"transactional.id": "codes"}).producer.init_transactions(TIMEOUT_S)


def answer_of(port: int, api: str, version: int, fields: dict[str, Any]) -> Any:
    client = RawClient(port, 0, "127.0.0.1")
    try:
        return told_of(client.one(api, version, **fields))
    finally:
        client.close()


# Although it was done ---------------------------------------------------------------------------------------


def test_an_error_after_the_work_is_answered_as_that_of_a_leader_without_followers(
    sides: dict[str, Side],
) -> None:
    """The record is written, nobody confirms it in time, and the answer says so."""
    request = written("unconfirmed", timeout_ms=SHORT_MS)
    answers, found = {}, {}
    for name, side in sides.items():
        side.topics.topic("unconfirmed", replication_factor=3)
        wait_for(lambda: len(state_of(side.topics, "unconfirmed").isr) == len(BROKERS), TIMEOUT_S)  # noqa: B023
        leader = state_of(side.topics, "unconfirmed").leader
        # The leader itself may know that it leads a moment after the others.
        Client(side, acks="all").write("unconfirmed", "before")
        with side.unconfirmed("judge", leader):
            answers[name] = answer_of(side.port(leader), "Produce", 9, request)
        existing_topic(side, "unconfirmed").records(2, timeout=TIMEOUT_S)
        found[name] = values(side, "unconfirmed")
    assert answers["kit"] == answers["apache"]
    assert found["kit"] == found["apache"] == [b"before", b"a"]


def an_answer_is_wrong(error: str, **options: Any) -> Callable[[Side], list[Any]]:
    """A producer that is told of an error that did not happen."""

    def scenario(side: Side) -> list[Any]:
        name = f"wrong-{error.lower()}-{options.get('retries')}"
        side.topics.topic(name, replication_factor=1)
        client = Client(side, **options)
        client.write(name, "before")
        with side.struck(CLIENT, "Produce", error=error, after=True, times=1) as fault:
            client.write(name, "struck")
        client.write(name, "after")
        return [*client.told, fault.hits, values(side, name)]

    return scenario


def a_commit_is_said_to_have_failed(side: Side) -> list[Any]:
    """The offset is committed all the same."""
    topic = side.topics.topic("commit-failed", replication_factor=1)
    topic.send("a")
    consumer = reader(side, "commit-failed")
    told = []
    with side.struck(
        CLIENT, "OffsetCommit", error="TOPIC_AUTHORIZATION_FAILED", after=True, times=1
    ) as fault:
        try:
            consumer.commit(offsets=[TopicPartition("commit-failed", 0, 1)], asynchronous=False)
        except KafkaException as error:
            told.append(error.args[0].name())
    consumer.close()
    return [told, fault.hits, [*side.topics.group("commit-failed").offsets().values()]]


# Fetches ----------------------------------------------------------------------------------------------------


def reader(side: Side, topic: str, client_id: str = CLIENT) -> Consumer:
    """Of the topic's first partition, from its beginning."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.topics.bootstrap_servers,
            "client.id": client_id,
            "group.id": topic,
            "enable.auto.commit": False,
            "fetch.error.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def read(consumer: Consumer, count: int) -> list[Any]:
    """What comes, until so many records have; also errors that are no lost connections."""
    found: list[Any] = []

    def is_enough() -> bool:
        message = consumer.poll(0.05)
        if message is not None:
            error = message.error()
            found.append(message.value() if error is None else error.name())
        return len(found) >= count

    wait_for(is_enough, TIMEOUT_S)
    return found


def fetches_are_struck(name: str, **what: Any) -> Callable[[Side], list[Any]]:
    """A consumer neither loses nor doubles anything."""

    def scenario(side: Side) -> list[Any]:
        topic = side.topics.topic(f"fetched-{name}", replication_factor=1)
        topic.send("before")
        consumer = reader(side, topic.name)
        found = read(consumer, 1)
        with side.struck(CLIENT, "Fetch", times=1, **what) as fault:
            topic.send("struck")
            found += read(consumer, 1)
            wait_for(lambda: fault.hits == 1, TIMEOUT_S)
        topic.send("after")
        found += read(consumer, 1)
        consumer.close()
        return [found, fault.hits]

    return scenario


def fetches_are_held(side: Side) -> list[Any]:
    """Others read meanwhile."""
    topic = side.topics.topic("held", replication_factor=1)
    topic.send("before")
    struck, other = reader(side, "held"), reader(side, "held", "other")
    found, seen = read(struck, 1), read(other, 1)
    with side.struck(CLIENT, "Fetch", hold=True) as fault:
        wait_for(lambda: fault.hits, TIMEOUT_S)
        topic.send("held")
        seen += read(other, 1)
        early = struck.poll(SHORT_S)
    found += read(struck, 1)
    for consumer in (struck, other):
        consumer.close()
    return [found, seen, early]


SCENARIOS = [
    pytest.param(
        an_answer_is_wrong("REQUEST_TIMED_OUT", **{"enable.idempotence": True}), id="timed_out_idempotent"
    ),
    pytest.param(an_answer_is_wrong("REQUEST_TIMED_OUT", retries=0), id="timed_out_without_retries"),
    pytest.param(
        an_answer_is_wrong("NOT_ENOUGH_REPLICAS_AFTER_APPEND", retries=3), id="too_few_with_retries"
    ),
    pytest.param(an_answer_is_wrong("MESSAGE_TOO_LARGE", retries=3), id="refused_for_good"),
    a_commit_is_said_to_have_failed,
    pytest.param(fetches_are_struck("before", drop="before"), id="a_fetch_is_dropped_before"),
    pytest.param(fetches_are_struck("after", drop="after"), id="a_fetch_is_dropped_after"),
    pytest.param(fetches_are_struck("late", delay=SHORT_S), id="a_fetch_is_delayed"),
    pytest.param(
        fetches_are_struck("refused", error="NOT_LEADER_OR_FOLLOWER", after=True), id="a_fetch_is_refused"
    ),
    pytest.param(
        fetches_are_struck("unknown", error="UNKNOWN_LEADER_EPOCH", after=True),
        id="a_fetch_has_a_wrong_epoch",
    ),
    fetches_are_held,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_client_sees_the_same(sides: dict[str, Side], scenario: Callable[[Side], list[Any]]) -> None:
    assert scenario(sides["kit"]) == scenario(sides["apache"])
