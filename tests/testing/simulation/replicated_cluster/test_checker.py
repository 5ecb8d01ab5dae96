"""Elections that no rule of replication allows are found (planted changes of the metadata)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.base.ids import Uuid
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.topics import RECOVERING, Partition
from barnabas.protocol.records.metadata import RegisterBrokerRecord, TopicRecord
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.replicated_cluster.checker import ReplicationChecker

TOPIC_ID = Uuid.from_words(1, 2)
DIRECTORY = Uuid.from_words(3, 4)
# Replica 1 is to be replaced by 3.
MOVING = Partition(
    replicas=(1, 2, 3),
    directories=(DIRECTORY,) * 3,
    isr=(1, 2),
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
    removing_replicas=(1,),
    adding_replicas=(3,),
)
MOVED = replace(
    MOVING,
    replicas=(3, 2),
    directories=(DIRECTORY,) * 2,
    isr=(2, 3),
    leader=3,
    leader_epoch=5,
    removing_replicas=(),
    adding_replicas=(),
)


def image_with(state: Partition) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for broker_id in (1, 2, 3):
        delta.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=Uuid.from_words(5, broker_id),
                broker_epoch=broker_id,
                end_points=[],
                features=[],
                rack=None,
                fenced=False,
                log_dirs=[DIRECTORY],
            )
        )
    delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    delta.replay(state.to_record(TOPIC_ID, 0, delta.image.metadata_version))
    return delta.image


def check(before: Partition, after: Partition, *, may_be_unclean: bool = False) -> ReplicationChecker:
    checker = ReplicationChecker(World(0), reference := ReferenceLog())
    checker.may_be_unclean = lambda topic: may_be_unclean
    checker.history("t", TOPIC_ID, 0)
    (listener,) = reference.listeners
    listener(image_with(before), image_with(after))
    return checker


def test_a_replica_may_complete_a_reassignment_and_lead() -> None:
    assert not check(MOVING, MOVED).histories[TOPIC_ID, 0].is_unclean
    # Replica 1 was to be added by a reassignment that was replaced by this one.
    assert not check(replace(MOVING, adding_replicas=(1,)), MOVED).histories[TOPIC_ID, 0].is_unclean


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (replace(MOVING, adding_replicas=(), removing_replicas=()), replace(MOVED, replicas=(1, 2, 3))),
        (MOVING, replace(MOVED, isr=(2,))),
        (MOVING, replace(MOVED, leader_recovery_state=RECOVERING)),
        (MOVING, replace(MOVING, leader=3, leader_epoch=5, isr=(1, 2, 3))),
        (MOVING, replace(MOVED, replicas=(1, 2, 3), removing_replicas=(1,))),
        (replace(MOVING, isr=(1,)), replace(MOVED, replicas=(1, 2), isr=(1, 2), leader=2)),
    ],
    ids=["no reassignment", "not in the ISR", "recovering", "not moved", "not removed yet", "cancelled"],
)
def test_any_other_election_of_a_replica_outside_of_the_isr_is_found(
    before: Partition, after: Partition
) -> None:
    after = replace(after, directories=(DIRECTORY,) * len(after.replicas))
    with pytest.raises(InvariantError, match="is elected"):
        check(before, after)
    assert check(before, after, may_be_unclean=True).histories[TOPIC_ID, 0].is_unclean
