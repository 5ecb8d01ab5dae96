"""The kit's faults beside the same faults of Apache Kafka (SIGKILL, SIGTERM, SIGSTOP, relays, full and slow disks,
quotas, time): what a client sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from barnabas.testing import wait_for
from tests.verify.kit.producing import CLIENT, Client, values
from tests.verify.kit.sides import BROKERS, TIMEOUT_S, Side, state_of

SHORT_S = 0.5
LONG_MS, SHORT_MS = 60_000, 1_000


def is_whole(side: Side, topic: str) -> bool:
    return len(state_of(side.topics, topic).isr) == len(BROKERS)


def lead(side: Side, topic: str) -> Any:
    """The partition, when its ISR is whole."""
    wait_for(lambda: is_whole(side, topic), TIMEOUT_S)
    return state_of(side.topics, topic)


# Brokers ----------------------------------------------------------------------------------------------------


def a_leader_is_killed(side: Side) -> list[Any]:
    return outlived(side, "killed", side.killed)


def a_leader_is_shut_down(side: Side) -> list[Any]:
    return outlived(side, "shut-down", side.shut_down)


def the_disk_of_a_leader_is_full(side: Side) -> list[Any]:
    """Apache Kafka's broker ends, ours resigns: clients go on with another leader."""
    return outlived(side, "full", side.full_disk)


def outlived(side: Side, topic: str, outage: Callable[[int], Any]) -> list[Any]:
    """An idempotent producer loses and doubles nothing, whatever befalls its leader."""
    side.topics.topic(topic, replication_factor=3)
    before = lead(side, topic)
    client = Client(side, **{"enable.idempotence": True})
    client.write(topic, "before")
    with outage(before.leader):
        client.write(topic, "during", "and more")
        wait_for(lambda: state_of(side.topics, topic).leader not in (None, before.leader), TIMEOUT_S)
        wait_for(lambda: before.leader not in state_of(side.topics, topic).isr, TIMEOUT_S)
        epochs = state_of(side.topics, topic).leader_epoch - before.leader_epoch
    wait_for(lambda: is_whole(side, topic), TIMEOUT_S)
    return [*client.told, epochs > 0, values(side, topic)]


def a_leader_is_paused(side: Side) -> list[Any]:
    topic = side.topics.topic("paused", replication_factor=1)
    client = Client(side, **{"message.timeout.ms": SHORT_MS, "retries": 0})
    topic.send("before")
    client.write("paused", "first")
    with side.paused(state_of(side.topics, "paused").leader):
        client.write("paused", "during")
    # It was on its way: the broker writes it when it goes on.
    topic.records(3, timeout=TIMEOUT_S)
    return [*client.told, values(side, "paused")]


def the_disk_of_a_leader_is_slow(side: Side) -> list[Any]:
    topic = side.topics.topic("slow", replication_factor=1, configs={"flush.messages": 1})
    hasty = Client(side, **{"message.timeout.ms": SHORT_MS, "retries": 0})
    patient = Client(side, **{"enable.idempotence": True})
    hasty.write("slow", "before")
    with side.slow_disk(state_of(side.topics, "slow").leader, 3 * SHORT_MS / 1_000):
        hasty.write("slow", "hasty")
        patient.write("slow", "patient")
    topic.records(3, timeout=TIMEOUT_S)
    return [*hasty.told, *patient.told, values(side, "slow")]


# Replicas ---------------------------------------------------------------------------------------------------


def too_few_replicas_are_in_sync(side: Side) -> list[Any]:
    side.topics.topic("shrunk", replication_factor=3, configs={"min.insync.replicas": 3})
    client = Client(side, retries=0, acks="all")
    client.write("shrunk", "before")
    state = lead(side, "shrunk")
    follower = next(broker for broker in state.replicas if broker != state.leader)
    # The leader itself may know it a moment after the others.
    probe = Client(side, retries=0, acks="all", **{"request.timeout.ms": SHORT_MS})

    def is_refused() -> bool:
        probe.write("shrunk", "probe")
        return probe.told[-1] == "probe: NOT_ENOUGH_REPLICAS"

    with side.out_of_isr("shrunk", follower):
        wait_for(is_refused, TIMEOUT_S)
        client.write("shrunk", "during")
    lead(side, "shrunk")
    client.write("shrunk", "after")
    return [*client.told, [value for value in values(side, "shrunk") if value != b"probe"]]


