"""The metadata side of a node: its log, its quorum of one, its controller."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.base.units import NS_PER_MS
from barnabas.batch.control import read_quorum_message
from barnabas.batch.view import BatchView
from barnabas.broker.modes.kraft import controller_driver, raft_store
from barnabas.config.errors import ConfigError
from barnabas.metadata import delta as delta_module
from barnabas.metadata.delta import Delta, InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE
from barnabas.metadata.loader import MetadataLoadError
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.protocol.records.metadata import NoOpRecord, TopicRecord
from barnabas.raft.node import RaftNode
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.refused import StorageRefused
from barnabas.testing.simulation.metadata_node import (
    DATA,
    DIRECTORY_ID,
    METADATA,
    creation,
    format_folder,
    heartbeat,
    registration,
)
from tests.broker.worlds.kraft_world import KraftWorld, Listening


def test_a_first_start_writes_apache_kafkas_records() -> None:
    # M-E1: golden/logs/kraft-4.1.0
    kraft = KraftWorld()
    assert kraft.started.done
    assert kraft.disk.names(METADATA) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
    ]
    assert kraft.disk.read_bytes(f"{METADATA}/quorum-state") == (
        b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1}],"data_version":0}'
    )
    assert kraft.disk.read_bytes(f"{METADATA}/partition.metadata") == (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    )
    assert kraft.disk.read_bytes(f"{METADATA}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"
    leading, bootstrap, registered = kraft.log()
    (change,) = leading.records()
    assert isinstance(read_quorum_message(change), LeaderChangeMessage)
    assert (bootstrap.base_offset, bootstrap.last_offset, registered.last_offset) == (1, 7, 8)
    assert kraft.image.metadata_version == 27
    assert kraft.image.controllers[1].endpoints[0].port == 19093


def test_a_request_becomes_one_batch_a_delta_and_then_a_reply() -> None:
    kraft = KraftWorld()
    epoch = kraft.join()
    assert kraft.image.brokers[1].epoch == epoch
    batches, deltas = len(kraft.log()), len(kraft.deltas)
    seen: list[int] = []
    responses = kraft.send(creation("t", partitions=3))
    kraft.metadata.install(Listening("late", lambda delta: seen.append(len(responses))))
    assert responses == []
    assert "t" not in kraft.image.topic_ids
    kraft.run(30)
    assert isinstance(responses[0], CreateTopicsResponse)
    assert seen == [0], "publishers are called before the response is sent"
    assert len(kraft.log()) == batches + 1
    (delta,) = kraft.deltas[deltas:]
    assert (len(delta.partitions), delta.image) == (3, kraft.image)


def test_a_response_without_records_waits_for_earlier_records() -> None:
    kraft = KraftWorld()
    kraft.join()
    created = kraft.send(creation("t"))
    listed = kraft.send(ListPartitionReassignmentsRequest(topics=None))
    assert (created, listed) == ([], [])
    kraft.run(30)
    assert (len(created), len(listed)) == (1, 1)
    alone = kraft.send(ListPartitionReassignmentsRequest(topics=None))
    assert isinstance(alone[0], ListPartitionReassignmentsResponse), "nothing is pending: at once"


def test_a_restart_leads_in_a_new_epoch_and_knows_everything() -> None:
    # M-E1
    kraft = KraftWorld()
    kraft.join()
    kraft.ask(creation("t", "u", partitions=2, configs={"retention.ms": "7"}), CreateTopicsResponse)
    before = kraft.image
    for epoch in (2, 3):
        kraft.stop()
        assert kraft.names(".snapshot")
        kraft.restart()
        assert kraft.image.epoch == epoch
        assert kraft.image.topic_ids == before.topic_ids
        assert kraft.image.topics == before.topics
        assert kraft.image.configs == before.configs
        assert kraft.image.brokers == before.brokers
        # The first delta has the whole log; publishers need no other source.
        assert kraft.deltas[0].before is EMPTY_IMAGE
        assert len(kraft.deltas[0].partitions) == 4
    assert b"3 " in kraft.disk.read_bytes(f"{METADATA}/leader-epoch-checkpoint")


def test_the_broker_of_this_process_need_not_wait_for_its_old_session() -> None:
    kraft = KraftWorld()
    kraft.join(1)
    kraft.restart()
    kraft.join(2)
    assert not kraft.image.brokers[1].fenced


def test_a_dynamic_quorum_of_one() -> None:
    # KIP-853
    kraft = KraftWorld(dynamic=True)
    assert kraft.metadata.kraft_version == 1
    assert kraft.disk.read_bytes(f"{METADATA}/quorum-state") == (
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
        b'"data_version":1}'
    )
    kinds = [type(read_quorum_message(record)) for record in kraft.log()[0].records()]
    assert kinds == [LeaderChangeMessage, KRaftVersionRecord, VotersRecord]
    kraft.stop()
    kraft.restart()
    assert sum(batch.record_count for batch in kraft.log() if batch.is_control) == 4
    request = _describe("__cluster_metadata", 0)
    voter = _described(kraft, request, 2).topics[0].partitions[0].current_voters[0]
    assert voter.replica_directory_id == DIRECTORY_ID


def _described(kraft: KraftWorld, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
    """The leader responds at once."""
    responses: list[object] = []
    kraft.metadata.ask_quorum(request, version).then(responses.append, responses.append)
    (response,) = responses
    assert isinstance(response, DescribeQuorumResponse)
    return response


def _describe(topic: str, number: int) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequest.PartitionData(partition_index=number)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequest.TopicData(topic_name=topic, partitions=[partition])]
    )


def test_the_quorum_describes_itself() -> None:
    # KIP-595, KIP-836, KIP-853
    kraft = KraftWorld()
    for version in (0, 1, 2):
        answer = _described(kraft, _describe("__cluster_metadata", 0), version)
        assert answer.encode(version)
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 9)
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset, voter.replica_directory_id) == (1, 9, ZERO_UUID)
        assert [node.listeners[0].port for node in answer.nodes] == ([19093] if version == 2 else [])
    for topic, number in [("other", 0), ("__cluster_metadata", 1)]:
        unknown = _described(kraft, _describe(topic, number), 2)
        assert unknown.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_other_partitions_of_the_quorum_are_unknown_each_time() -> None:
    kraft = KraftWorld()
    request = _describe("__cluster_metadata", 0)
    request.topics += _describe("other", 1).topics
    request.topics[0].partitions *= 2
    topics = _described(kraft, request, 2).topics
    assert [
        (topic.topic_name, partition.partition_index, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ] == [
        ("__cluster_metadata", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__cluster_metadata", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("other", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_the_log_moves_on_when_nothing_happens() -> None:
    kraft = KraftWorld({"metadata.max.idle.interval.ms": 500})
    before = len(kraft.records())
    kraft.run(2_000)
    idle = kraft.records()[before:]
    assert len(idle) == 4
    assert all(isinstance(record, NoOpRecord) for record in idle)


def test_a_broker_without_heartbeats_is_fenced() -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.run(8_900)
    assert not kraft.image.brokers[1].fenced
    kraft.run(1_500)
    assert kraft.image.brokers[1].fenced


def test_a_refused_append_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld({"internal.metadata.log.segment.bytes": 4_000})
    kraft.join()
    image, size = kraft.image, len(kraft.log())
    with pytest.raises(KafkaError) as refused:
        kraft.ask(creation("t", partitions=60), CreateTopicsResponse)
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    monkeypatch.setattr(controller_driver, "MAX_WAITING_REPLIES", 0)
    with pytest.raises(KafkaError) as refused:
        kraft.ask(creation("t"), CreateTopicsResponse)
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
    monkeypatch.undo()
    assert (kraft.image, len(kraft.log())) == (image, size)
    kraft.ask(creation("t"), CreateTopicsResponse)
    assert "t" in kraft.image.topic_ids


def test_uncommitted_records_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld()
    kraft.join()
    monkeypatch.setattr(raft_store, "MAX_UNCOMMITTED_BYTES", 1)
    first, second = kraft.send(creation("t")), kraft.send(creation("u"))
    assert isinstance(second[0], KafkaError)
    kraft.run(30)
    assert isinstance(first[0], CreateTopicsResponse)
    kraft.ask(creation("u"), CreateTopicsResponse)


def test_changes_of_more_partitions_than_fit_a_batch_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.ask(creation("t", partitions=25), CreateTopicsResponse)
    monkeypatch.setattr(raft_store, "MAX_RECORDS_PER_BATCH", 10)
    with pytest.raises(KafkaError, match="excessively large"):
        kraft.ask(creation("u", partitions=25), CreateTopicsResponse)
    before = len(kraft.log())
    kraft.run(11_000)
    assert [batch.record_count for batch in kraft.log()[before:]] == [10, 10, 6]
    assert kraft.image.brokers[1].fenced


def test_a_request_waits_for_a_controller_and_is_refused_when_the_node_stops() -> None:
    kraft = KraftWorld(start=False)
    early = kraft.send(creation("t"))
    assert kraft.metadata.leader_id == -1
    kraft.run(200)
    assert kraft.metadata.leader_id == 1
    assert isinstance(early[0], CreateTopicsResponse)
    kraft.stop()
    (late,) = kraft.send(creation("t"))
    assert isinstance(late, KafkaError)
    assert kraft.metadata.leader_id == -1
    kraft.stop()


def test_stopping_waits_for_pending_writes() -> None:
    kraft = KraftWorld()
    kraft.join()
    responses = kraft.send(creation("t"))
    kraft.stop()
    assert isinstance(responses[0], CreateTopicsResponse)
    kraft.restart()
    assert "t" in kraft.image.topic_ids


def test_a_disk_that_fails_stops_the_controller_loudly() -> None:
    kraft = KraftWorld()
    kraft.join()
    responses = kraft.send(creation("t"))
    kraft.node.disk.fail(1, errno.EIO, kinds={Kind.SYNC})
    kraft.run(30)
    (refused,) = responses
    assert isinstance(refused, KafkaError)
    assert len(kraft.failures) == 1
    assert "t" not in kraft.image.topic_ids
    assert kraft.metadata.leader_id == -1
    kraft.stop()


def test_a_disk_that_is_full_stops_it_too() -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.node.disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE}, path=f"{METADATA}/*.log")
    with pytest.raises(KafkaError) as refused:
        kraft.ask(creation("t"), CreateTopicsResponse)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    failure = kraft.failures[0]
    assert isinstance(failure, OSError) and failure.errno == errno.ENOSPC, "F4: no input/output error"
    kraft.stop()
    kraft.restart()
    assert "t" not in kraft.image.topic_ids
    kraft.ask(creation("t"), CreateTopicsResponse)


def test_a_vote_that_cannot_be_kept_fails_the_start() -> None:
    def prepare(disk: Disk) -> None:
        format_folder(disk)
        assert isinstance(disk, SimulatedDisk)
        disk.fail(1, errno.EIO, kinds={Kind.RENAME}, path="*quorum-state*")

    kraft = KraftWorld(prepare=prepare)
    failed: list[BaseException] = []
    kraft.started.then(lambda _: None, failed.append)
    assert (len(failed), len(kraft.failures)) == (1, 1)


# Leadership changes


def _resign(kraft: KraftWorld) -> None:
    parts = kraft.metadata._components
    assert parts is not None
    epoch = parts.driver.active_epoch
    assert epoch is not None
    kraft.enter(lambda: parts.store.resign(epoch))


def _stand(kraft: KraftWorld) -> None:
    parts = kraft.metadata._components
    assert parts is not None
    kraft.enter(parts.store.stand)
    kraft.run(50)


def test_a_controller_that_loses_leadership_fails_waiting_requests() -> None:
    """The driver ignored it: responses waited forever, and decisions used uncommitted records."""
    kraft = KraftWorld()
    kraft.join()
    waiting = kraft.send(creation("t"))
    _resign(kraft)
    kraft.run(1)
    kraft.run(50)
    (refused,) = waiting
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.NOT_CONTROLLER
    assert kraft.metadata.leader_id == -1
    assert "t" not in kraft.image.topic_ids
    late = kraft.send(creation("v"))
    assert late == [], "it waits for a controller"

    _stand(kraft)
    assert kraft.metadata.leader_id == 1
    assert kraft.image.epoch == 2
    assert "t" in kraft.image.topic_ids, "it stayed in the log, and is committed with the new epoch"
    again = kraft.ask(creation("t", "u"), CreateTopicsResponse)
    codes = {topic.name: topic.error_code for topic in again.topics}
    assert codes == {"t": ErrorCode.TOPIC_ALREADY_EXISTS, "u": 0}


def test_an_append_while_the_loss_is_not_reported_yet_is_refused() -> None:
    """The Raft node knows first, the controller after the pending writes: no append slips between."""
    kraft = KraftWorld()
    kraft.join()
    kraft.send(creation("t"))
    size = len(kraft.log())
    _resign(kraft)
    (refused,) = kraft.send(creation("u"))
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.NOT_CONTROLLER
    assert len(kraft.log()) == size
    kraft.run(50)
    _stand(kraft)
    assert list(kraft.image.topic_ids) == ["t"]
    assert kraft.failures == []


def test_a_node_that_leads_again_gives_its_own_live_broker_a_whole_session() -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.run(8_000)
    _resign(kraft)
    _stand(kraft)
    kraft.run(8_900)
    assert not kraft.image.brokers[1].fenced
    kraft.run(1_500)
    assert kraft.image.brokers[1].fenced


def test_one_of_several_voters_gives_its_own_broker_a_whole_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that can be truncated says nothing about when a broker registered: a live one was fenced."""
    kraft = KraftWorld()
    kraft.join(1)
    kraft.restart()
    _resign(kraft)
    kraft.run(20)
    monkeypatch.setattr(RaftNode, "is_alone", False)
    _stand(kraft)
    kraft.run(8_900)
    assert not kraft.image.brokers[1].fenced
    kraft.run(1_500)
    assert kraft.image.brokers[1].fenced


