"""A producer that sends at a pace, one request in flight, and notes how long each answer took.

Time counts from the moment a request was due if a late answer held it up, so that a stall shows in all the
requests that came meanwhile; and from when it was sent, if it was only this process that woke up late.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Sequence

from barnabas.protocol.messages.produce import ProduceRequest
from bench.produce_load import Answers, Load, client_batch, produce_frame
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
    """One connection that waits for each answer, at the least cost that Python allows."""

    def __init__(self, server: Server, topic: str) -> None:
        self._answers = Answers(topic)
        self.socket = socket.create_connection(server.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # In the kernel: a time-out of Python's would cost a system call more each time.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PATIENCE_S, 0))

    def ask(self, frame: bytes | bytearray) -> None:
        self.socket.send(frame)
        while not self._answers.receive(self.socket):
            pass


def pace(server: Server, topic: str, per_second: int, seconds: float) -> list[float]:
    """Milliseconds of each request, in order of size."""
    frame = produce_frame(topic, 0, client_batch(RECORD), acks=-1)
    found = []
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
            found.append(1000 * (now - started))
            due += 1 / per_second
    return sorted(found)


def wait_until(due: float) -> None:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)


def settle() -> None:
    """What earlier rounds wrote goes to the device now, not while somebody is being measured."""
    os.sync()


def percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
