"""Sessions of several brokers: expiry, failover of the controller, controlled shutdown, directories."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.controller.replication.elections import MAX_CHANGES_AT_ONCE
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.records.metadata import BrokerRegistrationChangeRecord
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation, heartbeat, registration
from tests.controller.lab import Lab
from tests.controller.replication.three_brokers import Three

SESSION_S = 9
BROKERS = (1, 2, 3, 4, 5)


class Five(Lab):
    """Five brokers that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = {broker_id: self.join(broker_id) for broker_id in BROKERS}

    def beat(self, *broker_ids: int, shut_down: bool = False) -> list[BrokerHeartbeatResponse]:
        return [
            self.send(
                heartbeat(
                    self.epochs[broker_id], self.end_offset, broker_id=broker_id, want_shut_down=shut_down
                ),
                BrokerHeartbeatResponse,
            )
            for broker_id in broker_ids
        ]

    def fence_all_stale(self) -> list[int]:
        """The brokers that the periodic task fences, one decision after the other."""
        fenced = []
        while records := self.append(self.controller.fence_stale(self.now_ns)):
            fenced += [
                record.broker_id for record in records if isinstance(record, BrokerRegistrationChangeRecord)
            ]
        return fenced

    def fail_over(self) -> None:
        """Another controller with the same log becomes active."""
        self.controller.deactivate(self.image)
        self.append(self.controller.activate([], self.now_ns, in_transaction=False))


def test_brokers_without_heartbeats_are_fenced_one_after_the_other() -> None:
    five = Five()
    five.wait(SESSION_S)
    five.beat(2, 4)
    assert five.fence_all_stale() == [], "a session lasts as long as configured"
    five.wait(0.001)
    assert five.fence_all_stale() == [1, 3, 5]
    assert [broker.id for _, broker in sorted(five.image.brokers.items()) if broker.fenced] == [1, 3, 5]
    assert five.fence_all_stale() == []


def test_a_new_active_controller_gives_every_live_broker_a_full_session() -> None:
    """It has not heard of anyone yet: fencing them would move every leader."""
    five = Five()
    five.wait(SESSION_S - 1)
    five.fail_over()
    five.wait(SESSION_S)
    assert five.fence_all_stale() == []
    five.beat(1, 2, 3)
    five.wait(0.001)
    assert five.fence_all_stale() == [4, 5]


def test_a_fenced_broker_has_no_session_after_a_failover() -> None:
    five = Five()
    five.wait(SESSION_S + 1)
    five.beat(1, 2, 3, 4)
    assert five.fence_all_stale() == [5]
    five.fail_over()
    # Its next process need not wait, unlike that of a live broker.
    five.send(registration(2, broker_id=5), BrokerRegistrationResponse)
    with pytest.raises(KafkaError) as refused:
        five.send(registration(2, broker_id=4), BrokerRegistrationResponse)
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_heartbeats_of_the_last_process_do_not_renew_the_session_of_the_next() -> None:
    five = Five()
    old = five.epochs[5]
    five.wait(SESSION_S + 1)
    five.beat(1, 2, 3, 4)
    five.fence_all_stale()
    five.epochs[5] = five.join(5, incarnation=2)
    five.wait(SESSION_S)
    with pytest.raises(KafkaError) as refused:
        five.send(heartbeat(old, five.end_offset, broker_id=5), Message)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    five.wait(0.001)
    five.beat(1, 2, 3, 4)
    assert five.fence_all_stale() == [5]


def test_a_controlled_shutdown_continues_after_a_failover() -> None:
    five = Five()
    five.send(creation("t", partitions=10, replication_factor=3), CreateTopicsResponse)
    assert not five.beat(1, shut_down=True)[0].should_shut_down
    topic = five.image.topics[five.image.topic_ids["t"]]
    assert all(1 not in partition.isr for partition in topic.partitions.values())
    five.fail_over()
    assert five.image.brokers[1].in_controlled_shutdown
    # It leads nothing any more.
    assert five.beat(1, shut_down=True)[0].should_shut_down
    assert five.image.brokers[1].fenced


def test_a_broker_that_shuts_down_gets_no_new_replicas() -> None:
    five = Five()
    five.send(creation("t", partitions=5, replication_factor=5), CreateTopicsResponse)
    five.beat(1, shut_down=True)
    five.send(creation("u", partitions=20, replication_factor=2), CreateTopicsResponse)
    topic = five.image.topics[five.image.topic_ids["u"]]
    assert all(1 not in partition.replicas for partition in topic.partitions.values())


# Directories (KIP-858)


def _assign(
    three: Three, broker_id: int, directory: Uuid, *numbers: int, topic_id: Uuid | None = None
) -> list[int]:
    parts = AssignReplicasToDirsRequest
    topic = parts.TopicData(
        topic_id=three.topic_id if topic_id is None else topic_id,
        partitions=[parts.PartitionData(partition_index=number) for number in numbers],
    )
    request = parts(
        broker_id=broker_id,
        broker_epoch=three.epochs[broker_id],
        directories=[parts.DirectoryData(id=directory, topics=[topic])],
    )
    response = three.send(request, AssignReplicasToDirsResponse)
    return [partition.error_code for partition in response.directories[0].topics[0].partitions]


