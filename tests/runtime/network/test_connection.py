"""A connection over a fake wire: reading, large frames, back-pressure, sending, closing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.runtime.loop.poller import READ, WRITE
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.network.buffers import LARGE_FRAME_BYTES, READ_BUFFER_BYTES
from barnabas.runtime.network.connection import (
    JOINED_BYTES,
    MAX_GATHERED,
    SMALL_SLICE_BYTES,
    TURN_BYTES,
    ConnectionContext,
    StreamConnection,
)
from barnabas.runtime.network.network import Address, CloseReason, NetworkLimits, StreamHandler


class PaperWire:
    """Records what arrives and what is sent; `writable_bytes` is how many bytes it accepts before it is full."""

    def __init__(self) -> None:
        self.arriving: list[bytes | Exception] = []
        self.sent = bytearray()
        self.calls: list[int] = []
        self.writable_bytes = 1 << 40
        self.mask = 0
        self.is_closed = False

    def recv_into(self, buffer: memoryview) -> int:
        if not self.arriving:
            raise BlockingIOError
        item = self.arriving.pop(0)
        if isinstance(item, Exception):
            raise item
        count = min(len(buffer), len(item))
        buffer[:count] = item[:count]
        if item[count:]:
            self.arriving.insert(0, item[count:])
        return count

    def send(self, data: Any) -> int:
        return self._take(bytes(data), 1)

    def sendmsg(self, buffers: list[Any]) -> int:
        return self._take(b"".join(buffers), len(buffers))

    def _take(self, data: bytes, parts: int) -> int:
        if not self.writable_bytes:
            raise BlockingIOError
        count = min(self.writable_bytes, len(data))
        self.writable_bytes -= count
        self.sent += data[:count]
        self.calls.append(parts)
        return count

    def fileno(self) -> int:
        return -1

    def want(self, mask: int) -> None:
        self.mask = mask

    def close(self) -> None:
        self.is_closed = True


class Frames(StreamHandler):
    """Frames with a 4-byte size; keeps them, and calls the test's function with each."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.on_frame: Callable[[bytes], None] = lambda frame: None
        self.views: list[int] = []
        self.events: list[Any] = []

    def connected(self, connection: Any) -> None:
        self.connection = connection
        self.events.append("connected")

    def data_received(self, view: memoryview) -> int:
        self.views.append(len(view))
        position = 0
        while self.connection.reading and len(view) - position >= 4:
            (size,) = struct.unpack_from(">i", view, position)
            if len(view) - position < 4 + size:
                self.connection.expect(4 + size)
                break
            frame = bytes(view[position + 4 : position + 4 + size])
            position += 4 + size
            self.frames.append(frame)
            self.on_frame(frame)
        return position

    def drained(self) -> None:
        self.events.append("drained")

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.events.append((reason, error))


class FileSlice:
    """A slice that records how it is sent."""

    def __init__(self, data: bytes, *, resident: bool = True) -> None:
        self._data = data
        self.resident = resident
        self.broken = False

    @property
    def length(self) -> int:
        return len(self._data)

    def read(self) -> bytes:
        return self._data

    def sub(self, offset: int, length: int) -> FileSlice:
        return FileSlice(self._data[offset : offset + length])

    def is_resident(self) -> bool:
        return self.resident

    def bring_in(self) -> None:
        self.resident = True

    def send_to(self, sink: Any, offset: int) -> int:
        return 0 if self.broken else int(sink.send(self._data[offset:]))


