"""The generated code: one function per version, few calls in it, and nothing compiled twice."""

from __future__ import annotations

import struct
from unittest.mock import patch

from barnabas.protocol import encoder
from barnabas.protocol.messages.metadata import MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest
from barnabas.protocol.schema import Message
from barnabas.protocol.source import minimal_size

from .catalogue import messages, versions


def test_a_run_of_fixed_width_fields_is_one_call() -> None:
    request = OffsetCommitRequest(
        group_id="g",
        member_id="m",
        topics=[
            OffsetCommitRequest.Topic(
                name="t",
                partitions=[
                    OffsetCommitRequest.Partition(
                        partition_index=1,
                        committed_offset=2,
                        committed_leader_epoch=3,
                        committed_metadata="x",
                    )
                ],
            )
        ],
    )
    pieces = request.encode_pieces(7)
    assert struct.pack(">iqih", 1, 2, 3, 1) in pieces


def test_a_list_of_numbers_is_one_piece() -> None:
    for count in (0, 1, 16, 17, 200):
        partition = MetadataResponse.Partition(
            error_code=0, partition_index=0, leader_id=0, replica_nodes=list(range(count)), isr_nodes=[]
        )
        topic = MetadataResponse.Topic(error_code=0, name="t", partitions=[partition])
        response = MetadataResponse(brokers=[], topics=[topic])
        for version in (4, 9):
            assert MetadataResponse.decode(response.encode(version), version) == response
        prefix = struct.pack(">i", count)
        assert prefix + struct.pack(f">{count}i", *range(count)) in response.encode_pieces(4)


def test_each_version_is_compiled_once() -> None:
    class Fresh(Message, versions=(0, 1)):
        pass

    with patch.object(encoder, "_EncoderWriter", wraps=encoder._EncoderWriter) as writer:
        for _ in range(3):
            Fresh().encode(0)
            Fresh().encode(1)
    assert writer.call_count == 2


def test_the_minimal_size_of_a_struct_is_never_above_its_real_size() -> None:
    """Otherwise a list that fits would be rejected."""
    assert minimal_size(OffsetCommitRequest.Partition.schema, 7, flexible=False) == 4 + 8 + 4 + 2
    assert minimal_size(OffsetCommitRequest.Partition.schema, 8, flexible=True) == 4 + 8 + 4 + 1 + 1
    assert minimal_size(UpdateMetadataRequest.Broker.schema, 0, flexible=False) == 4 + 2 + 4
    for cls in messages():
        for version in versions(cls):
            if cls.__name__ != "ShareFetchResponse":
                size = len(cls.schema.new().encode(version))
                flexible = version in cls.schema.flexible
                assert minimal_size(cls.schema, version, flexible=flexible) <= size


def test_a_long_text_in_a_flexible_version() -> None:
    for size in (126, 127, 128, 16383, 32767):
        request = OffsetFetchRequest(group_id="x" * size)
        assert OffsetFetchRequest.decode(request.encode(7), 7) == request