def test_all_stale_brokers_are_fenced_in_one_run() -> None:
    """One broker per run, with eight runs per session: fencing a failed rack took minutes."""
    kraft = KraftWorld()
    kraft.join()
    for broker_id in range(2, 7):
        request = registration(1, broker_id=broker_id)
        epoch = kraft.ask(request, BrokerRegistrationResponse).broker_epoch
        kraft.ask(heartbeat(epoch, kraft.image.offset, broker_id=broker_id), BrokerHeartbeatResponse)
    assert not any(broker.fenced for broker in kraft.image.brokers.values())
    fenced_at: list[int] = []
    kraft.metadata.install(Listening("fenced", lambda delta: fenced_at.append(kraft.world.now_ns)))
    kraft.run(12_000)
    assert all(broker.fenced for broker in kraft.image.brokers.values())
    assert len(fenced_at) == 6
    assert fenced_at[-1] - fenced_at[0] < 100 * NS_PER_MS, "in virtual time, of which a run takes 1,125 ms"


# Images


def test_the_brokers_image_is_its_own() -> None:
    """Broker and controller shared an image: the broker saw uncommitted decisions."""
    kraft = KraftWorld()
    kraft.join()
    kraft.send(creation("t"))
    parts = kraft.metadata._components
    assert parts is not None
    controller = parts.driver.controller
    assert "t" in controller.image.topic_ids
    assert "t" not in kraft.image.topic_ids
    kraft.run(30)
    assert kraft.image.topics == controller.image.topics
    assert kraft.image.topics is not controller.image.topics, "each applied the records by itself"