class Bench:
    """A connection whose context is controlled by the test."""

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        self.tick_end: list[Callable[[], None]] = []
        self.warming: list[tuple[Any, Callable[[], None]]] = []
        self.timers = Timers()
        self.context = ConnectionContext(
            limits=limits or NetworkLimits(),
            timers=self.timers,
            now_ns=lambda: 0,
            at_tick_end=self.tick_end.append,
            warm=lambda part, done: self.warming.append((part, done)),
        )
        self.wire = PaperWire()
        self.handler = Frames()
        here, there = Address("here", 1), Address("there", 2)
        self.connection = StreamConnection(self.wire, self.handler, self.context, here, there)
        self.connection.start()

    def arrive(self, *pieces: bytes | Exception) -> None:
        self.wire.arriving += pieces
        while self.wire.arriving and self.wire.mask & READ:
            self.connection.on_readable()

    def end_tick(self) -> None:
        while self.tick_end:
            self.tick_end.pop(0)()


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


# ------------------------------------------------------------------------------------------------- reading


def test_frames_are_reassembled_however_they_are_split() -> None:
    sent = [b"", b"a", b"bc" * 40, b"d" * 1000]
    stream = b"".join(map(frame, sent))
    for size in (1, 3, 7, len(stream)):
        bench = Bench()
        bench.arrive(*(stream[at : at + size] for at in range(0, len(stream), size)))
        assert bench.handler.frames == sent


def test_a_large_frame_is_received_directly_into_its_own_buffer() -> None:
    bench = Bench()
    data = bytes(range(256)) * 4096
    bench.arrive(frame(b"small") + frame(data) + frame(b"next"))
    assert bench.handler.frames == [b"small", data, b"next"]
    # Read buffer, then the large frame alone and complete, then what follows: never in pieces.
    assert bench.handler.views == [READ_BUFFER_BYTES, len(data) + 4, 8]
    assert bench.context.pool.pooled_bytes == 2 << 20


def test_a_frame_just_large_enough_and_one_byte_less() -> None:
    for size in (LARGE_FRAME_BYTES - 4, LARGE_FRAME_BYTES - 3):
        bench = Bench()
        data = b"x" * size
        bench.arrive(frame(data)[:10], frame(data)[10:])
        assert bench.handler.frames == [data]
        assert (bench.context.pool.pooled_bytes > 0) == (size + 4 > LARGE_FRAME_BYTES)


def test_a_paused_connection_keeps_its_frames_and_passes_them_again() -> None:
    bench = Bench()
    bench.handler.on_frame = lambda _: bench.connection.pause_reading()
    bench.arrive(frame(b"1") + frame(b"2") + frame(b"3") + b"\0\0")
    assert bench.handler.frames == [b"1"]
    mask = bench.wire.mask
    assert mask == READ, "nothing has arrived yet that must not be read"
    bench.connection.on_readable()
    assert bench.wire.mask == 0
    for expected in (2, 3):
        bench.connection.resume_reading()
        assert len(bench.handler.frames) == expected - 1  # Not inside the call: the caller is busy.
        bench.end_tick()
        assert len(bench.handler.frames) == expected
    bench.connection.resume_reading()
    bench.end_tick()
    assert bench.wire.mask == READ
    bench.arrive(b"\0\x014")
    assert bench.handler.frames == [b"1", b"2", b"3", b"4"]


