"""A producer that sends at a fixed rate, one request in flight, and records the latency of each response.

Latency counts from when a request was due if a late response delayed it, so that a stall shows in all the
requests of that time; and from when it was sent, if only this process woke up late.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence

from barnabas.protocol.messages.produce import ProduceRequest
from bench.produce_load import Load, Responses, client_batch, produce_frame
from bench.servers import Server

RECORD = Load(record_bytes=100, records=1)
PATIENCE_S = 60


def produce_request(topic: str, batch: bytes | bytearray, acks: int = -1) -> ProduceRequest:
    part = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[part])],
    )


class SmallProducer:
    """One connection that waits for each response, with minimal cost in Python."""

    def __init__(self, server: Server, topic: str) -> None:
        self._responses = Responses(topic)
        self.socket = socket.create_connection(server.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # In the kernel: a timeout of Python would cost another system call each time.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE_S, 0))

    def ask(self, frame: bytes | bytearray) -> None:
        self.socket.send(frame)
        while not self._responses.receive(self.socket):
            pass


def pace(server: Server, topic: str, per_second: int, seconds: float) -> list[float]:
    """The latency of each request in milliseconds, sorted."""
    frame = produce_frame(topic, 0, client_batch(RECORD), acks=-1)
    latencies_ms = []
    producer = SmallProducer(server, topic)
    with producer.socket:
        due = now = time.perf_counter()
        for _ in range(int(per_second * seconds)):
            started = due
            if now < due:
                wait_until(due)
                started = time.perf_counter()
            producer.ask(frame)
            now = time.perf_counter()
            latencies_ms.append(1000 * (now - started))
            due += 1 / per_second
    return sorted(latencies_ms)


def wait_until(due: float) -> None:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)


def settle() -> None:
    """Flushes the data of earlier rounds to the device now, not during a measurement."""
    os.sync()


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
