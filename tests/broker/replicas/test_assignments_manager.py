"""Directory assignments: sent to the controller until it accepts them."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import UNASSIGNED_DIR, Uuid
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from tests.broker.worlds.data_world import DIRECTORY, OTHER_DIRECTORY, World


def sent(world: World) -> list[AssignReplicasToDirsRequest]:
    return [request for request in world.metadata.asked if isinstance(request, AssignReplicasToDirsRequest)]


def test_directories_are_reported_until_the_controller_accepts_them() -> None:
    world = World(dirs=("/data", "/more"))
    world.metadata.holds_answers = True
    world.topic("a", directory=UNASSIGNED_DIR)
    world.topic("b", directory=UNASSIGNED_DIR)
    world.tick()
    (request,) = sent(world)
    assert [directory.id for directory in request.directories] == [DIRECTORY, OTHER_DIRECTORY]
    world.metadata.answers[0].fail(RuntimeError("no controller"))
    world.tick(1000)
    world.metadata.answers[1].set(
        AssignReplicasToDirsResponse(
            throttle_time_ms=0, error_code=ErrorCode.STALE_BROKER_EPOCH, directories=[]
        )
    )
    world.tick(1000)
    assert len(sent(world)) == 3
    topic = AssignReplicasToDirsResponse.TopicData(
        topic_id=Uuid(bytes(16)),
        partitions=[
            AssignReplicasToDirsResponse.PartitionData(
                partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
        ],
    )
    world.metadata.answers[2].set(
        AssignReplicasToDirsResponse(
            throttle_time_ms=0,
            error_code=0,
            directories=[AssignReplicasToDirsResponse.DirectoryData(id=DIRECTORY, topics=[topic])],
        )
    )
    world.tick(10_000)
    assert len(sent(world)) == 3
