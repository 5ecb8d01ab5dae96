"""An application on Quix Streams, and its tests (`pip install quixstreams`): sums, exactly once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from quixstreams import Application, State


def add(order: dict[str, Any], state: State) -> dict[str, Any]:
    total = state.get("total", 0) + order["amount"]
    state.set("total", total)
    return {"total": total}


def sum_orders(servers: str, orders: str, totals: str, count: int, folder: Path) -> None:
    """The application: for each order the sum of its customer so far."""
    application = Application(
        broker_address=servers,
        consumer_group="sums",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=0.2,
        state_dir=folder,
    )
    source = application.topic(orders, value_deserializer="json", key_deserializer="str")
    target = application.topic(totals, value_serializer="json", key_serializer="str")
    application.dataframe(source).apply(add, stateful=True).to_topic(target)
    application.run(count=count, timeout=60)


def test_orders_are_summed(kafka: Any, tmp_path: Path) -> None:
    orders, totals = kafka.topic("orders"), kafka.topic("totals")
    for amount in (3, 4):
        orders.send({"amount": amount}, key="alice")
    sum_orders(kafka.bootstrap_servers, orders.name, totals.name, 2, tmp_path)
    assert [record.json["total"] for record in totals.records(2, committed=True)] == [3, 7]
    kafka.group("sums").wait_caught_up(orders)


@pytest.mark.barnabas(brokers=3)
def test_sums_go_on_after_a_failure(cluster: Any, tmp_path: Path) -> None:
    orders, totals = cluster.topic("orders"), cluster.topic("totals")
    orders.send({"amount": 3}, key="alice")
    sum_orders(cluster.bootstrap_servers, "orders", "totals", 1, tmp_path / "first")
    orders.send({"amount": 4}, key="alice")
    with cluster.kill(cluster.leader("totals")).wait_election(60):
        # Its state comes back from the topic of changes: it starts in another folder, as on another machine.
        sum_orders(cluster.bootstrap_servers, "orders", "totals", 1, tmp_path / "second")
    assert [record.json["total"] for record in totals.records(2, committed=True, timeout=60)] == [3, 7]
