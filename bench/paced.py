"""A producer that sends at a pace, one request in flight, and notes how long each answer took.

Time counts from the moment a request was due: one that had to wait for a late answer has waited too, so that
a stall shows in all the requests that it held up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench.produce_load import PRODUCE_VERSION, Load, client_batch
from bench.servers import Server
from tools.raw_broker import RawConnection

RECORD = Load(record_bytes=100, records=1)


def produce_request(topic: str, batch: bytes | bytearray, acks: int = -1) -> ProduceRequest:
    part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
    )


def pace(server: Server, topic: str, per_second: int, seconds: float) -> list[float]:
    """Milliseconds of each request, in order of size."""
    request = produce_request(topic, client_batch(RECORD))
    found = []
    with RawConnection(server.address) as connection:
        due = time.perf_counter()
        for _ in range(int(per_second * seconds)):
            wait_until(due)
            answer = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
            found.append(1000 * (time.perf_counter() - due))
            code = answer.responses[0].partition_responses[0].error_code
            assert not code, ErrorCode(code).name
            due += 1 / per_second
    return sorted(found)


def wait_until(due: float) -> None:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
