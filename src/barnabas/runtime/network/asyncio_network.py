"""Connections on any asyncio loop, for programs that have their own loop: the client uses them.

Contains connecting, and the `network.Connection` interface on asyncio's transports.  Listening belongs in
`tcp` (brokers run on the reactor).  A handler written for this interface also runs on the reactor's network
and in the simulated one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from barnabas.runtime.disk.disk import Buffer, Slice
from barnabas.runtime.network.buffers import LARGE_FRAME_BYTES, READ_BUFFER_BYTES, BufferPool, LargeFrame
from barnabas.runtime.network.network import Address, CloseReason, StreamHandler
from barnabas.runtime.network.resolver import Resolver, SystemResolver
from barnabas.runtime.network.tcp import tune

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls

# Up to this size, the parts of a request are joined before they are sent: copying them costs less than a
# system call for each, and a separate packet for the last few bytes.
JOINED_BYTES = 512 << 10
_BUFFERS = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class ClientSocketOptions:
    """Socket options of a connection; None leaves a buffer to the system, which lets it grow."""

    connect_timeout_ms: int = 10_000
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    tls: Tls | None = None


class AsyncioNetwork:
    """The connecting half of `network.Network`, on the running loop."""

    def __init__(self, resolver: Resolver | None = None) -> None:
        self._pool = BufferPool()
        self._resolver: Resolver = SystemResolver() if resolver is None else resolver
        self._attempts: set[asyncio.Task[None]] = set()

    def connect(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions | None = None
    ) -> Callable[[], object]:
        """Connect; calls `connected` on the handler, or `closed` with the reason.  Call the returned function
        to cancel before that."""
        attempt = asyncio.ensure_future(self._attempt(host, port, handler, options or ClientSocketOptions()))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        return attempt.cancel

    async def _attempt(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions
    ) -> None:
        """Every address of the host is tried, each with the full timeout: one that drops packets must not
        prevent reaching the others (KIP-302)."""
        failure: OSError = OSError(f"{host} has no address")
        try:
            for address in await self._resolver.addresses(host):
                try:
                    await self._connect_to(host, address, port, handler, options)
                    return
                except OSError as error:
                    # Includes TimeoutError.
                    failure = error
        except OSError as error:
            failure = error
        except asyncio.CancelledError:
            handler.closed(CloseReason.LOCAL, None)
            return
        reason = CloseReason.CONNECT_FAILED
        if isinstance(failure, TimeoutError):
            reason = CloseReason.CONNECT_TIMED_OUT
        elif options.tls is not None and is_tls_error(failure):
            reason = CloseReason.TLS_FAILED
        handler.closed(reason, failure)

    async def _connect_to(
        self, host: str, address: str, port: int, handler: StreamHandler, options: ClientSocketOptions
    ) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(options.connect_timeout_ms / 1000):
            if options.tls is None:
                await loop.create_connection(lambda: _Stream(handler, self._pool, options), address, port)
                return
            await loop.create_connection(
                lambda: _Stream(handler, self._pool, options),
                address,
                port,
                ssl=options.tls.context,
                server_hostname=host,
            )


class _Stream(asyncio.BufferedProtocol):
    """One connection: a protocol for asyncio, a `network.Connection` for the handler."""

    def __init__(self, handler: StreamHandler, pool: BufferPool, options: ClientSocketOptions) -> None:
        self._handler = handler
        self._pool = pool
        self._options = options
        self._view = memoryview(bytearray(READ_BUFFER_BYTES))
        self._filled = 0
        self._large: LargeFrame | None = None
        self._expected = 0
        self._paused = False
        self._reason = CloseReason.PEER
        self._error: BaseException | None = None
        self.is_closed = False

    # ---------------------------------------------------------------------------------- for asyncio's loop

    def connection_made(self, transport: Any) -> None:
        self._transport: asyncio.Transport = transport
        self.local = _address(transport.get_extra_info("sockname"))
        self.peer = _address(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        try:
            tune(sock, self.peer.host)
            for option, size in (
                (socket.SO_SNDBUF, self._options.send_buffer_bytes),
                (socket.SO_RCVBUF, self._options.receive_buffer_bytes),
            ):
                if size is not None:
                    sock.setsockopt(socket.SOL_SOCKET, option, size)
            refusal = self._refusal(transport)
            if refusal is not None:
                self.close(CloseReason.TLS_FAILED, OSError(refusal))
                return
            self._handler.connected(self)
        except Exception as error:
            self.close(CloseReason.HANDLER_FAILED, error)

    def _refusal(self, transport: Any) -> str | None:
        tls = self._options.tls
        return None if tls is None else tls.refuses(transport.get_extra_info("ssl_object"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled :] if self._large is None else self._large.space()

    def buffer_updated(self, nbytes: int) -> None:
        large = self._large
        if large is None:
            self._filled += nbytes
            self._offer(self._view[: self._filled])
            return
        large.filled += nbytes
        if large.filled == large.size:
            self._large = None
            self._offer(large.view[: large.size])
            large.release()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if exc is not None and self._error is None:
            # With TLS 1.3 a server may refuse the client's certificate after the client's handshake.
            refused = self._options.tls is not None and is_tls_error(exc)
            self._reason, self._error = CloseReason.TLS_FAILED if refused else CloseReason.RESET, exc
        self._handler.closed(self._reason, self._error)

    # ----------------------------------------------------------------------------------------- the reading

    def _offer(self, view: memoryview) -> None:
        self._expected = 0
        try:
            taken = self._handler.data_received(view)
            if not self.is_closed:
                self._keep(view[taken:])
        except Exception as error:
            self.close(CloseReason.HANDLER_FAILED, error)

    def _keep(self, rest: memoryview) -> None:
        size = len(rest)
        if self._expected > size and self._expected > LARGE_FRAME_BYTES:
            self._large = LargeFrame(self._pool, self._expected, rest)
            self._filled = 0
            return
        if size == READ_BUFFER_BYTES:
            raise RuntimeError("the handler takes nothing of a full buffer and expects no larger frame")
        if size:
            self._view[:size] = rest
        self._filled = size

    def expect(self, size: int) -> None:
        self._expected = size

    @property
    def reading(self) -> bool:
        return not self._paused and not self.is_closed

    def pause_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    # ----------------------------------------------------------------------------------------- the sending

    @property
    def queued_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def send(self, *parts: Buffer | Slice) -> None:
        if self.is_closed:
            return
        buffers = [part if isinstance(part, _BUFFERS) else part.read() for part in parts]
        if len(buffers) == 1:
            self._transport.write(buffers[0])
            return
        pending: list[Buffer] = []
        size = 0
        for buffer in buffers:
            if pending and size + len(buffer) > JOINED_BYTES:
                self._transport.write(b"".join(pending))
                pending, size = [], 0
            pending.append(buffer)
            size += len(buffer)
        self._transport.write(b"".join(pending) if len(pending) > 1 else pending[0])

    def close(self, reason: CloseReason = CloseReason.LOCAL, error: BaseException | None = None) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._reason, self._error = reason, error
            self._transport.abort()

    def close_when_sent(self) -> None:
        if not self.is_closed:
            self._reason = CloseReason.LOCAL
            self._transport.close()


def _address(name: Any) -> Address:
    return Address(name[0].removeprefix("::ffff:"), name[1])


def is_tls_error(error: BaseException) -> bool:
    """Whether TLS itself failed, rather than the network under it."""
    import ssl  # Only connections with TLS need it, and have loaded it.

    return isinstance(error, ssl.SSLError | ssl.CertificateError) and not isinstance(error, ssl.SSLEOFError)