def a_leader_is_cut_off_from_its_followers(side: Side) -> list[Any]:
    side.topics.topic("apart", replication_factor=3, configs={"min.insync.replicas": 2})
    client = Client(side, retries=0, acks="all", **{"message.timeout.ms": LONG_MS})
    state = lead(side, "apart")
    client.write("apart", "before")
    with side.cut_off(state.leader):
        # The leader does not know yet, and nothing confirms it.
        hasty = Client(side, retries=0, acks="all", **{"message.timeout.ms": SHORT_MS})
        hasty.write("apart", "unconfirmed")
        wait_for(lambda: state_of(side.topics, "apart").isr == (state.leader,), TIMEOUT_S)
        client.write("apart", "refused")
    after = lead(side, "apart")
    client.write("apart", "after")
    return [*hasty.told, *client.told, after.leader == state.leader, values(side, "apart")]


def a_leader_is_elected_by_force(side: Side) -> list[Any]:
    side.topics.topic("elected", replication_factor=3)
    before = lead(side, "elected")
    client = Client(side, **{"enable.idempotence": True})
    client.write("elected", "before")
    side.elect("elected", next(broker for broker in before.replicas if broker != before.leader))
    client.write("elected", "after")
    after = state_of(side.topics, "elected")
    return [*client.told, after.leader_epoch - before.leader_epoch, len(after.isr), values(side, "elected")]


# Requests ---------------------------------------------------------------------------------------------------


def dropped(when: str, **options: Any) -> Callable[[Side], list[Any]]:
    def scenario(side: Side) -> list[Any]:
        name = f"dropped-{when}-{len(options)}-{options.get('retries')}"
        side.topics.topic(name, replication_factor=1)
        client = Client(side, **options)
        client.write(name, "before")
        with side.struck(CLIENT, "Produce", drop=when, times=1) as fault:
            client.write(name, "struck")
        client.write(name, "after")
        return [*client.told, fault.hits, values(side, name)]

    return scenario


def produce_is_delayed(side: Side) -> list[Any]:
    topic = side.topics.topic("delayed", replication_factor=1)
    client = Client(side, **{"message.timeout.ms": 2 * SHORT_MS, "retries": 0})
    client.write("delayed", "before")
    with side.struck(CLIENT, "Produce", delay=SHORT_S, times=1) as short:
        client.write("delayed", "a little")
    with side.struck(CLIENT, "Produce", delay=4 * SHORT_MS / 1_000, times=1) as long:
        client.write("delayed", "too long")
        # Served all the same: nobody listens any more.
        topic.records(3, timeout=TIMEOUT_S)
    return [*client.told, short.hits, long.hits, values(side, "delayed")]


def a_client_is_cut_off(side: Side) -> list[Any]:
    side.topics.topic("client-cut-off", replication_factor=1)
    client = Client(side, **{"enable.idempotence": True})
    hasty = Client(side, **{"client.id": "struck-hasty", "message.timeout.ms": SHORT_MS})
    other = Client(side, **{"client.id": "other"})
    for each in (client, hasty, other):
        each.write("client-cut-off", "before")
    with side.client_cut_off("struck-hasty"), side.client_cut_off(CLIENT):
        client.send("client-cut-off", "waits")
        hasty.write("client-cut-off", "gives up")
        other.write("client-cut-off", "is served")
        told = list(client.told)
    client.flush()
    found = values(side, "client-cut-off")
    return [told, client.told, hasty.told, other.told, found.count(b"waits"), found.count(b"is served")]


