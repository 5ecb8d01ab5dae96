"""Messages with one element in each list: the same bytes as the usual codec's, or no answer at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.single import compile_single_reader, compile_single_writer

VERSIONS = range(3, 14)
READERS = {version: compile_single_reader(ProduceRequest.schema, version) for version in VERSIONS}
GIVEN = ("name", "topic_id", "index", "base_offset", "log_append_time_ms", "log_start_offset")
WRITERS = {version: compile_single_writer(ProduceResponse.schema, version, GIVEN) for version in VERSIONS}
ID = Uuid(bytes(range(16)))
names = st.text(max_size=300).filter(lambda text: len(text.encode()) < 2**15)
int64s = st.integers(-(2**63), 2**63 - 1)


def request(version: int, **fields: Any) -> ProduceRequest:
    by_id = version >= 13
    given_name = fields.pop("name", "orders")
    partition = ProduceRequest.PartitionProduceData(
        index=fields.pop("index", 3), records=fields.pop("records", b"x")
    )
    topic = ProduceRequest.TopicProduceData(
        name="" if by_id else given_name, topic_id=ID if by_id else ZERO_UUID, partition_data=[partition]
    )
    return ProduceRequest(**{"acks": -1, "timeout_ms": 1500, **fields}, topic_data=[topic])


@given(
    st.sampled_from(VERSIONS),
    st.none() | names,
    names,
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.binary(max_size=20_000),
)
def test_it_reads_what_the_usual_decoder_reads(
    version: int, transactional_id: str | None, name: str, index: int, records: bytes | None
) -> None:
    sent = request(version, transactional_id=transactional_id, name=name, index=index, records=records)
    frame = memoryview(b"head" + sent.encode(version))
    by_id = version >= 13
    expected = (transactional_id, -1, 1500, "" if by_id else name, ID if by_id else ZERO_UUID, index, records)
    assert READERS[version](frame, 4) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_another_shape_is_not_read(version: int) -> None:
    read = READERS[version]
    none, two_topics, two_partitions, no_partition = (request(version) for _ in range(4))
    none.topic_data = []
    two_topics.topic_data *= 2
    two_partitions.topic_data[0].partition_data *= 2
    no_partition.topic_data[0].partition_data = []
    for other in (none, two_topics, two_partitions, no_partition):
        assert read(memoryview(other.encode(version)), 0) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_that_end_early_go_on_or_make_no_sense_are_not_read(version: int) -> None:
    read = READERS[version]
    whole = request(version, transactional_id="é", records=b"x" * 300).encode(version)
    assert read(memoryview(whole), 0) is not None
    for size in range(len(whole)):
        assert read(memoryview(whole[:size]), 0) is None
    assert read(memoryview(whole + b"\0"), 0) is None
    assert read(memoryview(whole.replace("é".encode(), b"\xff\xff")), 0) is None


@pytest.mark.parametrize("version", range(9, 14))
def test_tagged_fields_are_not_read(version: int) -> None:
    whole = request(version).encode(version)
    assert READERS[version](memoryview(whole[:-1] + b"\1\x07\1z"), 0) is None


@given(st.sampled_from(VERSIONS), names, st.integers(-(2**31), 2**31 - 1), int64s, int64s, int64s)
def test_it_writes_what_the_usual_encoder_writes(
    version: int, name: str, index: int, base_offset: int, time: int, start: int
) -> None:
    by_id = version >= 13
    partition = ProduceResponse.PartitionProduceResponse(
        index=index, error_code=0, base_offset=base_offset, log_append_time_ms=time, log_start_offset=start
    )
    topic = ProduceResponse.TopicProduceResponse(
        name="" if by_id else name, topic_id=ID if by_id else ZERO_UUID, partition_responses=[partition]
    )
    usual = ProduceResponse(responses=[topic]).encode(version)
    assert WRITERS[version](name, ID, index, base_offset, time, start) == usual


def test_what_has_no_such_shape_is_refused_when_it_is_compiled() -> None:
    with pytest.raises(TypeError):
        compile_single_reader(FetchRequest.schema, 12)  # its forgotten topics hold a list of numbers
    with pytest.raises(TypeError):
        compile_single_writer(ProduceResponse.schema, 9, ("no_such_field",))
    with pytest.raises(TypeError):
        compile_single_writer(MetadataResponse.schema, 12, ("node_id", "host", "port", "replica_nodes"))
