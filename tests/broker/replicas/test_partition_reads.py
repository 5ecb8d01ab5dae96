"""Reads of a partition: where a consumer in another rack is sent (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.handlers import delete_records
from barnabas.config.errors import ConfigError
from barnabas.protocol.messages.delete_records import DeleteRecordsRequest
from barnabas.protocol.records import metadata as records
from barnabas.replica.replica_selector import RACK_AWARE_SELECTOR
from tests.broker.worlds.data_world import (
    World,
    batch_of,
    fetch_request,
    partition_answers,
    register,
)

RACKS = {1: "a", 2: "b", 3: "c"}


def in_racks(**options: str) -> World:
    world = World(options={"replica.selector.class": RACK_AWARE_SELECTOR, **options})
    for broker_id, rack in RACKS.items():
        record = register(broker_id)
        assert isinstance(record, records.RegisterBrokerRecord)
        record.rack = rack
        world.change(record)
    world.topic("orders", replicas=(1, 2, 3))
    world.produce("orders", batch_of(b"x"), batch_of(b"y"))
    return world


def fetched(world: World, rack: str, offset: int = 0, **fields: Any) -> Any:
    request = fetch_request("orders", {0: offset}, rack_id=rack, **fields)
    return partition_answers(world.fetch(request))["orders", 0]


def follower_at(world: World, broker_id: int, offset: int) -> None:
    world.fetch(fetch_request("orders", {0: offset}, replica_id=broker_id))


def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    world = in_racks()
    follower_at(world, 2, 2)
    follower_at(world, 3, 1)
    data = fetched(world, "b", max_wait_ms=500)
    assert (data.preferred_read_replica, data.error_code, data.records) == (2, 0, b"")
    assert data.high_watermark == 1
    # The replica in that rack does not have the offset yet.
    assert fetched(world, "c", offset=2).preferred_read_replica == -1
    assert fetched(world, "c", offset=1).preferred_read_replica == 3
    # The leader is in this rack, or nobody is.
    assert fetched(world, "a").preferred_read_replica == -1
    assert fetched(world, "elsewhere").preferred_read_replica == -1
    assert fetched(world, "").preferred_read_replica == -1


def test_a_replica_outside_the_isr_is_not_preferred() -> None:
    world = in_racks()
    follower_at(world, 2, 2)
    world.partition_change("orders", isr=[1, 3])
    assert fetched(world, "b").preferred_read_replica == -1


def test_without_the_selector_consumers_stay_with_the_leader() -> None:
    world = in_racks(**{"replica.selector.class": "org.apache.kafka.common.replica.LeaderSelector"})
    follower_at(world, 2, 2)
    assert fetched(world, "b").preferred_read_replica == -1


def test_an_unknown_selector_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replica.selector.class=com.example.Mine is not known"):
        World(options={"replica.selector.class": "com.example.Mine"})


def test_deletion_of_records_waits_for_the_log_start_of_followers() -> None:
    """A follower reports it with its next fetch, which moves no high watermark."""
    world = World()
    world.topic("orders", replicas=(1, 2))
    world.produce("orders", batch_of(b"x"), batch_of(b"y"))
    world.fetch(fetch_request("orders", {0: 2}, replica_id=2))
    partition = DeleteRecordsRequest.Partition(partition_index=0, offset=2)
    topic = DeleteRecordsRequest.Topic(name="orders", partitions=[partition])
    promise = world.ask(delete_records, DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), 2)
    assert not promise.done
    request = fetch_request("orders", {0: 2}, replica_id=2)
    request.topics[0].partitions[0].log_start_offset = 2
    world.fetch(request)
    world.tick()
    assert promise.done