def test_a_full_buffer_that_was_left_is_passed_again_before_more_is_read() -> None:
    bench = Bench()
    data = bytes(1020)
    whole = frame(data) * (READ_BUFFER_BYTES // 1024)

    class IsBusyAtFirst(Frames):
        def data_received(self, view: memoryview) -> int:
            if not self.views:
                self.views.append(len(view))
                self.connection.pause_reading()
                return 0
            return super().data_received(view)

    handler = IsBusyAtFirst()
    handler.connected(bench.connection)
    bench.connection._handler = handler
    bench.wire.arriving += [whole, frame(b"last")]
    bench.connection.on_readable()
    bench.connection.resume_reading()
    bench.connection.on_readable()  # in the same tick
    assert not bench.connection.is_closed
    bench.end_tick()
    bench.connection.on_readable()
    assert handler.frames == [data] * (READ_BUFFER_BYTES // 1024) + [b"last"]


def test_resuming_inside_the_handler_passes_the_remaining_bytes_at_the_end_of_the_tick() -> None:
    bench = Bench()

    class PausesAndResumes(Frames):
        def data_received(self, view: memoryview) -> int:
            consumed = super().data_received(view)
            self.connection.resume_reading()
            return consumed

    handler = PausesAndResumes()
    handler.on_frame = lambda _: handler.connection.pause_reading()
    connection = StreamConnection(bench.wire, handler, bench.context, Address("a", 1), Address("b", 2))
    connection.start()
    bench.wire.arriving.append(frame(b"1") + frame(b"2"))
    connection.on_readable()
    assert handler.frames == [b"1"]
    bench.end_tick()
    assert handler.frames == [b"1", b"2"]


def test_held_bytes_can_be_patched_in_place() -> None:
    bench = Bench()
    seen: list[bool] = []

    class Patches(StreamHandler):
        def data_received(self, view: memoryview) -> int:
            seen.append(view.readonly)
            return 0 if len(seen) == 1 else len(view)

    connection = StreamConnection(bench.wire, Patches(), bench.context, Address("a", 1), Address("b", 2))
    connection.start()
    bench.wire.arriving += [b"one", b"two"]
    connection.on_readable()
    connection.on_readable()
    assert seen == [False, False]


def test_a_handler_that_fails_closes_its_connection() -> None:
    bench = Bench()

    def fail(_: bytes) -> None:
        raise ValueError("planted")

    bench.handler.on_frame = fail
    bench.arrive(frame(b"x"))
    bench.end_tick()
    reason, error = bench.handler.events[-1]
    assert reason is CloseReason.HANDLER_FAILED
    assert str(error) == "planted"
    assert bench.wire.is_closed


def test_a_handler_that_consumes_nothing_and_expects_nothing_is_closed() -> None:
    class Deaf(StreamHandler):
        def data_received(self, view: memoryview) -> int:
            return 0

    bench = Bench()
    connection = StreamConnection(bench.wire, Deaf(), bench.context, Address("a", 1), Address("b", 2))
    connection.start()
    bench.wire.arriving.append(bytes(READ_BUFFER_BYTES + 5))
    connection.on_readable()
    assert connection.is_closed


@pytest.mark.parametrize(
    ("arrives", "reason"),
    [(b"", CloseReason.PEER), (ConnectionResetError("planted"), CloseReason.RESET)],
)
def test_the_end_of_the_stream_is_reported(arrives: bytes | Exception, reason: CloseReason) -> None:
    bench = Bench()
    bench.arrive(frame(b"last"), arrives)
    bench.end_tick()
    assert bench.handler.frames == [b"last"]
    assert bench.handler.events[-1][0] is reason
    assert not bench.context.connections


def test_a_stream_that_ends_within_a_large_frame_returns_its_buffer() -> None:
    bench = Bench()
    bench.arrive(frame(bytes(1 << 20))[:100_000], b"")
    bench.end_tick()
    assert bench.handler.events[-1] == (CloseReason.PEER, None)
    assert bench.context.pool.pooled_bytes == 2 << 20


# ------------------------------------------------------------------------------------------------- sending


def test_responses_of_one_read_are_sent_in_one_write() -> None:
    bench = Bench()
    bench.handler.on_frame = lambda data: bench.connection.send(b"<", data, b">")
    bench.arrive(b"".join(frame(b"%d" % number) for number in range(5)))
    assert bench.wire.sent == b"<0><1><2><3><4>"
    assert bench.wire.calls == [1]
    assert bench.tick_end == []


def test_data_sent_outside_a_read_is_written_at_the_end_of_the_tick() -> None:
    bench = Bench()
    bench.connection.send(b"one")
    bench.connection.send(bytearray(b"two"), memoryview(b"three"), b"")
    assert bench.wire.sent == b""
    bench.end_tick()
    assert bench.wire.sent == b"onetwothree"
    assert bench.wire.calls == [1]


def test_small_parts_are_joined_and_large_ones_gathered_up_to_a_limit() -> None:
    for size, calls in ((1, [1]), (JOINED_BYTES // MAX_GATHERED, [MAX_GATHERED, 1])):
        bench = Bench()
        parts = [bytes([65 + number % 26]) * size for number in range(MAX_GATHERED + 5)]
        bench.connection.send(*parts)
        bench.end_tick()
        assert bench.wire.calls == calls
        assert bench.wire.sent == b"".join(parts)


def test_parts_of_any_size_survive_a_wire_that_accepts_a_few_bytes_at_a_time() -> None:
    for size in (7, 5_000):
        bench = Bench()
        parts = [bytes([65 + number]) * size for number in range(20)]
        bench.connection.send(*parts)
        bench.wire.writable_bytes = 0
        bench.end_tick()
        while bench.connection.queued_bytes:
            bench.wire.writable_bytes = size + 3
            bench.connection.on_writable()
        assert bench.wire.sent == b"".join(parts)


def test_a_full_wire_is_waited_for_and_nothing_is_lost() -> None:
    bench = Bench()
    parts: list[Any] = [b"a" * 10, FileSlice(b"b" * 10), b"c" * 10, b"d" * 10]
    bench.wire.writable_bytes = 0
    bench.connection.send(*parts)
    bench.end_tick()
    assert bench.wire.mask == READ | WRITE
    while bench.connection.queued_bytes:
        assert bench.wire.mask & WRITE
        bench.wire.writable_bytes = 3
        bench.connection.on_writable()
    assert bench.wire.sent == b"a" * 10 + b"b" * 10 + b"c" * 10 + b"d" * 10
    assert bench.wire.mask == READ


def test_a_fast_reader_of_large_responses_gives_others_their_turn() -> None:  # M-A9
    """The wire would accept everything at once: small requests that arrive meanwhile would wait for all of
    it."""
    bench = Bench()
    slices = [FileSlice(b"x" * (TURN_BYTES // 2)) for _ in range(5)]
    bench.connection.send(*slices)
    turns = []
    bench.end_tick()
    while bench.connection.queued_bytes:
        turns.append(len(bench.wire.sent))
        assert bench.wire.mask & WRITE
        bench.connection.on_writable()
    assert turns == [TURN_BYTES, 2 * TURN_BYTES]
    assert len(bench.wire.sent) == 5 * TURN_BYTES // 2
    assert bench.wire.mask == READ


def test_a_cold_slice_is_read_elsewhere_and_later_parts_wait() -> None:
    bench = Bench()
    cold = FileSlice(b"cold", resident=False)
    bench.connection.send(b"head", cold, b"tail")
    bench.end_tick()
    assert bench.wire.sent == b"head"
    assert [part for part, _ in bench.warming] == [cold]
    bench.connection.send(b"more")
    bench.end_tick()
    assert bench.wire.sent == b"head"
    bench.warming[0][1]()
    assert bench.wire.sent == b"headcoldtailmore"


def test_a_slice_that_becomes_warm_after_the_close_is_ignored() -> None:
    bench = Bench()
    bench.connection.send(FileSlice(b"cold", resident=False))
    bench.end_tick()
    bench.connection.close()
    bench.warming[0][1]()
    assert bench.wire.sent == b""


def test_a_small_slice_is_sent_with_other_parts_if_it_is_in_memory() -> None:
    bench = Bench()
    bench.connection.send(b"head", FileSlice(b" warm"))
    bench.end_tick()
    assert (bytes(bench.wire.sent), len(bench.wire.calls)) == (b"head warm", 1)
    cold = FileSlice(b" cold", resident=False)
    bench.connection.send(b"head", cold)
    bench.end_tick()
    assert [part for part, _ in bench.warming] == [cold]


def test_a_truncated_file_closes_the_connection_instead_of_spinning() -> None:
    bench = Bench()
    part = FileSlice(b"gone" * SMALL_SLICE_BYTES)
    part.broken = True
    bench.connection.send(part)
    bench.end_tick()
    reason, error = bench.handler.events[-1]
    assert reason is CloseReason.RESET
    assert "shorter" in str(error)


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    bench = Bench(NetworkLimits(pause_above_bytes=100))
    bench.handler.on_frame = lambda data: bench.connection.send(b"x" * 60)
    bench.wire.writable_bytes = 0
    bench.arrive(b"".join(frame(b"%d" % number) for number in range(5)))
    assert bench.handler.frames == [b"0", b"1"]
    assert not bench.connection.reading
    assert bench.wire.mask == WRITE
    bench.wire.writable_bytes = 69
    bench.connection.on_writable()
    assert not bench.connection.reading  # 51 bytes left, half of the limit is 50.
    bench.wire.writable_bytes = 1
    bench.connection.on_writable()
    assert bench.connection.reading
    assert bench.handler.events == ["connected", "drained"]
    bench.wire.writable_bytes = 1 << 20
    bench.end_tick()
    assert bench.handler.frames == [b"0", b"1", b"2", b"3", b"4"]
    assert bench.connection.queued_bytes == 0


def test_memory_for_sending_has_a_limit_and_slices_do_not_count() -> None:
    bench = Bench(NetworkLimits(max_queued_bytes=100))
    bench.connection.send(b"x" * 90, FileSlice(b"y" * (SMALL_SLICE_BYTES + 1)))
    assert not bench.connection.is_closed
    bench.connection.send(b"x" * 11)
    bench.end_tick()
    assert bench.handler.events[-1] == (CloseReason.SEND_QUEUE_FULL, None)


# ------------------------------------------------------------------------------------------------- closing


def test_close_when_sent_sends_the_queue_and_accepts_nothing_more() -> None:
    bench = Bench()
    bench.wire.writable_bytes = 2
    bench.connection.send(b"last bytes")
    bench.connection.close_when_sent()
    bench.connection.send(b"too late")
    bench.end_tick()
    assert bench.wire.mask == WRITE
    bench.wire.writable_bytes = 100
    bench.connection.on_writable()
    bench.end_tick()
    assert bench.wire.sent == b"last bytes"
    assert bench.handler.events[-1] == (CloseReason.LOCAL, None)
    assert len(bench.timers) == 0


def test_close_when_sent_does_not_wait_forever() -> None:
    bench = Bench(NetworkLimits(linger_ms=7))
    bench.wire.writable_bytes = 0
    bench.connection.send(b"never read")
    bench.connection.close_when_sent()
    bench.end_tick()
    assert bench.timers.fire_due(6_999_999) == 0
    assert bench.timers.fire_due(7_000_000) == 1
    assert bench.wire.is_closed


def test_close_is_reported_once_and_not_inside_the_call() -> None:
    bench = Bench()
    bench.connection.close()
    bench.connection.close(CloseReason.RESET)
    bench.connection.send(b"x")
    bench.connection.pause_reading()
    bench.connection.close_when_sent()
    assert bench.handler.events == ["connected"]
    bench.end_tick()
    assert bench.handler.events == ["connected", (CloseReason.LOCAL, None)]


def test_addresses_are_printed_in_their_usual_form() -> None:
    assert str(Address("127.0.0.1", 9092)) == "127.0.0.1:9092"
    assert str(Address("::1", 9092)) == "[::1]:9092"


def test_close_when_sent_with_nothing_to_send_closes_at_once() -> None:
    bench = Bench()
    bench.connection.close_when_sent()
    assert bench.wire.is_closed


def test_a_handler_that_fails_at_the_start_closes_its_connection() -> None:
    class Fails(StreamHandler):
        def connected(self, connection: Any) -> None:
            raise ValueError("planted")

    bench = Bench()
    connection = StreamConnection(bench.wire, Fails(), bench.context, Address("a", 1), Address("b", 2))
    connection.start()
    assert connection.is_closed
