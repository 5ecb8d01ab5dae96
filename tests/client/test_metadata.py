"""The cache of metadata: what replaces what."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.client.metadata import Metadata
from barnabas.client.model import TopicPartition
from barnabas.protocol.messages.metadata import MetadataResponse

ONE, OTHER = Uuid(bytes(15) + b"1"), Uuid(bytes(15) + b"2")
WHERE = TopicPartition("t", 0)


def response(
    leader: int = 1, epoch: int = 5, topic_id: Uuid = ONE, code: int = 0, brokers: tuple[int, ...] = (1, 2)
) -> MetadataResponse:
    partition = MetadataResponse.Partition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[1],
    )
    topic = MetadataResponse.Topic(
        error_code=code, name="t", topic_id=topic_id, partitions=[] if code else [partition]
    )
    nodes = [MetadataResponse.Broker(node_id=number, host="h", port=number) for number in brokers]
    return MetadataResponse(brokers=nodes, cluster_id="c", controller_id=1, topics=[topic])


def leader(metadata: Metadata) -> int | None:
    found = metadata.leader_of(WHERE)
    return None if found is None else found.leader


def test_a_broker_that_lags_behind_does_not_lead_back() -> None:
    metadata = Metadata()
    metadata.update(response(leader=2, epoch=6), 1.0)
    metadata.update(response(leader=1, epoch=5), 2.0)
    assert leader(metadata) == 2
    metadata.update(response(leader=1, epoch=7), 3.0)
    assert leader(metadata) == 1


def test_a_recreated_topic_restarts_its_epochs() -> None:
    metadata = Metadata()
    metadata.update(response(leader=2, epoch=6), 1.0)
    metadata.update(response(leader=1, epoch=0, topic_id=OTHER), 2.0)
    assert leader(metadata) == 1
    assert metadata.names == {OTHER: "t"}


def test_a_leader_that_is_not_alive_is_none() -> None:
    metadata = Metadata()
    metadata.update(response(leader=2, brokers=(1,)), 1.0)
    assert leader(metadata) is None
    assert metadata.leader_of(TopicPartition("t", 9)) is None
    assert metadata.leader_of(TopicPartition("other", 0)) is None


def test_trouble_for_the_moment_leaves_what_was_known() -> None:
    metadata = Metadata()
    metadata.update(response(leader=2), 1.0)
    metadata.update(response(code=ErrorCode.LEADER_NOT_AVAILABLE), 2.0)
    assert leader(metadata) == 2
    assert metadata.topics["t"].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    metadata.update(response(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 3.0)
    assert leader(metadata) is None


def test_wrong_metadata_is_requested_again() -> None:
    metadata = Metadata()
    assert metadata.is_expired
    metadata.update(response(), 1.0)
    assert not metadata.is_expired
    metadata.expire()
    assert metadata.is_expired