def test_a_committed_record_that_cannot_be_applied_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Apache Kafka's fault handlers do: state and log differ, and continuing would spread the damage."""
    kraft = KraftWorld()
    kraft.join()
    responses = kraft.send(creation("t"))

    def refuse(self: Delta, record: object) -> None:
        raise InconsistentRecordError("planted")

    handlers: Any = delta_module._HANDLERS
    monkeypatch.setitem(handlers, TopicRecord, refuse)
    kraft.run(30)
    (error,) = kraft.failures
    assert isinstance(error, MetadataLoadError)
    assert "planted" in str(error)
    (refused,) = responses
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.NOT_CONTROLLER
    assert kraft.metadata.leader_id == -1


def test_a_log_that_no_node_can_apply_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.ask(creation("t"), CreateTopicsResponse)
    kraft.stop()

    def refuse(self: Delta, record: object) -> None:
        raise InconsistentRecordError("planted")

    handlers: Any = delta_module._HANDLERS
    monkeypatch.setitem(handlers, TopicRecord, refuse)
    kraft.restart()
    failed: list[BaseException] = []
    kraft.started.then(lambda _: None, failed.append)
    assert isinstance(failed[0], MetadataLoadError)


def test_a_long_log_is_reported_in_chunks_and_published_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = _made_topics()
    image = kraft.image
    kraft.stop()
    monkeypatch.setattr(raft_store, "REPORT_CHUNK_BYTES", 1)
    kraft.restart()
    assert kraft.deltas[0].before is EMPTY_IMAGE
    assert len(kraft.deltas[0].topics) == 10
    assert kraft.image.topics == image.topics


