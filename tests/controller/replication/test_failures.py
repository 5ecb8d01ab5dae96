"""Leaders, ISRs and eligible leader replicas when several brokers fail (cluster.md 11 to 14)."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import NO_LEADER, RECOVERED, RECOVERING
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.testing.simulation.metadata_node import heartbeat
from tests.controller.replication.three_brokers import Three

UNCLEAN = 1


def _state(three: Three) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = three.partition
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


# Proposals of a leader


def test_a_replica_that_is_shutting_down_cannot_join_the_isr() -> None:
    """cluster.md 11 (KAFKA-13916): the leader of another partition still sees it fetch."""
    three = Three()
    three.fence(3)
    three.unfence(3)
    assert three.partition.isr == (1, 2)
    # It leads a partition, which moves first.
    leaving = heartbeat(three.epochs[1], three.end_offset, broker_id=1, want_shut_down=True)
    assert not three.send(leaving, BrokerHeartbeatResponse).should_shut_down
    assert (three.partition.leader, three.partition.isr) == (2, (2,))
    assert three.propose([2, 1]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert three.propose([2, 3]).isr == [2, 3], "the other one may"


def test_a_leader_that_loses_its_partition_by_its_own_proposal() -> None:
    """The ISR completes a reassignment that removes the leader: it must look for its successor."""
    three = Three()
    three.fence(3)
    assert three.move([2, 3]).responses[0].partitions[0].error_code == 0
    three.unfence(3)
    assert three.partition.removing_replicas == (1,)
    assert three.propose([1, 2, 3]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (three.partition.replicas, three.partition.leader, three.partition.isr) == ((2, 3), 2, (2, 3))


def test_a_reassignment_completes_though_none_of_its_targets_can_lead() -> None:
    """The directory of the only target is offline.  Found in a random history of Apache Kafka 4.1.0."""
    three = Three()
    three.fence(3)
    assert three.move([3]).responses[0].partitions[0].error_code == 0
    three.unfence(3)
    three.assign(3, Uuid.from_words(7, 7))
    assert three.propose([1, 3]).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (three.partition.replicas, three.partition.leader, three.partition.isr) == ((3,), NO_LEADER, (3,))


def test_a_zombie_controller_does_not_decide_over_a_newer_partition() -> None:
    """cluster.md 12 (KAFKA-14154): the ISR does not hang, as the leader looks for the present controller."""
    three = Three()
    epoch = three.partition.partition_epoch
    assert three.propose([1, 2], partition_epoch=epoch + 1).error_code == ErrorCode.NOT_CONTROLLER
    assert three.partition.partition_epoch == epoch


def test_an_old_fetch_of_a_restarted_replica_does_not_count() -> None:
    """cluster.md 10 (KAFKA-15221, KIP-903): the leader saw a fetch of the last process."""
    three = Three()
    old = three.epochs[3]
    three.crash(3)
    three.unfence(3)
    assert three.propose([1, 2, 3], broker_epochs={3: old}).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert three.propose([1, 2, 3]).error_code == 0


# Elections


@pytest.mark.parametrize("release", ["3.9", "4.1"])
def test_the_first_replica_that_is_alive_and_in_sync_leads(release: str) -> None:
    three = Three(release)
    three.fence(2)
    assert three.partition.leader == 1, "the leader is not affected"
    three.unfence(2)
    three.fence(1)
    assert (three.partition.leader, three.partition.isr) == (3, (3,)), "2 is alive, but not in sync"


def test_the_last_of_the_isr_crashes_and_comes_back_without_its_log() -> None:
    """cluster.md 13 (KAFKA-15583 and 15584, KIP-966): another eligible replica is elected, not the empty one."""
    three = Three(min_insync_replicas="2")
    three.fence(3)
    three.fence(2)
    three.fence(1)
    assert _state(three) == (NO_LEADER, (), (1, 2), (1,))
    three.restart(1)
    assert _state(three) == (NO_LEADER, (), (2,), (1,))
    three.unfence(1)
    assert three.partition.leader == NO_LEADER
    three.unfence(2)
    assert _state(three) == (2, (2,), (), ())
    assert three.partition.leader_recovery_state == RECOVERED, "nothing that was acknowledged is lost"


def test_a_clean_shutdown_keeps_a_replica_eligible() -> None:
    """cluster.md 13 (KIP-966): the next process proves it with the epoch of the last one."""
    three = Three(min_insync_replicas="2")
    for broker_id in (3, 2, 1):
        three.fence(broker_id)
    three.restart(1, clean=True)
    assert three.partition.elr == (1, 2)
    three.unfence(1)
    assert (three.partition.leader, three.partition.isr) == (1, (1,))


def test_the_last_known_leader_leads_only_when_it_is_alive() -> None:
    """cluster.md 14 (KAFKA-19522): the partition stays offline while the last known leader is fenced."""
    three = Three(min_insync_replicas="2")
    for broker_id in (3, 2, 1):
        three.fence(broker_id)
    three.restart(2)
    three.restart(1)
    assert _state(three) == (NO_LEADER, (), (), (1,))
    three.unfence(2)
    three.unfence(3)
    assert _state(three) == (NO_LEADER, (), (), (1,)), "1 is fenced"
    three.unfence(1)
    assert _state(three) == (1, (1,), (), ())
    assert three.partition.leader_recovery_state == RECOVERING


def test_an_administrator_may_elect_any_live_replica() -> None:
    three = Three(min_insync_replicas="2")
    for broker_id in (3, 2, 1):
        three.fence(broker_id)
    assert three.elect(UNCLEAN).error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    three.unfence(3)
    assert three.elect(UNCLEAN).error_code == 0
    assert _state(three) == (3, (3,), (), ())
    assert three.partition.leader_recovery_state == RECOVERING
    assert three.elect(UNCLEAN).error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_the_periodic_task_elects_where_the_topic_allows_it() -> None:
    three = Three("3.9", unclean_leader_election_enable="true")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    assert three.append(three.controller.elect_unclean_leaders()) == [], "nobody is alive"
    strict = Three("3.9")
    for broker_id in (1, 2, 3):
        strict.fence(broker_id)
    strict.unfence(1)
    assert strict.controller.elect_unclean_leaders() == []


def test_elections_of_unknown_partitions() -> None:
    three = Three()
    topics = [
        ElectLeadersRequest.TopicPartitions(topic="x", partitions=[0]),
        ElectLeadersRequest.TopicPartitions(topic="t", partitions=[7]),
    ]
    request = ElectLeadersRequest(election_type=0, topic_partitions=topics)
    results = three.send(request, ElectLeadersResponse).replica_election_results
    errors = [
        (result.partition_result[0].error_code, result.partition_result[0].error_message)
        for result in results
    ]
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [(code, "No such topic as x"), (code, "No such partition as t-7")]


# Brokers that leave


def test_a_broker_is_unregistered_from_every_isr() -> None:
    three = Three(min_insync_replicas="2")
    three.fence(3)
    three.fence(2)
    response = three.send(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert response.error_code == 0
    assert 1 not in three.image.brokers
    assert three.partition.leader == NO_LEADER
    three.unfence(2)
    assert (three.partition.leader, three.partition.isr) == (2, (2,))


# Replicas that come and go


def test_a_removed_replica_that_is_added_again_is_not_eligible() -> None:
    """Its log was deleted: Apache Kafka 4.1 keeps it in the ELR, and would elect it without its records."""
    three = Three(min_insync_replicas="2")
    three.propose([1, 2])
    three.propose([1])
    assert three.partition.elr == (2,)
    assert three.move([1]).responses[0].partitions[0].error_code == 0
    assert (three.partition.replicas, three.partition.elr) == ((1,), ())
    three.move([2, 1])
    assert three.partition.adding_replicas == (2,)
    three.fence(1)
    assert three.partition.leader == NO_LEADER, "2 has not fetched anything yet"


def test_a_replica_cannot_lead_in_the_moment_in_which_it_is_assigned() -> None:
    three = Three()
    three.join(4)
    three.fence(1)
    three.fence(2)
    three.fence(3)
    three.move([4, 1, 2, 3])
    assert three.partition.leader == NO_LEADER
    assert three.partition.adding_replicas == (4,)
