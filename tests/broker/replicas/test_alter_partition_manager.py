"""ISR proposals: in one request, tried again, one at a time."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.broker.worlds.data_world import World


def catch_up(world: World, topic: str, broker: int = 2) -> None:
    hosted = world.replicas.find(topic, 0)
    follower = hosted.follower(broker, knows_epoch=False)
    hosted.follower_fetched(
        follower, 0, log_start_offset=0, broker_epoch=100, now_ns=world.clock.monotonic_ns()
    )
    world.replicas.isr_changes.submit(hosted)


def asked(world: World, kind: type) -> list[Any]:
    return [one for one in world.metadata.asked if isinstance(one, kind)]


def refusal(request: Any, code: ErrorCode) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            AlterPartitionResponse.TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    AlterPartitionResponse.PartitionData(
                        partition_index=one.partition_index,
                        error_code=code,
                        leader_id=-1,
                        leader_epoch=-1,
                        isr=[],
                        partition_epoch=-1,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def two_topics() -> World:
    world = World()
    for name in ("a", "b"):
        world.topic(name, replicas=[1, 2], isr=[1])
    return world


def test_proposals_of_a_tick_share_a_request() -> None:
    world = two_topics()
    catch_up(world, "a")
    catch_up(world, "b")
    world.tick()
    (request,) = asked(world, AlterPartitionRequest)
    assert len(request.topics) == 2
    assert world.replicas.find("b", 0).isr == {1, 2}


def test_one_request_is_under_way_at_a_time() -> None:
    world = two_topics()
    world.metadata.holds_answers = True
    catch_up(world, "a")
    world.tick()
    catch_up(world, "b")
    world.tick()
    assert len(asked(world, AlterPartitionRequest)) == 1
    world.metadata.answers[0].set(refusal(world.metadata.asked[0], ErrorCode.INELIGIBLE_REPLICA))
    world.tick()
    assert len(asked(world, AlterPartitionRequest)) == 2
    assert world.replicas.find("a", 0).proposal is None


def test_what_may_work_later_is_tried_again() -> None:
    world = two_topics()
    world.metadata.holds_answers = True
    catch_up(world, "a")
    world.tick()
    world.metadata.answers[0].set(refusal(world.metadata.asked[0], ErrorCode.UNKNOWN_SERVER_ERROR))
    world.tick()
    world.tick(50)
    world.metadata.answers[1].fail(RuntimeError("no controller"))
    world.tick(50)
    world.metadata.answers[2].set(
        AlterPartitionResponse(throttle_time_ms=0, error_code=ErrorCode.STALE_BROKER_EPOCH, topics=[])
    )
    world.metadata.holds_answers = False
    world.tick(50)
    assert len(asked(world, AlterPartitionRequest)) == 4
    assert world.replicas.find("a", 0).isr == {1, 2}


def test_what_a_delta_has_settled_is_not_asked_for() -> None:
    world = two_topics()
    catch_up(world, "a")
    world.partition_change("a", isr=[1, 2])
    world.tick()
    assert asked(world, AlterPartitionRequest) == []
