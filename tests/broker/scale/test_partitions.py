"""Many partitions with few descriptors; ten thousand of them are a row of the bench."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import record_view
from tests.broker.worlds.live_broker import quick_folder
from tools.raw_broker import BrokerProcess, RawConnection

TOPICS = 60
PER_TOPIC = 10
# Fewer than there are files, and fewer than the usual share of files alone.
OPEN_FILES = 200
LATEST = -1
NOT_LEADER_OR_FOLLOWER = 6


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with quick_folder() as folder, BrokerProcess(folder, open_files=OPEN_FILES) as broker:
        yield broker
        assert not broker.faults, broker.faults


def create(connection: RawConnection) -> None:
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"many-{number}",
            num_partitions=PER_TOPIC,
            replication_factor=1,
            assignments=[],
            configs=[],
        )
        for number in range(TOPICS)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=120_000)
    answer = connection.ask(request, 7, CreateTopicsResponse)
    assert {topic.error_code for topic in answer.topics} == {0}
    while not_led_yet(connection):
        time.sleep(0.05)


def not_led_yet(connection: RawConnection) -> set[int]:
    """A broker takes up the lead of many partitions slice by slice, after the controller's answer."""
    partitions = [
        ListOffsetsRequest.Partition(partition_index=index, timestamp=LATEST) for index in range(PER_TOPIC)
    ]
    topics = [
        ListOffsetsRequest.Topic(name=f"many-{number}", partitions=partitions) for number in range(TOPICS)
    ]
    answer = connection.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 6, ListOffsetsResponse)
    codes = {one.error_code for topic in answer.topics for one in topic.partitions}
    assert codes <= {0, NOT_LEADER_OR_FOLLOWER}
    return codes - {0}


def write_to_each(connection: RawConnection, value: bytes) -> set[int]:
    """One request a topic; the offsets that were given."""
    batch = bytes(build([Record(0, 1_700_000_000_000, b"k", value)]))
    requests = [
        ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=f"many-{number}",
                    partition_data=[
                        ProduceRequest.PartitionProduceData(index=index, records=batch)
                        for index in range(PER_TOPIC)
                    ],
                )
            ],
        )
        for number in range(TOPICS)
    ]
    answers = connection.ask_all(requests, 9, ProduceResponse)
    partitions = [one for answer in answers for one in answer.responses[0].partition_responses]
    assert {one.error_code for one in partitions} == {0}
    assert len(partitions) == TOPICS * PER_TOPIC
    return {one.base_offset for one in partitions}


def read_all(connection: RawConnection) -> list[bytes]:
    """Everything in one fetch: more slices of files than there are descriptors."""
    partitions = [
        FetchRequest.Partition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(PER_TOPIC)
    ]
    topics = [FetchRequest.Topic(topic=f"many-{number}", partitions=partitions) for number in range(TOPICS)]
    request = FetchRequest(max_wait_ms=5_000, min_bytes=1, max_bytes=50 << 20, topics=topics)
    answer = connection.ask(request, 11, FetchResponse)
    found = [one for topic in answer.responses for one in topic.partitions]
    assert {one.error_code for one in found} == {0}
    return [bytes(record_view(one.records)) for one in found]


def test_a_life_of_many_partitions(broker: BrokerProcess) -> None:
    with broker.connect() as connection:
        create(connection)
        assert write_to_each(connection, b"first") == {0}
        assert all(b"first" in data for data in read_all(connection))
        everything = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        seen = connection.ask(everything, 12, MetadataResponse).topics
        assert sum(len(topic.partitions) for topic in seen) == TOPICS * PER_TOPIC
    assert broker.open_file_count < OPEN_FILES // 2
    assert broker.stop() == 0
    broker.start()
    with broker.connect() as connection:
        assert write_to_each(connection, b"second") == {1}
    broker.kill()
    broker.start()
    with broker.connect() as connection:
        assert write_to_each(connection, b"third") == {2}
        for data in read_all(connection):
            assert [word in data for word in (b"first", b"second", b"third")] == [True] * 3
        names = [f"many-{number}" for number in range(TOPICS)]
        deleted = connection.ask(
            DeleteTopicsRequest(topic_names=names, timeout_ms=30_000), 5, DeleteTopicsResponse
        )
        assert {topic.error_code for topic in deleted.responses} == {0}
    assert broker.stop() == 0
    broker.start()
