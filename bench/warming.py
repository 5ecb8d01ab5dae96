"""Warm-up before measurements: load for the just-in-time compiler, and proof that records are checked."""

from __future__ import annotations

import struct

from fastcrc import crc32

from barnabas.base.errors import ErrorCode
from barnabas.batch.view import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_SIZE
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench import topics
from bench.fetch_load import Reader, fetch, fill
from bench.produce_load import PRODUCE_VERSION, Load, client_batch, produce
from bench.servers import Server
from tools.raw_broker import RawConnection

SECONDS = 5.0
_SMALL = Load(record_bytes=100, records=1, in_flight=32)
_MEDIUM = Load()


def warm_up(server: Server) -> None:
    refuse_damage(server)
    for load in (_SMALL, _MEDIUM):
        with topics.topic(server, load.partitions) as topic:
            produce(server, topic, load, SECONDS)
    with topics.topic(server, _MEDIUM.partitions) as topic:
        size = fill(server, topic, _MEDIUM, 500)
        reader = Reader(server, topic, size, _MEDIUM, 500)
        with reader.socket:
            fetch(reader, SECONDS)


def refuse_damage(server: Server) -> None:
    """A server that skips checks cannot win: a flipped bit and a malformed record are both refused."""
    valid = client_batch(_MEDIUM)
    flipped = bytearray(valid)
    flipped[-1] ^= 1
    wrong = bytearray(valid)
    wrong[HEADER_SIZE + 1] ^= 0x40  # the length of the first record: the others start elsewhere
    struct.pack_into(">I", wrong, CRC_POSITION, crc32.iscsi(memoryview(wrong)[ATTRIBUTES_POSITION:]))
    with topics.topic(server, 1) as topic, RawConnection(server.address) as connection:
        for batch, is_valid in ((valid, True), (flipped, False), (wrong, False)):
            part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
            request = ProduceRequest(
                acks=1,
                timeout_ms=30_000,
                topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
            )
            response = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
            code = ErrorCode(response.responses[0].partition_responses[0].error_code)
            assert (code is ErrorCode.NONE) == is_valid, f"{code.name} for a batch that is valid: {is_valid}"
