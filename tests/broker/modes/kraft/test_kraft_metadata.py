"""The metadata side of a node: its log, its quorum of one, its controller."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.batch.control import read_quorum_message
from barnabas.broker.modes.kraft import controller_driver
from barnabas.config.errors import ConfigError
from barnabas.metadata.image import EMPTY_IMAGE
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from barnabas.protocol.records.control import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.protocol.records.metadata import NoOpRecord
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
)
from tests.broker.worlds.kraft_world import KraftWorld


def test_a_first_start_writes_what_apache_kafka_writes() -> None:
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
    heard = kraft.send(creation("t", partitions=3))
    kraft.metadata.subscribe(lambda delta: seen.append(len(heard)))
    assert heard == []
    assert "t" not in kraft.image.topic_ids
    kraft.run(30)
    assert isinstance(heard[0], CreateTopicsResponse)
    assert seen == [0], "who subscribed hears before who asked"
    assert len(kraft.log()) == batches + 1
    (delta,) = kraft.deltas[deltas:]
    assert (len(delta.partitions), delta.image) == (3, kraft.image)


def test_a_reply_without_records_waits_for_what_it_rests_on() -> None:
    kraft = KraftWorld()
    kraft.join()
    created = kraft.send(creation("t"))
    listed = kraft.send(ListPartitionReassignmentsRequest(topics=None))
    assert (created, listed) == ([], [])
    kraft.run(30)
    assert (len(created), len(listed)) == (1, 1)
    alone = kraft.send(ListPartitionReassignmentsRequest(topics=None))
    assert isinstance(alone[0], ListPartitionReassignmentsResponse), "nothing is on its way: at once"


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
        # The first delta has all that the log had; nobody needs another source.
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
    voter = kraft.metadata.describe_quorum(request, 2).topics[0].partitions[0].current_voters[0]
    assert voter.replica_directory_id == DIRECTORY_ID


def _describe(topic: str, number: int) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequest.PartitionData(partition_index=number)
    return DescribeQuorumRequest(
        topics=[DescribeQuorumRequest.TopicData(topic_name=topic, partitions=[partition])]
    )


def test_the_quorum_describes_itself() -> None:
    # KIP-595, KIP-836, KIP-853
    kraft = KraftWorld()
    for version in (0, 1, 2):
        answer = kraft.metadata.describe_quorum(_describe("__cluster_metadata", 0), version)
        assert answer.encode(version)
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 9)
        (voter,) = partition.current_voters
        assert (voter.replica_id, voter.log_end_offset, voter.replica_directory_id) == (1, 9, ZERO_UUID)
        assert [node.listeners[0].port for node in answer.nodes] == ([19093] if version == 2 else [])
    for topic, number in [("other", 0), ("__cluster_metadata", 1)]:
        unknown = kraft.metadata.describe_quorum(_describe(topic, number), 2)
        assert unknown.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_log_moves_on_when_nothing_happens() -> None:
    kraft = KraftWorld({"metadata.max.idle.interval.ms": 500})
    before = len(kraft.records())
    kraft.run(2_000)
    idle = kraft.records()[before:]
    assert len(idle) == 4
    assert all(isinstance(record, NoOpRecord) for record in idle)


def test_a_broker_that_is_not_heard_of_is_fenced() -> None:
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


def test_what_waits_for_the_disk_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld()
    kraft.join()
    monkeypatch.setattr(controller_driver, "MAX_UNCOMMITTED_BYTES", 1)
    first, second = kraft.send(creation("t")), kraft.send(creation("u"))
    assert isinstance(second[0], KafkaError)
    kraft.run(30)
    assert isinstance(first[0], CreateTopicsResponse)
    kraft.ask(creation("u"), CreateTopicsResponse)


def test_changes_of_more_partitions_than_fit_a_batch_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    kraft = KraftWorld()
    kraft.join()
    kraft.ask(creation("t", partitions=25), CreateTopicsResponse)
    monkeypatch.setattr(controller_driver, "MAX_RECORDS_PER_BATCH", 10)
    with pytest.raises(KafkaError, match="excessively large"):
        kraft.ask(creation("u", partitions=25), CreateTopicsResponse)
    before = len(kraft.log())
    kraft.run(11_000)
    assert [batch.record_count for batch in kraft.log()[before:]] == [10, 10, 6]
    assert kraft.image.brokers[1].fenced


def test_before_and_after_its_time_there_is_no_controller() -> None:
    kraft = KraftWorld(start=False)
    (early,) = kraft.send(creation("t"))
    assert isinstance(early, KafkaError)
    assert early.code is ErrorCode.NOT_CONTROLLER
    assert kraft.metadata.leader_id == -1
    kraft.run(50)
    assert kraft.metadata.leader_id == 1
    kraft.stop()
    (late,) = kraft.send(creation("t"))
    assert isinstance(late, KafkaError)
    assert kraft.metadata.leader_id == -1
    kraft.stop()


def test_stopping_waits_for_what_is_on_its_way() -> None:
    kraft = KraftWorld()
    kraft.join()
    heard = kraft.send(creation("t"))
    kraft.stop()
    assert isinstance(heard[0], CreateTopicsResponse)
    kraft.restart()
    assert "t" in kraft.image.topic_ids


def test_a_disk_that_fails_stops_the_controller_loudly() -> None:
    kraft = KraftWorld()
    kraft.join()
    heard = kraft.send(creation("t"))
    kraft.node.disk.fail(1, errno.EIO, kinds={Kind.SYNC})
    kraft.run(30)
    (refused,) = heard
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


# Snapshots


SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": 2_000,
    "internal.metadata.log.segment.bytes": 4_000,
    "metadata.max.retention.bytes": 9_000,
}


def test_snapshots_take_the_place_of_the_log() -> None:
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


# What is refused


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
    voters = {"controller.quorum.voters": "1@localhost:1,2@localhost:2,3@localhost:3"}
    assert "quorums of more than one controller are not built yet" in _refused(KraftWorld(voters))


def test_a_voter_of_another_folder() -> None:
    kraft = KraftWorld(dynamic=True)
    kraft.stop()
    properties = f"{DATA}/meta.properties"
    changed = kraft.disk.read_bytes(properties).replace(b"QNZvo6frfTevFH", b"QNZvo6frfTevFI")
    kraft.disk.write_atomically(properties, changed)
    kraft.restart()
    assert "start it on that folder" in _refused(kraft)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("quorum-state", b"{}", "data_version is no number"),
        ("00000000000000000009-0000000001.checkpoint", b"", "the end of the snapshot is missing"),
        ("00000000000000000009-0000000001.checkpoint", b"x" * 99, "no batch begins here"),
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


def test_a_log_that_begins_too_late() -> None:
    kraft = KraftWorld(SMALL)
    kraft.join()
    for number in range(40):
        kraft.ask(creation(f"t{number}", partitions=2), CreateTopicsResponse)
    kraft.run(70_000)
    kraft.stop()
    for name in kraft.names(".checkpoint"):
        kraft.disk.remove(f"{METADATA}/{name}")
    kraft.restart()
    assert "no snapshot holds what was before" in _refused(kraft)


# Apache Kafka's folders


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
