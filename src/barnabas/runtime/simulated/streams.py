"""Simulated byte streams: wires that deliver in order, in pieces of any size, late, or not at all.

Contains the behaviour of TCP as far as programs can observe it.  Listening and connecting belong in
`simulated.network`, and what a connection does with its bytes in `connection`, the same as in production.

Lost data is retransmitted, so loss means delay; nothing passes while a link is blocked; a peer that lost its
power is silent until it is back and then responds with a reset.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Protocol

from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Buffer
from barnabas.runtime.loop.poller import READ, WRITE
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.connection import StreamConnection
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.agenda import Agenda
from barnabas.runtime.simulated.links import Links

# Bytes that may be in flight in one direction before the sender has to wait.
WINDOW_BYTES = 64 << 10
# A lost or blocked piece is retransmitted after this delay.
RETRANSMIT_NS = 200_000_000
# After this many retransmissions of one piece the stream is considered broken.
MAX_RETRANSMITS = 50


class Host(Protocol):
    """The node that a network belongs to."""

    id: int
    is_up: bool
    # Counts boots and crashes: actions begun before the last one are void.
    life: int

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> TimerService: ...

    def after(self, delay_ns: int, action: Callable[[], None]) -> None: ...


class SimulatedWire:
    """One end of a stream; see `connection.Wire`."""

    def __init__(self, streams: Streams, host: Host) -> None:
        self.host = host
        self.is_open = True
        self.connection: StreamConnection | None = None
        self._streams = streams
        self._peer: SimulatedWire | None = None
        # Pieces in flight to the peer; an empty one marks the end of the stream.
        self._under_way: deque[tuple[int, bytes]] = deque()
        self._under_way_bytes = 0
        self._retransmits = 0
        self._inbox = bytearray()
        self._ended = False
        self._reset = False
        self._is_dropped = False
        self._mask = 0
        self._report_due = False

    def join(self, peer: SimulatedWire) -> None:
        self._peer = peer

    def fileno(self) -> int:
        """There is no descriptor: slices of files are copied instead."""
        return -1

    def recv_into(self, buffer: memoryview) -> int:
        if self._reset:
            raise os_error(errno.ECONNRESET)
        if not self._inbox:
            if self._ended:
                return 0
            raise BlockingIOError
        count = min(len(buffer), len(self._inbox))
        buffer[:count] = self._inbox[:count]
        del self._inbox[:count]
        if self._peer is not None:
            self._peer._report_later()
        return count

    def send(self, data: Buffer) -> int:
        if self._reset:
            raise os_error(errno.ECONNRESET)
        space = self._space()
        if not space:
            raise BlockingIOError
        size = min(len(data), space)
        # Sometimes only a part: callers must handle it.
        count = size if self._streams.random.fraction() < 0.5 else self._streams.random.integer(1, size)
        self._depart(bytes(data[:count]))
        return count

    def sendmsg(self, buffers: list[Buffer]) -> int:
        return self.send(b"".join(buffers))

    def want(self, mask: int) -> None:
        self._mask = mask
        self._report_later()

    def close(self) -> None:
        """Close our end; pieces in flight still arrive."""
        if self.is_open:
            self.is_open = False
            self._streams.forget(self)
            if not self._reset:
                self._depart(b"")

    def drop(self) -> None:
        """The process has ended, and pieces in flight are lost; what its last event still sends, too."""
        self.is_open = False
        self._is_dropped = True
        self._under_way.clear()

    def reset(self) -> None:
        """The connection broke."""
        self._reset = True
        self._under_way.clear()
        self._report_later()

    def reset_peer_later(self) -> None:
        """Reset the other end, unless the link is blocked."""
        if self._peer is not None and not self._streams.links.is_blocked(self.host.id, self._peer.host.id):
            self._streams.agenda.after(self._streams.links.delay_ns(), self._peer.reset)

    # ------------------------------------------------------------------------------------------- in flight

    def _space(self) -> int:
        peer = self._peer
        return WINDOW_BYTES - self._under_way_bytes - (len(peer._inbox) if peer is not None else 0)

    def _depart(self, piece: bytes) -> None:
        if self._is_dropped:
            return
        arrival_ns = self._streams.agenda.now_ns + self._streams.links.delay_ns()
        self._under_way.append((arrival_ns, piece))
        self._under_way_bytes += len(piece)
        if len(self._under_way) == 1:
            self._streams.agenda.set((self, "arrive"), arrival_ns, self._arrive)

    def _arrive(self) -> None:
        """The first piece in flight arrives, unless the link dropped it; the others wait behind it."""
        peer = self._peer
        if not self._under_way or peer is None:
            return
        agenda = self._streams.agenda
        if peer.host.is_up and self._streams.passes(self.host.id, peer.host.id):
            self._retransmits = 0
            piece = self._under_way.popleft()[1]
            self._under_way_bytes -= len(piece)
            peer._take(piece)
            if self._under_way:
                agenda.set((self, "arrive"), self._under_way[0][0], self._arrive)
        elif self._retransmits < MAX_RETRANSMITS:
            self._retransmits += 1
            agenda.set((self, "arrive"), agenda.now_ns + RETRANSMIT_NS, self._arrive)
        else:
            self.reset()

    def _take(self, piece: bytes) -> None:
        if not self.is_open:
            if piece:
                self.reset_peer_later()
            return
        if piece:
            self._inbox += piece
        else:
            self._ended = True
        self._report_later()

    # ------------------------------------------------------------------------------------------- readiness

    def _ready(self) -> int:
        readable = READ if self._inbox or self._ended or self._reset else 0
        writable = WRITE if self._reset or self._space() > 0 else 0
        return (readable | writable) & self._mask

    def _report_later(self) -> None:
        # What is asked for most comes first: this is done several times for every piece.
        mask = self._mask
        if (
            not self._report_due
            and self.is_open
            and (
                (mask & READ and (self._inbox or self._ended or self._reset))
                or (mask & WRITE and (self._reset or self._space() > 0))
            )
        ):
            self._report_due = True
            self.host.after(0, self._report)

    def _report(self) -> None:
        self._report_due = False
        connection = self.connection
        if connection is None or not self.is_open:
            return
        if self._ready() & READ:
            connection.on_readable()
        if self.is_open and self._ready() & WRITE:
            connection.on_writable()
        self._report_later()


class Streams:
    """All streams of a world."""

    def __init__(self, agenda: Agenda, links: Links, random: SeededRandom) -> None:
        self.agenda = agenda
        self.links = links
        self.random = random
        self._wires: dict[SimulatedWire, None] = {}

    def passes(self, sender: int, to: int) -> bool:
        """Whether a piece gets through now."""
        if self.links.is_blocked(sender, to):
            return False
        return self.random.fraction() >= self.links.faults.loss

    def wire(self, host: Host) -> SimulatedWire:
        wire = SimulatedWire(self, host)
        self._wires[wire] = None
        return wire

    def forget(self, wire: SimulatedWire) -> None:
        self._wires.pop(wire, None)

    def wires_of(self, node_id: int) -> list[SimulatedWire]:
        return [wire for wire in self._wires if wire.host.id == node_id]

    def cut(self, first: int, second: int) -> None:
        """Break every stream between two nodes: both ends notice at once."""
        for wire in list(self._wires):
            peer = wire._peer
            if peer is not None and {wire.host.id, peer.host.id} == {first, second}:
                wire.reset()


def os_error(code: int) -> OSError:
    """The error that the operating system would raise."""
    return OSError(code, os.strerror(code))