def test_each_replica_has_a_directory_of_its_own_broker() -> None:
    three = Three()
    directory = three.image.brokers[2].directories[0]
    assert _assign(three, 2, directory, 0, 9) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert three.partition.directories[1] == directory
    assert _assign(three, 2, directory, 0, topic_id=Uuid(b"x" * 16)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    three.join(4)
    three.epochs[4] = three.image.brokers[4].epoch
    other = three.image.brokers[4].directories[0]
    assert _assign(three, 4, other, 0) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_replica_that_moves_to_an_offline_directory_leaves_the_isr() -> None:
    three = Three()
    offline = Uuid(b"o" * 16)
    assert _assign(three, 1, offline, 0) == [0]
    assert (three.partition.leader, three.partition.isr) == (2, (2, 3))
    assert three.partition.directories[0] == offline


def test_two_nodes_with_one_id_do_not_replace_each_other() -> None:
    """The second one is refused while the first one sends heartbeats, and also while that is still starting."""
    lab = Lab()
    epoch = lab.join(2, unfence=False)
    for _ in range(3):
        lab.wait(SESSION_S - 1)
        starting = heartbeat(epoch, lab.end_offset, broker_id=2, want_fence=True)
        assert lab.send(starting, BrokerHeartbeatResponse).is_fenced
        with pytest.raises(KafkaError) as refused:
            lab.send(registration(2, broker_id=2), BrokerRegistrationResponse)
        assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    lab.wait(SESSION_S + 1)
    assert lab.send(registration(2, broker_id=2), BrokerRegistrationResponse).broker_epoch > epoch


def test_after_a_controlled_shutdown_the_next_process_registers_at_once() -> None:
    lab = Lab()
    epoch = lab.join(2)
    stopping = heartbeat(epoch, lab.end_offset, broker_id=2, want_shut_down=True)
    assert lab.send(stopping, BrokerHeartbeatResponse).should_shut_down
    assert lab.send(registration(2, broker_id=2), BrokerRegistrationResponse).broker_epoch > epoch


def test_a_topic_that_is_made_again_while_a_directory_is_away_is_another_topic() -> None:
    """KAFKA-16157 (cluster.md 17): what the returning directory has is not taken for the new topic."""
    three = Three()
    before = three.topic_id
    offline = three.image.brokers[2].directories[0]
    failed = heartbeat(three.epochs[2], three.end_offset, broker_id=2)
    failed.offline_log_dirs = [offline]
    three.send(failed, BrokerHeartbeatResponse)
    assert three.partition.isr == (1, 3)
    named = DeleteTopicsRequest.DeleteTopicState(name="t", topic_id=ZERO_UUID)
    three.send(DeleteTopicsRequest(topics=[named], timeout_ms=1), Message)
    three.send(creation("t", replication_factor=3), CreateTopicsResponse)
    after = three.image.topic_ids["t"]
    assert after != before
    # The broker comes back with its directory, and reports the replica that is in it.
    three.crash(2)
    three.unfence(2)
    assert _assign(three, 2, offline, 0, topic_id=before) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert after in three.image.topics


# Brokers with many partitions


class Many(Five):
    """More partitions than one decision changes."""

    def __init__(self) -> None:
        super().__init__()
        self.send(
            creation("m", partitions=3 * MAX_CHANGES_AT_ONCE, replication_factor=5), CreateTopicsResponse
        )

    def moved_from(self, broker_id: int) -> int:
        partitions = self.image.topics[self.image.topic_ids["m"]].partitions.values()
        return sum(broker_id not in partition.isr for partition in partitions)


def test_a_broker_with_many_partitions_is_fenced_in_batches() -> None:
    """One decision over all of them would hold up the heartbeats of the others."""
    many = Many()
    many.wait(SESSION_S - 1)
    many.beat(1, 2, 3, 4)
    many.wait(2)
    for batch in (1, 2, 3):
        records = many.append(many.controller.fence_stale(many.now_ns))
        assert len(records) == MAX_CHANGES_AT_ONCE
        assert many.moved_from(5) == batch * MAX_CHANGES_AT_ONCE
        assert not many.image.brokers[5].fenced
    assert many.append(many.controller.fence_stale(many.now_ns)) == [
        BrokerRegistrationChangeRecord(broker_id=5, broker_epoch=many.epochs[5], fenced=1)
    ]
    assert many.controller.fence_stale(many.now_ns) == []


def test_a_controlled_shutdown_moves_its_leaderships_in_batches() -> None:
    """M-D9: the broker may stop when the others have read the last one of them."""
    many = Many()
    many.beat(1, 2, 3, 4)
    (first,) = many.beat(5, shut_down=True)
    assert (first.should_shut_down, many.moved_from(5)) == (False, MAX_CHANGES_AT_ONCE)
    many.beat(1, 2, 3, 4)
    assert not many.beat(5, shut_down=True)[0].should_shut_down, "it still leads partitions"
    batches = 0
    while many.append(many.controller.continue_shutdowns()):
        batches += 1
    assert (batches, many.moved_from(5)) == (2, 3 * MAX_CHANGES_AT_ONCE)
    assert not many.controller.state.leads_any(5)
    assert not many.beat(5, shut_down=True)[0].should_shut_down, "the others have not read the last batch"
    many.beat(1, 2, 3)
    assert not many.beat(5, shut_down=True)[0].should_shut_down
    many.beat(4)
    assert many.beat(5, shut_down=True)[0].should_shut_down