def a_producer_is_throttled(side: Side) -> list[Any]:
    side.topics.topic("throttled", replication_factor=1)
    client, other = Client(side), Client(side, **{"client.id": "other"})
    with side.throttled(CLIENT):

        def is_told() -> bool:
            client.write("throttled", "a")
            client.producer.poll(0.05)
            return client.throttled

        # A quota counts when the broker has learnt of it.
        wait_for(is_told, TIMEOUT_S)
        other.write("throttled", "a")
    return [set(client.told), client.throttled, set(other.told), other.throttled]


# Coordinators -----------------------------------------------------------------------------------------------


def a_transaction_expires(side: Side) -> list[Any]:
    topic = side.topics.topic("expired", replication_factor=3)
    client = Client(side, **{"transactional.id": "expired", "transaction.timeout.ms": 3_000})
    client.producer.init_transactions(TIMEOUT_S)
    client.producer.begin_transaction()
    client.write("expired", "lost")
    side.expire("expired")
    with pytest.raises(KafkaException) as refused:
        client.producer.commit_transaction(TIMEOUT_S)
    error = refused.value.args[0]
    told = [*client.told, error.name(), error.fatal(), error.txn_requires_abort()]
    return [*told, len(topic.all_records(committed=True)), values(side, "expired")]


def rebalanced(protocol: str) -> Callable[[Side], list[Any]]:
    def scenario(side: Side) -> list[Any]:
        name = f"rebalanced-{protocol}"
        topic = side.topics.topic(name, partitions=2)
        events: list[str] = []

        def saw(event: str) -> Callable[[Any, Any], None]:
            return lambda _, places: events.append(f"{event} {len(places)}")

        options = {"heartbeat.interval.ms": 200} if protocol == "classic" else {}
        consumer = Consumer(
            {
                "bootstrap.servers": side.topics.bootstrap_servers,
                "group.id": name,
                "group.protocol": protocol,
                "client.id": CLIENT,
                "auto.offset.reset": "earliest",
                **options,
            }
        )
        read: list[bytes | None] = []

        def polled(condition: Callable[[], bool]) -> bool:
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                read.append(message.value())
            return condition()

        consumer.subscribe([name], on_assign=saw("assigned"), on_revoke=saw("revoked"), on_lost=saw("lost"))
        try:
            wait_for(lambda: polled(lambda: len(events) >= 1), TIMEOUT_S)
            topic.send("before")
            wait_for(lambda: polled(lambda: len(read) == 1), TIMEOUT_S)
            consumer.commit(asynchronous=False)
            side.rebalance(name, CLIENT, protocol)
            wait_for(lambda: polled(lambda: len(events) >= 3), TIMEOUT_S)
            topic.send("after")
            wait_for(lambda: polled(lambda: len(read) == 2), TIMEOUT_S)
        finally:
            consumer.close()
        return [events[:3], read]

    return scenario


SCENARIOS = [
    a_leader_is_killed,
    a_leader_is_shut_down,
    a_leader_is_paused,
    the_disk_of_a_leader_is_full,
    the_disk_of_a_leader_is_slow,
    too_few_replicas_are_in_sync,
    a_leader_is_cut_off_from_its_followers,
    a_leader_is_elected_by_force,
    pytest.param(dropped("before", **{"enable.idempotence": True}), id="dropped_before_idempotent"),
    pytest.param(dropped("before", retries=0), id="dropped_before_without_retries"),
    pytest.param(dropped("before", retries=5), id="dropped_before_with_retries"),
    pytest.param(dropped("after", **{"enable.idempotence": True}), id="dropped_after_idempotent"),
    pytest.param(dropped("after", retries=0), id="dropped_after_without_retries"),
    pytest.param(dropped("after", retries=5), id="dropped_after_with_retries"),
    produce_is_delayed,
    a_client_is_cut_off,
    a_producer_is_throttled,
    a_transaction_expires,
    pytest.param(rebalanced("classic"), id="a_classic_group_rebalances"),
    pytest.param(rebalanced("consumer"), id="a_member_of_a_consumer_group_is_fenced"),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_client_sees_the_same(sides: dict[str, Side], scenario: Callable[[Side], list[Any]]) -> None:
    assert scenario(sides["kit"]) == scenario(sides["apache"])