# Snapshots


SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "internal.metadata.log.segment.bytes": 4_000,
    "metadata.max.retention.bytes": 9_000,
}


def test_snapshots_replace_the_log() -> None:
    # KIP-630
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    assert len(kraft.names(".checkpoint")) > 2
    kraft.run(70_000)
    assert kraft.names(".checkpoint.deleted")
    assert kraft.log()[0].base_offset > 0
    kraft.run(70_000)
    assert not kraft.names(".deleted")
    topics = kraft.image.topics
    assert len(topics) == 40
    kraft.stop()
    kraft.restart()
    assert kraft.image.topics == topics


def test_a_snapshot_is_due_after_some_time_too() -> None:
    kraft = KraftWorld({"metadata.log.max.snapshot.interval.ms": 5_000, "metadata.max.idle.interval.ms": 500})
    kraft.run(4_000)
    assert not kraft.names(".checkpoint")
    kraft.run(2_000)
    assert len(kraft.names(".checkpoint")) == 1


def test_a_dynamic_quorum_keeps_its_voters_in_snapshots() -> None:
    kraft = KraftWorld({**SMALL, "metadata.max.retention.bytes": 1}, dynamic=True)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}"), CreateTopicsResponse)
    kraft.run(70_000)
    assert "00000000000000000000-0000000000.checkpoint" not in kraft.disk.names(METADATA)
    kraft.stop()
    kraft.restart()
    assert kraft.refusal is None
    assert (kraft.metadata.leader_id, kraft.metadata.kraft_version) == (1, 1)


