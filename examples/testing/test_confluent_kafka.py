"""An application on confluent-kafka, and its tests: an order becomes a bill, also while a broker fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer


def bill_orders(servers: str, orders: str, bills: str, count: int) -> None:
    """The application: reads so many orders, and writes a bill for each, before it commits."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
    consumer.subscribe([orders])
    try:
        while count:
            message = consumer.poll(1.0)
            if message is None or message.error():
                continue
            order = json.loads(message.value() or b"{}")
            producer.produce(bills, json.dumps({"order": order["id"], "amount": 10 * order["pieces"]}))
            producer.flush()
            consumer.commit(message=message)
            count -= 1
    finally:
        consumer.close()


def test_an_order_becomes_a_bill(kafka: Any) -> None:
    orders, bills = kafka.topic("orders"), kafka.topic("bills")
    orders.send({"id": 7, "pieces": 3})
    bill_orders(kafka.bootstrap_servers, orders.name, bills.name, 1)
    assert bills.records(1)[0].json == {"order": 7, "amount": 30}
    kafka.group("billing").wait_caught_up(orders)


@pytest.mark.barnabas(brokers=3)
def test_no_bill_is_lost_when_the_leader_of_the_bills_is_killed(cluster: Any) -> None:
    orders, bills = cluster.topic("orders"), cluster.topic("bills")
    for number in range(3):
        orders.send({"id": number, "pieces": 1})
    with cluster.kill(cluster.leader("bills")).wait_election(60):
        bill_orders(cluster.bootstrap_servers, "orders", "bills", 3)
    assert {record.json["order"] for record in bills.records(3, timeout=60)} == {0, 1, 2}


def test_a_write_that_is_refused_twice_is_written_once(cluster: Any) -> None:
    orders, bills = cluster.topic("orders"), cluster.topic("bills")
    orders.send({"id": 1, "pieces": 1})
    with cluster.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="bills", times=2) as fault:
        bill_orders(cluster.bootstrap_servers, "orders", "bills", 1)
        assert fault.hits == 2
    assert len(bills.all_records()) == 1
