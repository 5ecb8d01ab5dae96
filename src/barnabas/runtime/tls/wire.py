"""A wire that encrypts another one: TLS under a connection that knows nothing of it.

Contains the handshake, records in both directions, and the orderly end.  Steps of handshakes run on workers
(`handshakes`); what was received waits for its turn in memory that is bounded.  Once established, at most
`CHUNK_BYTES` are encrypted at once, so that one reader of large responses holds neither the loop nor memory.

A connection believes that bytes are sent when `send` returns: so `send` returns only after the socket has
taken the whole of what they became, and says until then, like a full socket, that it would block.  The
connection offers the same bytes again, which are then known to be encrypted already.
"""

from __future__ import annotations

import logging
import ssl
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, cast

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.disk.disk import Buffer
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.poller import READ, WRITE
from barnabas.runtime.network.buffers import READ_BUFFER_BYTES
from barnabas.runtime.network.connection import ConnectionContext, Endpoint, StreamConnection, Wire
from barnabas.runtime.network.network import Address, CloseReason, StreamHandler, TlsPeer
from barnabas.runtime.tls.context import Tls
from barnabas.runtime.tls.handshakes import Handshakes, HandshakeTask

logger = logging.getLogger(__name__)

# The most that is encrypted at once.
CHUNK_BYTES = 256 << 10
# How long a handshake may take; a peer that stops in the middle of one is closed.
HANDSHAKE_TIMEOUT_MS = 30_000
# What is received at once during a handshake, and altogether: chains of certificates are smaller.
HANDSHAKE_READ_BYTES = 16 << 10
MAX_HANDSHAKE_BYTES = 256 << 10
# What is decrypted at once, so that one sender of large requests does not hold the loop.
MAX_READ_BYTES = 1 << 20
# TLS reads what a socket has in pieces that grow while there are data in them.  Messages of TLS alone, as for
# new keys, take a hundred times as long as data: a peer that sends nothing else is closed.
FIRST_PIECE_BYTES = 16 << 10
MAX_BARREN_BYTES = 64 << 10
# What TLS itself may have to say to a peer that does not read: a peer can ask for new keys again and again.
MAX_OUTPUT_BYTES = 4 << 10
# The first byte of a TLS connection: a handshake record.
_HANDSHAKE_RECORD = 0x16


class InnerWire(Wire, Protocol):
    """The wire below, which reports readiness to whatever is attached to it."""

    def attach(self, endpoint: Endpoint, /) -> None: ...


class TlsLayer:
    """What the TLS connections of one network share."""

    def __init__(self, around: ConnectionContext, workers: WorkerPool | None) -> None:
        self.around = around
        self.handshakes = Handshakes(workers)
        # What a socket has received, until it is decrypted within the same call.
        self.cipher_view = memoryview(bytearray(READ_BUFFER_BYTES))

    def adopt(
        self, inner: InnerWire, tls: Tls, host: str, handler: StreamHandler, local: Address, peer: Address
    ) -> None:
        """Make a connection with TLS; `host` is the name that the certificate of a server must have."""
        wire = TlsWire(inner, tls, host, self)
        connection = StreamConnection(wire, handler, self.around, local, peer)
        wire.attach(connection)
        connection.start()
        wire.begin()


class _Step(NamedTuple):
    """What one step of a handshake led to."""

    output: bytes
    is_over: bool
    error: ssl.SSLError | None


