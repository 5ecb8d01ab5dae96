"""AlterPartition: the ISR, the eligible leader replicas, and proposals that are rejected."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.metadata.topics import NO_LEADER, RECOVERED, RECOVERING
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.controller.lab import Lab
from tests.controller.replication.three_brokers import Three


def test_an_old_level_bumps_the_leader_epoch_when_the_isr_shrinks() -> None:
    for release, grows in [("3.5", 1), ("3.6", 0)]:
        three = Three(release)
        assert three.propose([1, 2], broker_epochs={}).leader_epoch == grows


def test_invalid_isr_proposals_are_rejected() -> None:
    # KIP-497, KIP-841, KIP-903
    three = Three()
    three.fence(3)
    three.unfence(3)
    now = three.partition
    refusals = [
        (three.propose([1, 2], leader_epoch=now.leader_epoch + 1), ErrorCode.NOT_CONTROLLER),
        (three.propose([1, 2], partition_epoch=now.partition_epoch + 1), ErrorCode.NOT_CONTROLLER),
        (three.propose([1, 2], leader_epoch=now.leader_epoch - 1), ErrorCode.FENCED_LEADER_EPOCH),
        (three.propose([1, 2], broker_id=2), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 2], partition_epoch=now.partition_epoch - 1), ErrorCode.INVALID_UPDATE_VERSION),
        (three.propose([]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 1]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 4]), ErrorCode.INVALID_REQUEST),
        (three.propose([2, 3]), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 2], recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (three.propose([1], recovery_state=RECOVERING), ErrorCode.INVALID_REQUEST),
        (three.propose([1, 3], broker_epochs={3: three.epochs[3] - 1}), ErrorCode.INELIGIBLE_REPLICA),
        (three.propose([1, 2], topic_id=Uuid(b"x" * 16)), ErrorCode.UNKNOWN_TOPIC_ID),
        (three.propose([1, 2], number=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [response.error_code for response, _ in refusals] == [code for _, code in refusals]
    assert three.partition == now
    three.fence(2)
    assert three.propose([1, 2]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_resigns_by_leaving_the_isr_and_another_member_leads() -> None:
    """Its disk is full.  Apache Kafka's controller answers INVALID_REQUEST."""
    three = Three()
    before = three.partition
    assert (before.leader, before.isr) == (1, (1, 2, 3))
    assert three.propose([2, 3]).error_code == ErrorCode.NEW_LEADER_ELECTED
    after = three.partition
    assert (after.leader, after.isr) == (2, (2, 3))
    assert after.leader_epoch == before.leader_epoch + 1
    assert three.propose([3], broker_id=2).error_code == ErrorCode.NEW_LEADER_ELECTED
    assert (three.partition.leader, three.partition.isr) == (3, (3,))
    assert three.propose([], broker_id=3).error_code == ErrorCode.INVALID_REQUEST, "nobody is left"


def test_a_replica_that_leaves_below_min_isr_stays_eligible() -> None:
    # KIP-966
    three = Three(min_insync_replicas="2")
    three.fence(3)
    assert (three.partition.isr, three.partition.elr) == ((1, 2), ())
    three.fence(2)
    assert (three.partition.isr, three.partition.elr) == ((1,), (2,))
    three.fence(1)
    assert (three.partition.isr, three.partition.elr) == ((), (1, 2))
    assert three.partition.last_known_elr == (1,)
    three.unfence(3)
    assert three.partition.leader == NO_LEADER
    three.unfence(2)
    assert (three.partition.leader, three.partition.isr, three.partition.elr) == (2, (2,), (1,))
    assert three.partition.leader_recovery_state == RECOVERED
    three.unfence(1)
    assert three.propose([2, 1]).error_code == 0
    assert (three.partition.isr, three.partition.elr) == ((2, 1), ())


def test_a_request_without_partitions_is_answered_to_anyone() -> None:
    """Apache Kafka looks at the broker's epoch only if there is something to alter."""
    request = AlterPartitionRequest(broker_id=99, broker_epoch=1, topics=[])
    answer = Lab().send(request, AlterPartitionResponse)
    assert (answer.error_code, answer.topics) == (0, [])


def test_a_leader_reports_that_it_has_recovered() -> None:
    """KIP-704: after an unclean election the leader recovers before the ISR grows."""
    three = Three("3.9", unclean_leader_election_enable="true")
    for broker_id in (1, 2, 3):
        three.fence(broker_id)
    three.unfence(1)
    three.unfence(2)
    assert three.partition.leader_recovery_state == RECOVERING
    assert three.propose([1], recovery_state=RECOVERING).error_code == 0
    assert three.partition.leader_recovery_state == RECOVERING
    response = three.propose([1, 2], recovery_state=RECOVERED)
    assert (response.error_code, response.leader_recovery_state, response.isr) == (0, RECOVERED, [1, 2])
    assert three.partition.leader_recovery_state == RECOVERED


def test_older_brokers_propose_an_isr_without_epochs() -> None:
    three = Three()
    partition = three.partition
    data = AlterPartitionRequest.PartitionData(
        partition_index=0,
        leader_epoch=partition.leader_epoch,
        new_isr=[1, 3],
        partition_epoch=partition.partition_epoch,
    )
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=three.epochs[1],
        topics=[AlterPartitionRequest.TopicData(topic_id=three.topic_id, partitions=[data])],
    )
    response = three.send(request, AlterPartitionResponse, 2)
    assert (response.throttle_time_ms, response.error_code) == (0, 0)
    assert response.topics[0].partitions[0].isr == [1, 3]
    assert three.partition.isr == (1, 3)