def test_snapshots_that_were_not_finished_are_removed() -> None:
    kraft = KraftWorld()
    kraft.stop()
    for name in (
        "00000000000000000005-0000000001.checkpoint.part",
        "00000000000000000005-0000000001-9.checkpoint.part",
    ):
        kraft.disk.open(f"{METADATA}/{name}", create=True).close()
    kraft.restart()
    assert not kraft.names(".part")
    assert kraft.started.done


# Refused starts


def _refused(kraft: KraftWorld) -> str:
    assert kraft.refusal is not None
    assert isinstance(kraft.refusal, StorageRefused | ConfigError), kraft.refusal
    stopped: list[object] = []
    kraft.enter(lambda: kraft.metadata.stop().then(stopped.append, stopped.append))
    kraft.run(10)
    assert stopped == [None]
    return str(kraft.refusal)


def test_a_folder_that_is_not_formatted() -> None:
    kraft = KraftWorld(prepare=lambda disk: disk.make_folder(DATA))
    assert "storage format" in _refused(kraft)


def test_an_empty_log_without_bootstrap_records() -> None:
    def prepare(disk: Disk) -> None:
        format_folder(disk)
        disk.remove(f"{DATA}/bootstrap.checkpoint")

    assert "storage format" in _refused(KraftWorld(prepare=prepare))


