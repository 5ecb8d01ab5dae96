"""Broker registration, heartbeats, fencing and unregistration."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import LOST_DIR, Uuid
from barnabas.metadata.topics import NO_LEADER, RECOVERED, RECOVERING
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from barnabas.testing.simulation.metadata_node import (
    DIRECTORY_ID,
    NODE_ID,
    creation,
    heartbeat,
    registration,
)
from tests.controller.lab import Lab


def _refusal(lab: Lab, request: object) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        lab.send(request, BrokerRegistrationResponse)  # type: ignore[arg-type]
    return refused.value


def _topic(lab: Lab, **options: Any) -> Uuid:
    lab.send(creation("t", **options), CreateTopicsResponse)
    return lab.image.topic_ids["t"]


def test_the_epoch_is_the_next_offset_and_a_caught_up_broker_is_unfenced() -> None:
    # M-E1
    lab = Lab()
    next_offset = lab.end_offset
    epoch = lab.send(registration(), BrokerRegistrationResponse).broker_epoch
    assert epoch == next_offset
    assert lab.image.brokers[NODE_ID].fenced
    behind = lab.send(heartbeat(epoch, epoch - 1), BrokerHeartbeatResponse)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    caught_up = lab.send(heartbeat(epoch, epoch), BrokerHeartbeatResponse)
    assert (caught_up.is_caught_up, caught_up.is_fenced) == (True, False)
    assert lab.written[-1] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1)
    assert lab.records_of(heartbeat(epoch, epoch)) == []


def test_another_incarnation_must_wait_until_the_session_expires() -> None:
    lab = Lab()
    epoch = lab.join()
    assert _refusal(lab, registration(2)).code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    lab.wait(9)
    assert _refusal(lab, registration(2)).code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert lab.controller.fence_stale(lab.now_ns) == []
    lab.wait(0.001)
    fenced = lab.append(lab.controller.fence_stale(lab.now_ns))
    assert fenced == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)]
    assert lab.controller.fence_stale(lab.now_ns) == []
    assert lab.send(registration(2), BrokerRegistrationResponse).broker_epoch > epoch


def test_a_heartbeat_renews_the_lease() -> None:
    lab = Lab()
    epoch = lab.join()
    for _ in range(5):
        lab.wait(8)
        lab.send(heartbeat(epoch, lab.end_offset), BrokerHeartbeatResponse)
        assert lab.controller.fence_stale(lab.now_ns) == []


def test_the_same_incarnation_may_register_again_immediately() -> None:
    lab = Lab()
    epoch = lab.join()
    assert lab.send(registration(1), BrokerRegistrationResponse).broker_epoch == epoch
    assert not lab.image.brokers[NODE_ID].fenced


def test_a_new_controller_starts_sessions_except_for_its_own_previous_process() -> None:
    lab = Lab()
    lab.join()
    lab.join(2)
    lab.controller.activate([], lab.now_ns, in_transaction=False, process_start_offset=lab.end_offset)
    assert _refusal(lab, registration(2, broker_id=2)).code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    lab.send(registration(2), BrokerRegistrationResponse)


def test_a_reelected_controller_gives_its_own_live_broker_a_full_session() -> None:
    """A controller that lost and regained leadership in the same process fenced its own live broker."""
    lab = Lab()
    started_at = lab.end_offset
    lab.join()
    lab.join(2)
    lab.wait(8)
    lab.controller.deactivate(lab.image)
    lab.controller.activate([], lab.now_ns, in_transaction=False, process_start_offset=started_at)
    lab.wait(9)
    assert lab.controller.fence_stale(lab.now_ns) == []
    lab.wait(0.001)
    assert lab.controller.fence_stale(lab.now_ns) != []


def test_a_stale_broker_is_returned_until_it_is_fenced() -> None:
    """A fencing that the log rejected was never retried: the lease was already removed."""
    lab = Lab()
    lab.join()
    lab.join(2)
    lab.wait(10)
    first = lab.controller.fence_stale(lab.now_ns)
    assert lab.controller.fence_stale(lab.now_ns) == first, "nothing was applied, so the same broker again"
    lab.append(first)
    second = lab.append(lab.controller.fence_stale(lab.now_ns))
    assert {record.broker_id for record in (*first, *second)} == {1, 2}  # type: ignore[attr-defined]
    assert lab.controller.fence_stale(lab.now_ns) == []


def test_a_broker_may_stop_once_others_have_read_its_controlled_shutdown() -> None:
    """The offset stays the first one: if each heartbeat moved it, a busy log would prevent the shutdown."""
    lab = Lab()
    leaving, staying = lab.join(), lab.join(2)
    _topic(lab, partitions=2, replication_factor=2)
    shutdown = heartbeat(leaving, lab.end_offset, want_shut_down=True)
    assert not lab.send(shutdown, BrokerHeartbeatResponse).should_shut_down
    moved_at = lab.end_offset - 1
    for _ in range(3):
        lab.append([NoOpRecord()])
        assert not lab.send(shutdown, BrokerHeartbeatResponse).should_shut_down
    lab.send(heartbeat(staying, moved_at - 1, broker_id=2), BrokerHeartbeatResponse)
    assert not lab.send(shutdown, BrokerHeartbeatResponse).should_shut_down
    lab.send(heartbeat(staying, moved_at, broker_id=2), BrokerHeartbeatResponse)
    assert lab.send(shutdown, BrokerHeartbeatResponse).should_shut_down


def test_a_broker_that_registers_again_during_shutdown_is_still_shutting_down() -> None:
    """As after a lost response: the same incarnation, which must not get leaders again."""
    lab = Lab()
    leaving, _ = lab.join(), lab.join(2)
    _topic(lab, partitions=2, replication_factor=2)
    lab.send(heartbeat(leaving, lab.end_offset, want_shut_down=True), BrokerHeartbeatResponse)
    assert lab.send(registration(1), BrokerRegistrationResponse).broker_epoch == leaving
    assert lab.image.brokers[NODE_ID].in_controlled_shutdown
    assert not lab.image.brokers[NODE_ID].fenced
    assert not lab.controller.state.is_active(NODE_ID)
    assert lab.controller.state.heartbeats.is_shutting_down(NODE_ID)
    assert [broker.id for broker in lab.controller.state.usable_brokers()] == [2]


def test_a_single_broker_shuts_down_as_in_apache_kafka() -> None:
    # M-E1: golden/logs/kraft-4.1.0, offsets 217 to 235.
    lab = Lab()
    epoch = lab.join()
    topic_id = _topic(lab)
    leaving = lab.records_of(heartbeat(epoch, lab.end_offset, want_shut_down=True))
    assert leaving == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, in_controlled_shutdown=1),
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            isr=[],
            leader=NO_LEADER,
            eligible_leader_replicas=[1],
            last_known_elr=[1],
        ),
    ]
    request = heartbeat(epoch, lab.end_offset, want_shut_down=True)
    before = len(lab.written)
    assert lab.send(request, BrokerHeartbeatResponse).should_shut_down
    assert lab.written[before:] == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=1)]


def test_after_a_clean_shutdown_the_broker_leads_again_without_recovery() -> None:
    lab = Lab()
    epoch = lab.join()
    topic_id = _topic(lab)
    for _ in range(2):
        lab.send(heartbeat(epoch, lab.end_offset, want_shut_down=True), BrokerHeartbeatResponse)
    records = lab.records_of(registration(2, previous_epoch=epoch))
    assert [type(record) for record in records] == [RegisterBrokerRecord]
    new_epoch = lab.image.brokers[NODE_ID].epoch
    unfenced = lab.records_of(heartbeat(new_epoch, lab.end_offset))
    assert unfenced[1:] == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            isr=[1],
            leader=1,
            eligible_leader_replicas=[],
            last_known_elr=[],
        )
    ]
    assert lab.image.topics[topic_id].partitions[0].leader_recovery_state == RECOVERED


def test_after_a_crash_the_broker_leads_again_with_recovery() -> None:
    # M-E1: written by Apache Kafka 4.1.0 after kill -9 of its only node.
    lab = Lab()
    lab.join()
    topic_id = _topic(lab)
    lab.wait(10)
    first, second = lab.records_of(registration(2))
    assert first == PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, isr=[], leader=NO_LEADER, last_known_elr=[1]
    )
    assert isinstance(second, RegisterBrokerRecord)
    # The epoch is that of the batch's first record, not of its own.
    assert second.broker_epoch == lab.end_offset - 2
    unfenced = lab.records_of(heartbeat(second.broker_epoch, lab.end_offset))
    assert unfenced[1:] == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=topic_id,
            isr=[1],
            leader=1,
            leader_recovery_state=RECOVERING,
            last_known_elr=[],
        )
    ]


def test_leadership_moves_before_a_broker_stops() -> None:
    lab = Lab()
    epochs = {broker_id: lab.join(broker_id) for broker_id in (1, 2)}
    topic_id = _topic(lab, partitions=2, replication_factor=2)
    leaving = heartbeat(epochs[1], lab.end_offset, want_shut_down=True)
    assert not lab.send(leaving, BrokerHeartbeatResponse).should_shut_down
    for partition in lab.image.topics[topic_id].partitions.values():
        assert (partition.leader, partition.isr) == (2, (2,))
    # The other broker has not read it yet, so clients may still be directed to the broker that stops.
    assert not lab.send(leaving, BrokerHeartbeatResponse).should_shut_down
    lab.send(heartbeat(epochs[2], lab.end_offset, broker_id=2), BrokerHeartbeatResponse)
    assert lab.send(leaving, BrokerHeartbeatResponse).should_shut_down
    assert lab.image.brokers[1].fenced


def test_a_broker_is_fenced_at_its_own_request() -> None:
    lab = Lab()
    epoch = lab.join()
    fenced = lab.send(heartbeat(epoch, lab.end_offset, want_fence=True), BrokerHeartbeatResponse)
    assert fenced.is_fenced
    assert lab.image.brokers[NODE_ID].fenced


def test_requests_with_a_stale_broker_epoch_are_rejected() -> None:
    lab = Lab()
    epoch = lab.join()
    for broker_id, epoch_told, message in [
        (1, epoch + 1, f"Expected broker epoch {epoch}, but got broker epoch {epoch + 1}"),
        (5, 0, "Receive a heartbeat from broker 5 before registration"),
    ]:
        refused = _refusal(lab, heartbeat(epoch_told, 0, broker_id=broker_id))
        assert (refused.code, refused.message) == (ErrorCode.STALE_BROKER_EPOCH, message)


def test_invalid_registrations_are_rejected() -> None:
    lab = Lab()
    lab.join(2)
    request = registration()
    request.cluster_id = "other"
    assert _refusal(lab, request).code is ErrorCode.INCONSISTENT_CLUSTER_ID
    for directories, message in [
        ([], "No directories specified in request"),
        ([LOST_DIR], "Reserved directory ID in request"),
        ([DIRECTORY_ID, DIRECTORY_ID], "Duplicate directory ID in request"),
        (
            [Uuid.from_words(2, 4711)],
            f"Broker 2 is already registered with directory {Uuid.from_words(2, 4711)}",
        ),
    ]:
        request = registration()
        request.log_dirs = directories
        refused = _refusal(lab, request)
        assert (refused.code, refused.message) == (ErrorCode.INVALID_REGISTRATION, message)
    request = registration()
    request.features = [feature for feature in request.features if feature.name != "metadata.version"]
    assert _refusal(lab, request).message == "Request features do not contain 'metadata.version'"
    request = registration()
    request.features = [feature for feature in request.features if feature.name != "group.version"]
    refused = _refusal(lab, request)
    assert refused.code is ErrorCode.UNSUPPORTED_VERSION
    assert "does not support finalized version 1 of group.version" in refused.message


def test_replicas_in_a_failed_directory_go_offline() -> None:
    lab = Lab()
    spare = Uuid.from_words(1, 99)
    request = registration()
    request.log_dirs = [DIRECTORY_ID, spare]
    epoch = lab.send(request, BrokerRegistrationResponse).broker_epoch
    lab.send(heartbeat(epoch, lab.end_offset), BrokerHeartbeatResponse)
    lab.join(2)
    topic_id = _topic(lab, replication_factor=2)
    from barnabas.protocol.messages.assign_replicas_to_dirs import (
        AssignReplicasToDirsRequest,
        AssignReplicasToDirsResponse,
    )

    parts = AssignReplicasToDirsRequest
    assign = parts(
        broker_id=1,
        broker_epoch=epoch,
        directories=[
            parts.DirectoryData(
                id=spare,
                topics=[
                    parts.TopicData(
                        topic_id=topic_id,
                        partitions=[parts.PartitionData(partition_index=number) for number in (7, 0, 8)],
                    )
                ],
            )
        ],
    )
    response = lab.send(assign, AssignReplicasToDirsResponse)
    codes = [partition.error_code for partition in response.directories[0].topics[0].partitions]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [unknown, 0, unknown], "each has its own result"
    assert lab.image.topics[topic_id].partitions[0].directory_of(1) == spare
    failing = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=epoch,
        current_metadata_offset=lab.end_offset,
        want_fence=False,
        want_shut_down=False,
        offline_log_dirs=[spare],
    )
    change = lab.records_of(failing)[-1]
    assert change == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, log_dirs=[DIRECTORY_ID])
    partition = lab.image.topics[topic_id].partitions[0]
    assert (partition.leader, partition.isr) == (2, (2,))
    assert lab.records_of(failing) == []


def test_a_broker_can_be_unregistered() -> None:
    lab = Lab()
    lab.join()
    lab.join(2)
    topic_id = _topic(lab, replication_factor=2)
    lab.send(UnregisterBrokerRequest(broker_id=1), UnregisterBrokerResponse)
    assert 1 not in lab.image.brokers
    partition = lab.image.topics[topic_id].partitions[0]
    assert (partition.leader, partition.isr, partition.replicas.count(1)) == (2, (2,), 1)
    refused = _refusal(lab, UnregisterBrokerRequest(broker_id=1))
    assert refused.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert refused.message == "Broker ID 1 is not currently registered"
