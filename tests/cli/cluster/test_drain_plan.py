"""Which brokers take over the replicas of one that is drained."""

from __future__ import annotations

from barnabas.cli.cluster.drain_plan import DrainPlan, moves_off
from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.admin.topics import PartitionDescription
from barnabas.client.model import TopicPartition

NO_RACKS: dict[int, str | None] = dict.fromkeys((1, 2, 3, 4))


def plan_of(
    *replicas: tuple[int, ...],
    racks: dict[int, str | None] = NO_RACKS,
    isr: tuple[int, ...] | None = None,
    active: dict[TopicPartition, Reassignment] | None = None,
) -> DrainPlan:
    """The plan to drain broker 1."""
    partitions = {
        f"t-{number}": (
            "t",
            PartitionDescription(number, assigned[0], 0, assigned, assigned if isr is None else isr, ()),
        )
        for number, assigned in enumerate(replicas)
    }
    return moves_off(1, racks, partitions, active or {})


def targets(plan: DrainPlan) -> list[tuple[int, ...]]:
    assert plan.refusals == []
    return [move.after for move in plan.moves]


def test_a_replica_keeps_its_place_and_goes_where_the_fewest_are() -> None:
    # M-D9
    plan = plan_of((1, 2), (2, 1), (3, 4), (1, 3))
    assert targets(plan) == [(4, 2), (2, 3), (2, 3)]
    assert [move.is_leader for move in plan.moves] == [True, False, True]


def test_racks_stay_apart_where_that_is_possible() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "a"}
    assert targets(plan_of((1, 2), racks=racks)) == [(4, 2)]
    assert targets(plan_of((1, 2), racks={1: "a", 2: "b", 3: "b"})) == [(3, 2)]


def test_a_broker_without_replicas_is_drained_already() -> None:
    plan = plan_of((2, 3))
    assert (plan.moves, plan.moving, plan.refusals) == ([], [], [])


def test_nobody_is_left_to_take_over() -> None:
    plan = plan_of((1, 2, 3, 4))
    assert plan.moves == []
    assert "t-0 has 4 replicas, and there is no other broker" in plan.refusals[0]


def test_the_last_in_sync_replica_on_a_broker_that_is_down_is_not_given_up() -> None:
    down: dict[int, str | None] = dict.fromkeys((2, 3, 4))
    assert targets(plan_of((1, 2), racks=down, isr=(2,))) == [(3, 2)], "the other one has everything"
    plan = plan_of((1, 2), racks=down, isr=(1,))
    assert plan.moves == []
    assert "no in-sync replica but on broker 1, which is down" in plan.refusals[0]
    assert "no in-sync" in plan_of((1, 2), racks=down, isr=()).refusals[0]


def test_moves_in_progress_are_waited_for_and_others_are_refused() -> None:
    partition = TopicPartition("t", 0)
    off = Reassignment((3, 2, 1), (3,), (1,))
    plan = plan_of((3, 2, 1), active={partition: off})
    assert (plan.moves, plan.moving, plan.refusals) == ([], [partition], [])
    onto = Reassignment((1, 2, 3), (1,), (3,))
    assert "t-0 is being reassigned already" in plan_of((1, 2, 3), active={partition: onto}).refusals[0]


def test_an_unknown_broker() -> None:
    plan = moves_off(9, NO_RACKS, {}, {})
    assert plan.refusals == ["there is no broker 9; the brokers are 1, 2, 3, 4"]