def test_a_quorum_of_several_voters() -> None:
    """One of three does not lead alone, and does not pretend to have started."""
    voters = {"controller.quorum.voters": "1@localhost:1,2@localhost:2,3@localhost:3"}
    kraft = KraftWorld(voters)
    kraft.run(10_000)
    assert kraft.refusal is None
    assert not kraft.started.done
    assert kraft.metadata.leader_id == -1


def test_a_voter_with_another_directory_id() -> None:
    kraft = KraftWorld(dynamic=True)
    kraft.stop()
    properties = f"{DATA}/meta.properties"
    changed = kraft.disk.read_bytes(properties).replace(b"QNZvo6frfTevFH", b"QNZvo6frfTevFI")
    kraft.disk.write_atomically(properties, changed)
    kraft.restart()
    assert "start it with that log directory" in _refused(kraft)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("quorum-state", b"{}", "data_version is not a number"),
        ("00000000000000000009-0000000001.checkpoint", b"", "the end of the snapshot is missing"),
        ("00000000000000000009-0000000001.checkpoint", b"x" * 99, "no batch starts here"),
    ],
)
def test_damaged_files(name: str, content: bytes, message: str) -> None:
    kraft = KraftWorld()
    kraft.stop()
    kraft.disk.write_atomically(f"{METADATA}/{name}", content)
    kraft.restart()
    assert message in _refused(kraft)


def test_a_snapshot_with_a_broken_batch() -> None:
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(10):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    kraft.stop()
    path = f"{METADATA}/{kraft.names('.checkpoint')[-1]}"
    content = bytearray(kraft.disk.read_bytes(path))
    content[200] ^= 1
    kraft.disk.write_atomically(path, bytes(content))
    kraft.restart()
    assert "the checksum of a batch is wrong" in _refused(kraft)


def _made_topics() -> KraftWorld:
    """A node that has created topics, each in its own batch."""
    kraft = KraftWorld()
    kraft.join()
    for number in range(10):
        kraft.ask(creation(f"t{number}"), CreateTopicsResponse)
    return kraft


def _flip(kraft: KraftWorld, batch: BatchView, byte: int = 80) -> None:
    """Flips one bit in this batch of the metadata log, which has one segment."""
    (name,) = kraft.names(".log")
    path = f"{METADATA}/{name}"
    content = bytearray(kraft.disk.read_bytes(path))
    position = sum(one.size for one in kraft.log() if one.base_offset < batch.base_offset)
    content[position + byte] ^= 4
    kraft.disk.write_atomically(path, bytes(content))


@pytest.mark.parametrize("which", [1, 5, -1])
@pytest.mark.parametrize("byte", [3, 9, 30, 80])
def test_a_damaged_batch_of_the_metadata_log_is_refused(which: int, byte: int) -> None:
    """F11: the log was truncated at the corrupt batch; later topics became stray, all offsets were lost."""
    kraft = _made_topics()
    kraft.stop()
    damaged, count = kraft.log()[which], len(kraft.log())
    _flip(kraft, damaged, byte)
    before = kraft.disk.read_bytes(f"{METADATA}/{kraft.names('.log')[0]}")
    kraft.restart()
    refusal = _refused(kraft)
    assert f"offset {damaged.base_offset} cannot be read" in refusal
    assert "remove committed-offset-checkpoint" in refusal
    after = kraft.disk.read_bytes(f"{METADATA}/{kraft.names('.log')[0]}")
    assert before == after, "nothing was truncated, so a backup can still complete it"
    kraft.disk.remove(f"{METADATA}/committed-offset-checkpoint")
    kraft.refusal = None
    kraft.restart()
    assert kraft.refusal is None
    assert len(kraft.log()) < count + 3
    assert kraft.started.done, "the advice in the message works"


