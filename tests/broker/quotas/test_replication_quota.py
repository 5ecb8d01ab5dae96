"""KIP-73: throttled replicas, on the side of leaders and of followers."""

from __future__ import annotations

from typing import Any

from barnabas.broker.quotas.rates import Window
from barnabas.broker.quotas.replication_quota import ReplicationQuota
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.protocol.records.metadata import ConfigRecord
from tests.broker.replication.follower_world import FollowerWorld
from tests.broker.replication.test_truncations import leader_content
from tests.broker.worlds.data_world import World, batch_of, fetch_request, partition_answers
from tests.storage.logs import HandClock


def record(kind: int, name: str, key: str, value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def rate(side: str, value: int, broker: str = "1") -> ConfigRecord:
    return record(ConfigResource.BROKER, broker, f"{side}.replication.throttled.rate", str(value))


def replicas(side: str, value: str, topic: str = "orders") -> ConfigRecord:
    return record(ConfigResource.TOPIC, topic, f"{side}.replication.throttled.replicas", value)


def image_of(*records: ConfigRecord) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for each in records:
        delta.replay(each)
    delta.at(1, 1, 0)
    return delta.image


def quota_of(clock: HandClock, *records: ConfigRecord) -> ReplicationQuota:
    quota = ReplicationQuota("leader", 1, Window(11, 1_000), clock)
    quota.configure(image_of(*records))
    return quota


def test_the_lists_of_throttled_replicas() -> None:
    quota = quota_of(HandClock(), replicas("leader", "0:1,1:2, 3:1"), replicas("leader", "*", "all"))
    assert [index for index in range(5) if quota.is_throttled("orders", index)] == [0, 3]
    assert quota.is_throttled("all", 77)
    assert not quota.is_throttled("others", 0)
    assert not quota.is_set


def test_a_broker_has_its_own_rate_or_the_default() -> None:
    clock = HandClock()
    for own, default, expected in ((500, 100, 500), (None, 100, 100)):
        records = [rate("leader", default, broker="")]
        if own is not None:
            records.append(rate("leader", own))
        quota = quota_of(clock, *records)
        quota.record(expected)
        assert quota.throttle_ms() == 0
        quota.record(1)
        assert quota.throttle_ms() > 0


def test_a_rate_falls_with_time() -> None:
    clock = HandClock()
    quota = quota_of(clock, rate("leader", 1_000))
    quota.record(3_000)
    assert quota.throttle_ms() == 1_000
    clock.now_ms += 2_500
    assert quota.throttle_ms() == 500
    clock.now_ms += 500
    assert quota.throttle_ms() == 0
    clock.now_ms += 11_000
    quota.record(999)
    assert quota.throttle_ms() == 0


def test_a_leader_sends_nothing_to_a_throttled_replica_above_the_quota() -> None:
    world = World()
    world.topic("orders", replicas=(1, 2, 3), isr=(1, 3))
    world.change(rate("leader", 10), replicas("leader", "0:1"))
    world.produce("orders", batch_of(b"x" * 100))

    def fetched(broker_id: int) -> Any:
        request = fetch_request("orders", {0: 0}, replica_id=broker_id)
        return partition_answers(world.fetch(request))["orders", 0].records

    assert fetched(2)
    assert not fetched(2)
    # A replica in sync is not held back.
    assert fetched(3)
    world.tick(60_000)
    assert fetched(2)


def test_a_follower_waits_with_a_throttled_replica_above_the_quota() -> None:
    world = FollowerWorld()
    topic_id = world.followed()
    world.change(rate("follower", 10), replicas("follower", "*"))
    world.respond(topic_id, leader_content(2), high_watermark=100)
    request = world.request()
    assert (request.topics, len(request.forgotten_topics_data)) == ([], 1)
    world.connection.respond(None, OSError("closed"))
    world.tick(1_000)
    assert world.request().topics[0].partitions[0].fetch_offset == 2


def test_a_follower_in_sync_is_not_throttled() -> None:
    world = FollowerWorld()
    topic_id = world.followed()
    world.change(rate("follower", 10), replicas("follower", "*"))
    world.respond(topic_id, leader_content(2), high_watermark=2)
    assert world.request().topics[0].partitions[0].fetch_offset == 2