class TlsWire:
    """See `connection.Wire`."""

    __slots__ = (
        "_around",
        "_barren",
        "_cipher_view",
        "_connection",
        "_encrypted",
        "_handshakes",
        "_incoming",
        "_inner",
        "_is_closed",
        "_is_established",
        "_is_stepping",
        "_mask",
        "_outgoing",
        "_owed",
        "_piece",
        "_received",
        "_session",
        "_tls",
        "_unsent",
        "_wake_due",
        "_was_full",
    )

    def __init__(self, inner: InnerWire, tls: Tls, host: str, layer: TlsLayer) -> None:
        self._inner = inner
        self._tls = tls
        self._around = layer.around
        self._handshakes = layer.handshakes
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = tls.wrap(self._incoming, self._outgoing, host)
        self._cipher_view = layer.cipher_view
        self._is_established = self._is_stepping = self._is_closed = self._wake_due = False
        self._received = 0
        self._piece = FIRST_PIECE_BYTES
        self._was_full = False
        # What was received since there were data in it.
        self._barren = 0
        # What the socket has not taken yet, and how many bytes of the connection's queue it stands for.
        self._unsent = memoryview(b"")
        self._encrypted = 0
        # How much of it TLS itself has said.
        self._owed = 0
        self._mask = 0

    def attach(self, connection: StreamConnection) -> None:
        self._connection = connection
        self._inner.attach(self)

    def begin(self) -> None:
        """Begins the handshake; the connection learns of its end by `secured`."""
        if self._is_closed:
            return
        deadline_ns = self._around.now_ns() + HANDSHAKE_TIMEOUT_MS * NS_PER_MS
        self._around.timers.set((self, "handshake"), deadline_ns, self._timed_out)
        if self._tls.is_server:
            self._update_wants()
        else:
            self._step(b"")

    # ------------------------------------------------------------------------------------------- handshake

    def _step(self, data: bytes) -> None:
        """One step, on a worker; the socket is not read meanwhile."""
        self._is_stepping = True
        self._update_wants()
        task = HandshakeTask(partial(self._shake, data), self._stepped, self._is_wanted)
        self._handshakes.submit(task, is_urgent=not self._tls.is_server)

    def _is_wanted(self) -> bool:
        return not self._is_closed

    def _shake(self, data: bytes) -> _Step:
        self._incoming.write(data)
        error: ssl.SSLError | None = None
        is_over = True
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            is_over = False
        except ssl.SSLError as failure:
            # What is left to send tells the peer why.
            error = failure
        return _Step(self._outgoing.read(), is_over, error)

    def _stepped(self, result: object, error: BaseException | None) -> None:
        self._is_stepping = False
        if self._is_closed:
            return
        if not isinstance(result, _Step):
            self._fail(error)
            return
        try:
            self._send_output(result.output)
        except OSError as broken:
            self._connection.close(CloseReason.RESET, broken)
            return
        if result.error is not None:
            self._fail(result.error)
        elif result.is_over:
            self._established()
        else:
            self._update_wants()

    def _established(self) -> None:
        refusal = self._tls.refuses(self._session)
        if refusal is not None:
            self._fail(ssl.SSLError(refusal))
            return
        self._is_established = True
        self._around.timers.cancel((self, "handshake"))
        self._connection.secured(TlsPeer(self._session.getpeercert(binary_form=True)))
        self._wake_later()
        self._update_wants()

    def _receive_handshake(self) -> None:
        try:
            count = self._inner.recv_into(self._cipher_view[:HANDSHAKE_READ_BYTES])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._connection.close(CloseReason.RESET, error)
            return
        if not count:
            self._connection.close(CloseReason.PEER)
            return
        if not self._received and self._cipher_view[0] != _HANDSHAKE_RECORD:
            self._fail(ssl.SSLError("the peer does not speak TLS"))
            return
        self._received += count
        if self._received > MAX_HANDSHAKE_BYTES:
            self._fail(ssl.SSLError("the peer sent too much during the handshake"))
            return
        self._step(bytes(self._cipher_view[:count]))

    def _timed_out(self) -> None:
        self._fail(TimeoutError(f"the TLS handshake took longer than {HANDSHAKE_TIMEOUT_MS} ms"))

    def _fail(self, error: BaseException | None) -> None:
        self._connection.close(CloseReason.TLS_FAILED, error)

    # ----------------------------------------------------------------------------- readiness of the socket

    def on_readable(self) -> None:
        if self._is_established:
            self._connection.on_readable()
        elif not self._is_stepping:
            self._receive_handshake()

    def on_writable(self) -> None:
        if self._unsent:
            try:
                self._push()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._connection.close(CloseReason.RESET, error)
                return
            self._update_wants()
        if self._is_established and self._mask & WRITE:
            self._connection.on_writable()

    def want(self, mask: int) -> None:
        self._mask = mask
        if self._is_closed:
            return
        self._update_wants()
        if mask & READ and self._is_established and self._has_received():
            self._wake_later()

    def _update_wants(self) -> None:
        if self._is_established:
            mask = self._mask
        else:
            mask = 0 if self._is_stepping else READ
        self._inner.want(mask | WRITE if self._unsent else mask)

    def _has_received(self) -> bool:
        return bool(self._incoming.pending or self._session.pending())

    def _wake_later(self) -> None:
        """Bytes that were received already make no socket readable."""
        if not self._wake_due:
            self._wake_due = True
            self._around.at_tick_end(self._wake)

    def _wake(self) -> None:
        self._wake_due = False
        if self._is_closed:
            return
        if self._mask & READ:
            self._connection.on_readable()
        if self._mask & WRITE and not self._unsent and not self._is_closed:
            self._connection.on_writable()

    # ---------------------------------------------------------------------------------------------- reading

    def recv_into(self, buffer: memoryview) -> int:
        """Decrypted bytes, as many as there are; 0 at the end of the stream."""
        if not self._is_established:
            raise BlockingIOError
        try:
            return self._decrypt_into(buffer)
        finally:
            if self._outgoing.pending:
                # The peer has asked for new keys, perhaps without sending anything else.
                self._send_output(self._outgoing.read())

    def _decrypt_into(self, buffer: memoryview) -> int:
        total, size = 0, min(len(buffer), MAX_READ_BYTES)
        while total < size:
            try:
                count = cast("int", self._session.read(size - total, buffer[total:]))
            except ssl.SSLWantReadError:
                if total or not self._receive_piece():
                    return total
                continue
            if not count:
                return total
            self._barren = 0
            total += count
        if self._has_received():
            self._wake_later()
        return total

    def _receive_piece(self) -> int:
        """More of what the socket has; OSError if there were no data in the pieces before."""
        if self._barren > MAX_BARREN_BYTES:
            raise OSError("the peer sends messages of TLS and no data")
        if self._barren:
            self._piece = FIRST_PIECE_BYTES
        elif self._was_full:
            self._piece = min(2 * self._piece, READ_BUFFER_BYTES)
        count = self._inner.recv_into(self._cipher_view[: self._piece])
        self._was_full = count == self._piece
        if count:
            self._incoming.write(self._cipher_view[:count])
            self._barren += count
        return count

    # ---------------------------------------------------------------------------------------------- sending

    def fileno(self) -> int:
        """No descriptor: all bytes must be encrypted."""
        return -1

    def send(self, data: Buffer) -> int:
        if not self._is_established:
            raise BlockingIOError
        if self._unsent:
            self._push()
        before = min(self._encrypted, len(data))
        chunk = memoryview(data)[before:CHUNK_BYTES]
        if not chunk:
            self._encrypted -= before
            return before
        self._session.write(chunk)
        self._encrypted = before + len(chunk)
        self._unsent = memoryview(self._outgoing.read())
        self._push()
        self._encrypted = 0
        return before + len(chunk)

    def sendmsg(self, buffers: list[Buffer]) -> int:
        parts: list[Buffer] = []
        space = CHUNK_BYTES
        for buffer in buffers:
            if space <= 0:
                break
            parts.append(buffer if len(buffer) <= space else memoryview(buffer)[:space])
            space -= len(parts[-1])
        return self.send(b"".join(parts))

    def _push(self) -> None:
        """Sends what is encrypted; BlockingIOError while the socket does not take all of it."""
        while self._unsent:
            self._unsent = self._unsent[self._inner.send(self._unsent) :]

    def _send_output(self, output: bytes) -> None:
        """Sends what TLS itself has to say, behind what is encrypted; OSError if the socket is broken."""
        if not output:
            return
        self._owed = self._owed + len(output) if self._unsent else len(output)
        if self._is_established and self._owed > MAX_OUTPUT_BYTES:
            raise OSError("the peer makes TLS answer, and does not read")
        self._unsent = memoryview(bytes(self._unsent) + output) if self._unsent else memoryview(output)
        try:
            self._push()
        except (BlockingIOError, InterruptedError):
            self._update_wants()

    # ---------------------------------------------------------------------------------------------- closing

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._around.timers.cancel((self, "handshake"))
        if self._is_established and not self._unsent:
            self._say_goodbye()
        self._inner.close()

    def _say_goodbye(self) -> None:
        """close_notify, if there is room for it: the peer can tell the end from a cut."""
        with suppress(ssl.SSLError):
            # It would wait for the peer's own.
            self._session.unwrap()
        try:
            self._inner.send(self._outgoing.read())
        except OSError:
            return
