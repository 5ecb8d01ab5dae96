"""Truncation of a follower's log: workers wait for the device, and a change of role waits for them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.broker.replication.truncations import NO_SPACE_NS
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.log.names import TopicPartition
from tests.broker.replication.follower_world import FollowerWorld
from tests.replica.fetching.world import Replica

NAME = TopicPartition("orders", 0)


def leader_content(*counts: int, epoch: int = 0) -> bytes:
    leader = Replica(2)
    leader.lead(epoch)
    leader.append(*counts)
    return leader.content


def diverged(**options: Any) -> FollowerWorld:
    """A follower with ten records in epoch 0, of which the leader has four."""
    world = FollowerWorld(**options)
    topic_id = world.followed()
    world.respond(topic_id, leader_content(4, 6))
    assert world.log().end_offset == 10
    world.partition_change("orders", leader=3, isr=[1, 3])
    world.settle()
    assert world.request().topics[0].partitions[0].fetch_offset == 10
    world.respond(topic_id, diverging=(0, 4), high_watermark=9)
    return world


def test_a_truncation_waits_for_no_device_on_the_loop() -> None:
    """The world fails at a sync on the loop.  Nothing is fetched before the truncation is durable."""
    world = diverged()
    assert world.log().is_truncating
    assert world.log().high_watermark == 0
    assert [one.partitions for one in world.request().forgotten_topics_data] == [[0]]
    world.connection.respond(None, OSError("gone"))
    world.settle()
    assert not world.log().is_truncating
    assert world.log().end_offset == 4
    assert world.effects.truncated == 1
    assert world.request().topics[0].partitions[0].fetch_offset == 4


def test_a_change_of_role_waits_for_the_truncation() -> None:
    world = diverged()
    world.partition_change("orders", leader=1, isr=[1])
    world.tick(5)
    assert not world.hosted().is_leader
    world.settle()
    assert world.hosted().is_leader
    assert world.log().end_offset == 4
    assert world.log().epochs.entries == [(0, 0), (2, 4)]


def test_a_deletion_waits_for_the_truncation() -> None:
    world = diverged()
    world.delete_topic("orders")
    world.tick(5)
    assert ("orders", 0) in world.replicas.partitions
    world.settle()
    assert ("orders", 0) not in world.replicas.partitions


def test_a_broker_stops_after_the_truncation() -> None:
    world = diverged()
    done = world.replicas.stop()
    assert not done.done
    while not done.done:
        world.workers.run()
        world.tick(1)
    assert not world.replicas.storage.manager.logs[NAME].is_truncating


def test_a_log_that_begins_again_takes_its_offsets_from_the_leader() -> None:
    """cluster.md 9: everything is truncated, on a worker too."""
    world = FollowerWorld()
    topic_id = world.followed()
    world.respond(topic_id, leader_content(4))
    finish = []
    world.effects.truncate(world.hosted(), 20, 20, lambda: finish.append(1))
    world.settle()
    assert finish == [1]
    log = world.log()
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (20, 20, 20)


def test_a_copy_on_its_way_to_another_directory_is_truncated_too() -> None:
    """KIP-113: otherwise records that diverge would come back with the copy."""
    world = FollowerWorld(dirs=("/a", "/b"))
    topic_id = world.followed()
    world.respond(topic_id, leader_content(4, 6))
    world.replicas.moves.stop()
    path = next(path for path in ("/a", "/b") if not world.log().folder.startswith(path))
    world.replicas.moves.move(NAME, path)
    future = world.replicas.storage.manager.futures[NAME]
    future.append_as_follower(leader_content(4, 6), 0)
    world.effects.truncate(world.hosted(), 4, None, lambda: None)
    world.settle()
    assert (world.log().end_offset, future.end_offset) == (4, 4)


def test_a_directory_that_fails_within_a_truncation_ends_it() -> None:
    world = diverged()
    world.replicas.storage.fail(world.log(), OSError("broken"))
    world.settle()
    assert world.failed_dirs == ["/data"]
    assert not world.effects.truncations.is_truncating(NAME)
    assert world.hosted().is_offline


@pytest.mark.parametrize("is_tried_again", [True, False])
def test_a_broker_stops_while_a_truncation_has_no_space(is_tried_again: bool) -> None:
    """Also if a worker is at its next try just then, which ends it once more."""
    disk = SimulatedDisk(SeededRandom(1))
    world = diverged(disk=disk)
    # A write of it waits for a worker: what is truncated would count as flushed, and it must be written again.
    world.replicas.storage.manager.live["/data"].recovery_points.plan({NAME: 10})
    disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE, Kind.CREATE}, path="/data/*", times=10**6)
    world.settle()
    assert world.effects.truncations.is_truncating(NAME)
    assert not world.workers.waiting
    if is_tried_again:
        world.tick(NO_SPACE_NS // NS_PER_MS)
        assert world.workers.waiting
    done = world.replicas.stop()
    while not done.done:
        world.workers.run()
        world.tick(1)
    assert not world.effects.truncations.is_truncating(NAME)
