"""A connection: everything between a wire and a handler, both real and simulated.

Contains reading into shared buffers, large frames, the send queue, back-pressure and closing, but no sockets.
A wire is anything that can be read and written without blocking; `tcp` has the real one and
`simulated.streams` its twin, so that simulations test this code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol, cast

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.disk.disk import Buffer, Slice
from barnabas.runtime.loop.poller import READ, WRITE
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.buffers import LARGE_FRAME_BYTES, READ_BUFFER_BYTES, BufferPool, LargeFrame
from barnabas.runtime.network.network import Address, CloseReason, NetworkLimits, StreamHandler, TlsPeer
from barnabas.runtime.network.receive_budget import ReceiveBudget

# Up to this size, small responses are joined and sent as one: cheaper than a system call for each.
JOINED_BYTES = 32 << 10
# Up to this size, a slice of a file is read and sent with the rest: a separate system call costs more.
SMALL_SLICE_BYTES = 16 << 10
# Bytes of files sent to one connection before others get their turn: a fast reader of large responses must
# not keep small requests waiting.
TURN_BYTES = 1 << 20
# Buffers in one gathered write.  Linux allows 1,024; the gain is in the first few.
MAX_GATHERED = 64

_PAUSED, _CHOKED, _CLOSING, _NO_MEMORY = 1, 2, 4, 8
_BUFFERS = (bytes, bytearray, memoryview)


class Wire(Protocol):
    """A stream that never blocks: BlockingIOError when it would, another OSError when it is broken."""

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def send(self, data: Buffer, /) -> int: ...

    def sendmsg(self, buffers: list[Buffer], /) -> int: ...

    def fileno(self) -> int: ...

    def want(self, mask: int, /) -> None:
        """Which readiness to report to the connection."""
        ...

    def close(self) -> None: ...


class Endpoint(Protocol):
    """What a wire reports readiness to: a connection, or the TLS under it."""

    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...


class ConnectionContext:
    """State shared by the connections of one network."""

    def __init__(
        self,
        *,
        limits: NetworkLimits,
        timers: TimerService,
        now_ns: Callable[[], int],
        at_tick_end: Callable[[Callable[[], None]], None],
        warm: Callable[[Slice, Callable[[], None]], None] | None,
    ) -> None:
        self.limits = limits
        self.look_closer_above_bytes = min(limits.pause_above_bytes, limits.max_queued_bytes)
        self.timers = timers
        self.now_ns = now_ns
        self.at_tick_end = at_tick_end
        # Reads a slice that is not in memory on a worker; None where reading is never slow.
        self.warm = warm
        self.pool = BufferPool()
        self.budget = ReceiveBudget(limits.max_receiving_bytes, timers, now_ns)
        self.read_view = memoryview(bytearray(READ_BUFFER_BYTES))
        # A dict for its order: a simulation must not depend on memory addresses.
        self.connections: dict[StreamConnection, None] = {}

    def queued_memory_bytes(self) -> int:
        """Bytes queued for sending, of all connections; only needed when one of them has many."""
        return sum(connection.queued_memory_bytes for connection in self.connections)


class StreamConnection:
    """See `network.Connection`."""

    __slots__ = (
        "_around",
        "_expected",
        "_flush_due",
        "_handler",
        "_held",
        "_in_handler",
        "_is_closed",
        "_large",
        "_obstacles",
        "_offer_due",
        "_queue",
        "_queued_file_bytes",
        "_queued_memory_bytes",
        "_slice_parked",
        "_slice_sent",
        "_slice_warm",
        "_wire",
        "_wire_full",
        "local",
        "peer",
    )

    def __init__(
        self, wire: Wire, handler: StreamHandler, around: ConnectionContext, local: Address, peer: Address
    ) -> None:
        self.local = local
        self.peer = peer
        self._wire = wire
        self._handler = handler
        self._around = around
        # The connection is read while this is 0: paused by the handler, choked by the send queue, or closing.
        self._obstacles = 0
        self._held: bytearray | None = None
        self._large: LargeFrame | None = None
        self._expected = 0
        self._in_handler = False
        self._offer_due = False
        self._queue: deque[Buffer | Slice] = deque()
        self._queued_memory_bytes = 0
        self._queued_file_bytes = 0
        self._slice_sent = 0
        self._slice_warm = False
        self._slice_parked = False
        self._flush_due = False
        self._wire_full = False
        self._is_closed = False
        around.connections[self] = None

    def start(self) -> None:
        """Notify the handler, and start reading."""
        try:
            self._handler.connected(self)
        except Exception as error:
            self.close(CloseReason.HANDLER_FAILED, error)
        self._update_wants()

    def secured(self, peer: TlsPeer) -> None:
        """The TLS under this connection is established."""
        try:
            self._handler.secured(peer)
        except Exception as error:
            self.close(CloseReason.HANDLER_FAILED, error)

    @property
    def reading(self) -> bool:
        return not self._obstacles

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # ---------------------------------------------------------------------------------------------- reading

    def on_readable(self) -> None:
        """The wire has bytes, or has ended."""
        if self._obstacles:
            self._update_wants()
            return
        if self._offer_due and self._held is not None:
            # Held bytes come first, at the end of this tick: there may be no space for more before that.
            return
        if self._large is not None:
            self._receive_large(self._large)
            return
        view = self._around.read_view
        held = self._held
        start = 0
        if held is not None:
            start = len(held)
            view[:start] = held
        count = self._receive(view[start:] if start else view)
        if count > 0:
            self._offer(view[: start + count])

    def _receive(self, space: memoryview) -> int:
        try:
            count = self._wire.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.close(CloseReason.RESET, error)
            return 0
        if not count:
            self.close(CloseReason.PEER)
        return count

    def _receive_large(self, frame: LargeFrame) -> None:
        budget = self._around.budget
        if not budget.may_receive(self):
            self._block(_NO_MEMORY)
            return
        count = self._receive(frame.space())
        if self._is_closed:
            return
        frame.filled += count
        budget.arrived(self, count)
        if frame.filled == frame.size:
            self._large = None
            self._offer(frame.view[: frame.size])
            frame.release()
            budget.end(self)

    def memory_is_free(self) -> None:
        self._unblock(_NO_MEMORY)

    def receiving_stalled(self) -> None:
        self.close(CloseReason.RECEIVE_STALLED)

    def _offer(self, view: memoryview) -> None:
        """Pass bytes to the handler, keep those it leaves, and send its responses."""
        self._expected = 0
        self._offer_due = False
        self._in_handler = True
        try:
            taken = self._handler.data_received(view)
            if not self._is_closed:
                if taken == len(view):
                    self._held = None
                else:
                    self._keep(view[taken:])
        except Exception as error:
            self.close(CloseReason.HANDLER_FAILED, error)
        finally:
            self._in_handler = False
        if self._queue:
            self._flush()

    def _keep(self, remaining: memoryview) -> None:
        size = self._expected
        if size > len(remaining) and size > LARGE_FRAME_BYTES:
            self._held = None
            self._large = LargeFrame(self._around.pool, size, remaining)
            self._around.budget.begin(self, len(remaining))
            return
        if len(remaining) >= READ_BUFFER_BYTES and not self._obstacles:
            raise RuntimeError("the handler takes nothing of a full buffer and expects no larger frame")
        self._held = bytearray(remaining)
        if self._offer_due:
            self._around.at_tick_end(self._offer_held)

    def _offer_held(self) -> None:
        """Reading resumes: pass the held bytes to the handler again."""
        held = self._held
        if held is None or self._obstacles or not self._offer_due:
            return
        self._offer(memoryview(held))

    def expect(self, size: int) -> None:
        self._expected = size

    def pause_reading(self) -> None:
        # The wire is updated only if more bytes arrive meanwhile: most clients that wait for a response send
        # nothing until then, and two updates per request cost more than the request.
        self._obstacles |= _PAUSED

    def resume_reading(self) -> None:
        self._unblock(_PAUSED)

    def _block(self, obstacle: int) -> None:
        self._obstacles |= obstacle
        self._update_wants()

    def _unblock(self, obstacle: int) -> None:
        if not self._obstacles & obstacle:
            return
        self._obstacles &= ~obstacle
        self._update_wants()
        if not self._obstacles:
            # Not now: the handler that resumes is often in the middle of something.
            self._offer_due = True
            if self._held is not None and not self._in_handler:
                self._around.at_tick_end(self._offer_held)

    def _update_wants(self) -> None:
        if not self._is_closed:
            self._wire.want((0 if self._obstacles else READ) | (WRITE if self._wire_full else 0))

    # ---------------------------------------------------------------------------------------------- sending

    @property
    def queued_memory_bytes(self) -> int:
        return self._queued_memory_bytes

    @property
    def queued_bytes(self) -> int:
        return self._queued_memory_bytes + self._queued_file_bytes

    def send(self, *parts: Buffer | Slice) -> None:
        if self._obstacles & _CLOSING:
            return
        for part in parts:
            if not isinstance(part, _BUFFERS) and part.length <= SMALL_SLICE_BYTES:
                part = self._read_small(part)
            if isinstance(part, _BUFFERS):
                size = len(part)
                self._queued_memory_bytes += size
            else:
                size = part.length
                self._queued_file_bytes += size
            if size:
                self._queue.append(part)
        if self._queued_memory_bytes + self._queued_file_bytes > self._around.look_closer_above_bytes:
            self._queue_grew_large()
        if not (self._in_handler or self._flush_due):
            self._flush_due = True
            self._around.at_tick_end(self._flush_at_tick_end)

    def _read_small(self, part: Slice) -> Buffer | Slice:
        """Its bytes, unless reading them would block or fails: then it is sent, or fails, in its turn."""
        try:
            return part.read() if self._around.warm is None or part.is_resident() else part
        except OSError:
            return part

    def _queue_grew_large(self) -> None:
        limits = self._around.limits
        if (
            self._queued_memory_bytes > limits.max_queued_bytes
            or self._around.queued_memory_bytes() > limits.max_all_queued_bytes
        ):
            self.close(CloseReason.SEND_QUEUE_FULL)
        elif self.queued_bytes > limits.pause_above_bytes and not self._obstacles & _CHOKED:
            self._block(_CHOKED)

    def on_writable(self) -> None:
        """The wire accepts bytes again."""
        self._flush()

    def _flush_at_tick_end(self) -> None:
        self._flush_due = False
        self._flush()

    def _flush(self) -> None:
        """Send until the queue is empty or the wire is full."""
        if self._is_closed or self._slice_parked:
            return
        full = False
        enough = self._queued_file_bytes - TURN_BYTES
        try:
            while self._queue and not full and not self._slice_parked:
                first = self._queue[0]
                if not isinstance(first, _BUFFERS):
                    # After its turn it waits as if the wire were full, and becomes writable at once.
                    full = not self._send_slice(first) or 0 < self._queued_file_bytes <= enough
                elif not self._queued_file_bytes and self._queued_memory_bytes <= JOINED_BYTES:
                    full = not self._send_joined()
                else:
                    full = not self._send_gathered()
        except (BlockingIOError, InterruptedError):
            full = True
        except OSError as error:
            self.close(CloseReason.RESET, error)
            return
        if full != self._wire_full:
            self._wire_full = full
            self._update_wants()
        self._queue_shrank()

    def _send_joined(self) -> bool:
        """One write of the whole queue, which is small; False if the wire accepted only a part."""
        parts = cast("Iterable[Buffer]", self._queue)
        data = b"".join(parts)
        sent = self._wire.send(data)
        self._queue.clear()
        self._queued_memory_bytes -= sent
        if sent == len(data):
            return True
        self._queue.append(memoryview(data)[sent:])
        return False

    def _send_gathered(self) -> bool:
        """One gathered write of the first buffers; False if the wire accepted only a part."""
        queue = self._queue
        buffers: list[Buffer] = []
        offered = 0
        for part in queue:
            if len(buffers) == MAX_GATHERED or not isinstance(part, _BUFFERS):
                break
            buffers.append(part)
            offered += len(part)
        sent = self._wire.sendmsg(buffers) if len(buffers) > 1 else self._wire.send(buffers[0])
        self._queued_memory_bytes -= sent
        remaining = sent
        for buffer in buffers:
            if remaining < len(buffer):
                queue[0] = memoryview(buffer)[remaining:]
                break
            remaining -= len(buffer)
            queue.popleft()
        return sent == offered

    def _send_slice(self, part: Slice) -> bool:
        """From the file to the wire; False if the wire accepted only a part."""
        warm = self._around.warm
        if warm is not None and not self._slice_warm and not part.is_resident():
            self._slice_parked = True
            warm(part, self._slice_is_warm)
            return True
        # Checked once per slice: data that is in memory when its sending starts is assumed to stay there.
        self._slice_warm = True
        sent = part.send_to(self._wire, self._slice_sent)
        if not sent:
            raise OSError(f"the file is shorter than the {part.length} bytes that were to be sent")
        self._queued_file_bytes -= sent
        self._slice_sent += sent
        if self._slice_sent < part.length:
            return False
        self._queue.popleft()
        self._slice_sent = 0
        self._slice_warm = False
        return True

    def _slice_is_warm(self) -> None:
        self._slice_parked = False
        self._slice_warm = True
        self._flush()

    def _queue_shrank(self) -> None:
        if self._obstacles & _CHOKED and self.queued_bytes <= self._around.limits.pause_above_bytes // 2:
            self._unblock(_CHOKED)
            self._handler.drained()
        if self._obstacles & _CLOSING and not self._queue:
            self.close()

    # ---------------------------------------------------------------------------------------------- closing

    def close_when_sent(self) -> None:
        if self._is_closed:
            return
        self._block(_CLOSING)
        if not self._queue:
            self.close()
            return
        deadline_ns = self._around.now_ns() + self._around.limits.linger_ms * NS_PER_MS
        self._around.timers.set((self, "linger"), deadline_ns, self.close)

    def close(self, reason: CloseReason = CloseReason.LOCAL, error: BaseException | None = None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._obstacles |= _CLOSING
        self._wire.close()
        self._queue.clear()
        self._held = None
        self._queued_memory_bytes = self._queued_file_bytes = 0
        if self._large is not None:
            self._large.release()
            self._large = None
            self._around.budget.end(self)
        self._around.connections.pop(self, None)
        self._around.timers.cancel((self, "linger"))
        # Not now: the caller is often the handler itself, in the middle of something.
        self._around.at_tick_end(partial(self._handler.closed, reason, error))
