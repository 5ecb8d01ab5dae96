"""Topics for a round: created, measured, read back, deleted."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from fastcrc import crc32

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import ATTRIBUTES_POSITION, batches
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from bench.servers import Server
from tools.raw_broker import RawConnection

PATIENCE_S = 120
CREATE_VERSION = 7
DELETE_VERSION = 5
LIST_OFFSETS_VERSION = 7
FETCH_VERSION = 12
LATEST = -1

_numbers = itertools.count()
_PROCESS = os.getpid()


def create_request(
    names: list[str], partitions: int, configs: Mapping[str, str] | None = None
) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic
    config = CreateTopicsRequest.CreatableTopicConfig
    chosen = [config(name=name, value=value) for name, value in (configs or {}).items()]
    return CreateTopicsRequest(
        topics=[
            topic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=chosen)
            for name in names
        ],
        timeout_ms=PATIENCE_S * 1000,
    )


def create(server: Server, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
    """Creates the topic, and waits until its partitions have leaders."""
    with RawConnection(server.address, PATIENCE_S) as connection:
        request = create_request([name], partitions, configs)
        response = connection.ask(request, CREATE_VERSION, CreateTopicsResponse)
        assert not response.topics[0].error_code, response
    until = time.monotonic() + PATIENCE_S
    while None in end_offsets(server, name, partitions):
        assert time.monotonic() < until, f"{name} has no leader after {PATIENCE_S} s"
        time.sleep(0.01)


def delete(server: Server, names: list[str]) -> None:
    with RawConnection(server.address, PATIENCE_S) as connection:
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=PATIENCE_S * 1000)
        response = connection.ask(request, DELETE_VERSION, DeleteTopicsResponse)
        assert not any(topic.error_code for topic in response.responses), response


@contextmanager
def topic(server: Server, partitions: int, configs: Mapping[str, str] | None = None) -> Iterator[str]:
    """A new topic with a unique name; its files are deleted at the end, before the next measurement."""
    name = f"bench-{_PROCESS}-{next(_numbers):06}"
    create(server, name, partitions, configs)
    yield name
    delete(server, [name])
    until = time.monotonic() + PATIENCE_S
    while any(server.data.glob(f"{name}-*")):
        assert time.monotonic() < until, f"{name} was deleted, but its files are there after {PATIENCE_S} s"
        time.sleep(0.05)


def end_offsets(server: Server, name: str, partitions: int) -> list[int | None]:
    """None for a partition without a leader."""
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.Topic(
                name=name,
                partitions=[
                    ListOffsetsRequest.Partition(partition_index=index, timestamp=LATEST)
                    for index in range(partitions)
                ],
            )
        ],
    )
    with RawConnection(server.address, PATIENCE_S) as connection:
        response = connection.ask(request, LIST_OFFSETS_VERSION, ListOffsetsResponse)
    listed = sorted(response.topics[0].partitions, key=lambda partition: partition.partition_index)
    return [None if partition.error_code else partition.offset for partition in listed]


def fetch_request(
    name: str, offsets: Mapping[int, int], *, partition_bytes: int, max_wait_ms: int = 500, min_bytes: int = 1
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=len(offsets) * partition_bytes,
        topics=[
            FetchRequest.Topic(
                topic=name,
                partitions=[
                    FetchRequest.Partition(
                        partition=index, fetch_offset=offset, partition_max_bytes=partition_bytes
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )


def records_at(server: Server, name: str, partition: int, offset: int, max_bytes: int) -> memoryview:
    """The records that a consumer gets from this offset."""
    request = fetch_request(name, {partition: offset}, partition_bytes=max_bytes)
    with RawConnection(server.address, PATIENCE_S) as connection:
        response = connection.ask(request, FETCH_VERSION, FetchResponse)
    data = response.responses[0].partitions[0]
    assert not data.error_code, ErrorCode(data.error_code).name
    assert data.records is not None
    return memoryview(data.records)  # type: ignore[arg-type]  # what is read is bytes


def fingerprints(data: memoryview) -> list[int]:
    """The CRC of each batch over the part that no broker may change."""
    fingerprints_found = []
    for batch in batches(data):
        crc = crc32.iscsi(data[batch.start + ATTRIBUTES_POSITION : batch.start + batch.size])
        assert crc == batch.crc, f"the batch at {batch.base_offset} is damaged"
        fingerprints_found.append(crc)
    return fingerprints_found