def test_damage_is_found_after_a_crash_too() -> None:
    """F11: the committed offset is checkpointed while the node runs."""
    kraft = _made_topics()
    kraft.run(2_000)
    kraft.ask(creation("last"), CreateTopicsResponse)
    _flip(kraft, kraft.log()[4])
    kraft.restart()
    assert "the metadata log is corrupt" in _refused(kraft)


def test_a_log_that_lost_its_end_is_refused() -> None:
    """F11: like an incomplete copy."""
    kraft = _made_topics()
    kraft.stop()
    last = kraft.log()[-1]
    path = f"{METADATA}/{kraft.names('.log')[0]}"
    kraft.disk.write_atomically(path, kraft.disk.read_bytes(path)[: -last.size])
    kraft.restart()
    assert f"its end is missing, so offset {last.base_offset} cannot be read" in _refused(kraft)


def test_a_torn_end_that_was_never_acknowledged_is_cut() -> None:
    kraft = _made_topics()
    kraft.stop()
    end = kraft.log()[-1].next_offset
    path = f"{METADATA}/{kraft.names('.log')[0]}"
    kraft.disk.write_atomically(path, kraft.disk.read_bytes(path) + bytes(7) + b"torn")
    kraft.restart()
    assert kraft.refusal is None
    assert kraft.started.done
    assert len(kraft.image.topics) == 10
    assert kraft.log()[-1].next_offset > end


@pytest.mark.parametrize("content", [b"", b"0\n99", b"0\n999\n99\n", b"1\n9\n9\n", b"0\nx\nx\n"])
def test_a_checkpoint_that_is_torn_is_not_believed(content: bytes) -> None:
    kraft = _made_topics()
    kraft.stop()
    kraft.disk.write_atomically(f"{METADATA}/committed-offset-checkpoint", content)
    kraft.restart()
    assert kraft.refusal is None
    assert kraft.started.done


def test_records_in_a_snapshot_need_not_be_in_the_log() -> None:
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(20):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    kraft.stop()
    latest = kraft.names(".checkpoint")[-1]
    committed = int(latest.split("-")[0])
    kraft.disk.write_atomically(
        f"{METADATA}/committed-offset-checkpoint", f"0\n{committed}\n{committed}\n".encode()
    )
    for name in kraft.names(".log"):
        kraft.disk.write_atomically(f"{METADATA}/{name}", b"")
    kraft.restart()
    assert kraft.refusal is None
    assert kraft.started.done


def test_a_log_that_starts_too_late() -> None:
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    kraft.run(70_000)
    kraft.stop()
    for name in kraft.names(".checkpoint"):
        kraft.disk.remove(f"{METADATA}/{name}")
    kraft.restart()
    assert "no snapshot has earlier records" in _refused(kraft)


# Apache Kafka's directories


@pytest.mark.parametrize(("mode", "epoch", "topics"), [("kraft-4.1.0", 2, 15), ("kraft-3.9.1", 2, 15)])
def test_apache_kafkas_folder_is_continued(golden_logs: Path, mode: str, epoch: int, topics: int) -> None:
    # M-E2
    source = golden_logs / mode / "data"

    def prepare(disk: Disk) -> None:
        disk.make_folder(DATA)
        for path in [*source.glob("*.*"), *(source / "__cluster_metadata-0").iterdir()]:
            if path.is_file():
                target = f"{DATA}/{path.relative_to(source)}"
                disk.make_folder(target.rpartition("/")[0])
                disk.write_atomically(target, path.read_bytes())

    kraft = KraftWorld(prepare=prepare)
    assert kraft.refusal is None, kraft.refusal
    image = kraft.image
    assert (image.epoch, len(image.topics)) == (epoch, topics)
    assert image.configs_of(2, "compacted")["cleanup.policy"] == "compact"
    assert image.brokers[1].fenced
    assert image.scram
    assert image.quotas
    kraft.stop()
    kraft.restart()
    for name in ("topics", "topic_ids", "brokers", "features", "configs", "quotas", "scram", "acls"):
        assert getattr(kraft.image, name) == getattr(image, name)
