"""Large frames of many connections at once, and the memory that they share."""

from __future__ import annotations

import struct
from collections.abc import Callable

from barnabas.runtime.loop.poller import READ
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.network.connection import ConnectionContext, StreamConnection
from barnabas.runtime.network.network import Address, NetworkLimits
from barnabas.runtime.network.receive_budget import STALLED_NS
from tests.runtime.network.test_connection import Frames, PaperWire

SECOND_NS = 1_000_000_000
HERE, THERE = Address("here", 1), Address("there", 2)


class Crowd:
    """Connections that share one budget; time passes when the test says so."""

    def __init__(self, count: int, limit: int) -> None:
        self.now_ns = 0
        self.timers = Timers()
        self.tick_end: list[Callable[[], None]] = []
        self.context = ConnectionContext(
            limits=NetworkLimits(max_receiving_bytes=limit),
            timers=self.timers,
            now_ns=lambda: self.now_ns,
            at_tick_end=self.tick_end.append,
            warm=None,
        )
        self.wires = [PaperWire() for _ in range(count)]
        self.handlers = [Frames() for _ in range(count)]
        self.connections = [
            StreamConnection(wire, handler, self.context, HERE, THERE)
            for wire, handler in zip(self.wires, self.handlers, strict=True)
        ]
        for connection in self.connections:
            connection.start()

    def arrive(self, number: int, *pieces: bytes) -> None:
        self.wires[number].arriving += pieces
        self.read(number)

    def read(self, number: int) -> None:
        wire = self.wires[number]
        while wire.arriving and wire.mask & READ:
            self.connections[number].on_readable()
        while self.tick_end:
            self.tick_end.pop(0)()

    def pass_time(self, elapsed_ns: int) -> None:
        for _ in range(elapsed_ns // SECOND_NS):
            self.now_ns += SECOND_NS
            self.timers.fire_due(self.now_ns)

    @property
    def used_bytes(self) -> int:
        return self.context.budget.used_bytes


def announced(size: int, arrived: int) -> list[bytes]:
    """The first bytes of a frame of `size` bytes, in pieces as a socket delivers them."""
    data = struct.pack(">i", size) + bytes(arrived)
    return [data[at : at + 100_000] for at in range(0, len(data), 100_000)]


def test_incomplete_large_requests_use_no_more_than_the_budget() -> None:
    """F15: 20 incomplete requests of 99 MiB used 2.1 GB; each of them was bounded, but not their sum."""
    limit = 3_000_000
    crowd = Crowd(20, limit)
    for number in range(20):
        crowd.arrive(number, *announced(10_000_000, 1_000_000))
    # In addition to the budget each has the bytes of its first read, which contained the size.
    assert crowd.used_bytes <= limit + 20 * 100_000
    assert sum(not wire.mask & READ for wire in crowd.wires) >= 16


def test_an_announced_size_alone_uses_nothing() -> None:
    crowd = Crowd(1, 1_000_000)
    crowd.arrive(0, *announced(100_000_000, 10))
    assert crowd.used_bytes < 100


def test_the_first_continues_and_the_others_follow() -> None:
    crowd = Crowd(3, 500_000)
    for number in range(3):
        crowd.arrive(number, *announced(400_000, 300_000))
    assert [bool(wire.mask & READ) for wire in crowd.wires] == [True, False, False]
    for number in (0, 1, 2):
        crowd.arrive(number, bytes(100_000))
    # The unread bytes of the last are read after those before it have ended.
    crowd.read(1)
    crowd.read(2)
    assert [len(handler.frames) for handler in crowd.handlers] == [1, 1, 1]
    assert crowd.used_bytes == 0


def test_an_incomplete_request_that_others_wait_for_is_closed_when_it_stalls() -> None:
    crowd = Crowd(2, 500_000)
    crowd.arrive(0, *announced(10_000_000, 600_000))
    crowd.arrive(1, *announced(400_000, 400_000))
    assert crowd.handlers[1].frames == []
    crowd.pass_time(STALLED_NS + SECOND_NS)
    assert crowd.connections[0].is_closed
    crowd.read(1)
    assert len(crowd.handlers[1].frames) == 1
    assert not crowd.connections[1].is_closed


def test_an_incomplete_request_that_blocks_no_other_may_take_its_time() -> None:
    crowd = Crowd(1, 500_000)
    crowd.arrive(0, *announced(1_000_000, 600_000))
    crowd.pass_time(10 * STALLED_NS)
    assert not crowd.connections[0].is_closed
    crowd.arrive(0, *([bytes(100_000)] * 4))
    assert len(crowd.handlers[0].frames) == 1


def test_unread_responses_are_bounded_for_all_connections_together() -> None:
    crowd = Crowd(5, 2**40)
    crowd.context.limits = NetworkLimits(
        pause_above_bytes=1, max_queued_bytes=10_000, max_all_queued_bytes=30_000
    )
    crowd.context.look_closer_above_bytes = 1
    for wire in crowd.wires:
        wire.writable_bytes = 0
    for connection in crowd.connections:
        connection.send(bytes(9_000))
    assert [connection.is_closed for connection in crowd.connections] == [False, False, False, True, True]
