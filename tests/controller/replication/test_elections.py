"""Leaders in a cluster of three brokers."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.metadata.topics import NO_LEADER, RECOVERING
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.schema import Message
from tests.controller.replication.three_brokers import Three


def test_a_follower_replaces_a_fenced_leader() -> None:
    three = Three()
    three.fence(1)
    assert (three.partition.leader, three.partition.isr, three.partition.leader_epoch) == (2, (2, 3), 1)
    three.unfence(1)
    # It is no longer the leader and has to catch up before it is in sync again.
    assert (three.partition.leader, three.partition.isr) == (2, (2, 3))


def test_the_preferred_leader_is_restored() -> None:
    three = Three()
    three.fence(1)
    three.unfence(1)
    assert three.elect(0).error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.controller.balance_leaders() == []
    assert three.propose([2, 3, 1]).isr == [2, 3, 1]
    assert len(three.append(three.controller.balance_leaders())) == 1
    assert three.partition.leader == 1
    assert three.elect(0).error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_an_election_for_all_partitions_returns_only_those_that_needed_one() -> None:
    three = Three()
    three.fence(1)
    three.unfence(1)
    three.propose([2, 3, 1])
    everything = ElectLeadersRequest(election_type=0, topic_partitions=None)
    (result,) = three.send(everything, ElectLeadersResponse).replica_election_results
    assert [(partition.partition_id, partition.error_code) for partition in result.partition_result] == [
        (0, 0)
    ]
    (result,) = three.send(everything, ElectLeadersResponse).replica_election_results
    assert result.partition_result == []
    with pytest.raises(KafkaError, match="Unknown election type 7"):
        three.send(ElectLeadersRequest(election_type=7, topic_partitions=None), Message)


def test_without_eligible_leader_replicas_the_last_of_the_isr_stays_in_it() -> None:
    three = Three("3.9")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    assert (three.partition.leader, three.partition.isr) == (NO_LEADER, (3,))
    three.unfence(1)
    assert three.partition.leader == NO_LEADER
    assert three.elect(0).error_code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.controller.elect_unclean_leaders() == []
    assert three.elect(1).error_code == 0
    assert (three.partition.leader, three.partition.isr) == (1, (1,))
    assert three.partition.leader_recovery_state == RECOVERING


def test_a_topic_may_allow_unclean_elections() -> None:
    three = Three("3.9", unclean_leader_election_enable="true")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    assert three.partition.leader == NO_LEADER
    three.unfence(1)
    assert (three.partition.leader, three.partition.isr) == (1, (1,))


def test_the_leader_epoch_changes_with_the_leader_and_with_a_removed_replica_alone() -> None:
    """Every change has a partition epoch of its own; followers truncate only after a new leader epoch."""
    three = Three()
    three.join(4)

    def epochs() -> tuple[int, int]:
        return three.partition.leader_epoch, three.partition.partition_epoch

    assert epochs() == (0, 0)
    three.propose([1, 2])
    assert epochs() == (0, 1), "the ISR shrinks"
    three.propose([1, 2, 3])
    assert epochs() == (0, 2), "and grows"
    three.propose([1, 2, 3])
    assert epochs() == (0, 2), "nothing changes"
    three.fence(3)
    assert epochs() == (0, 3), "a follower is fenced"
    three.unfence(3)
    assert epochs() == (0, 3)
    three.move([1, 2, 4])
    assert epochs() == (0, 4), "a replica is added"
    three.epochs[4] = three.image.brokers[4].epoch
    three.propose([1, 2, 4])
    assert (three.partition.replicas, epochs()) == ((1, 2, 4), (1, 5)), "and another one removed"
    three.fence(1)
    assert epochs() == (2, 6), "the leader is fenced"
    three.move([4, 2, 1])
    assert epochs() == (2, 7), "the order changes"
    assert three.elect(0).error_code == 0
    assert (three.partition.leader, epochs()) == (4, (3, 8)), "the preferred replica is elected"
