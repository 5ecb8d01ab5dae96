"""Syslog messages over UDP (RFC 5426) and TCP (RFC 6587, both framings).

Contains listening, framing and a bounded buffer; messages become records unchanged.

TCP is throttled: a connection is not read while the buffer is full.  UDP cannot be: datagrams that arrive
while the buffer is full are dropped, counted and reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import NamedTuple

from barnabas.collect.lines import MAX_LINE_BYTES, LineCutter
from barnabas.collect.sources import Lines

logger = logging.getLogger(__name__)

MAX_BUFFER_BYTES = 8 * 1024 * 1024
MAX_LINES_AT_ONCE = 1_000
MAX_CONNECTIONS = 1_000
# RFC 6587: the octet count has no leading zero and no more digits than the largest message needs.
MAX_COUNT_DIGITS = 8
TCP_CHUNK_BYTES = 64 * 1024
PLACE = 0


class SyslogAddress(NamedTuple):
    """An address to listen on."""

    protocol: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> SyslogAddress:
        """Parse `udp://HOST:PORT` or `tcp://HOST:PORT`; raises ValueError with the reason."""
        protocol, mark, place = text.partition("://")
        host, _, port = place.rpartition(":")
        if protocol not in ("udp", "tcp") or not mark:
            raise ValueError(f"{text!r} should be udp://HOST:PORT or tcp://HOST:PORT")
        if not host or not (port.isascii() and port.isdecimal() and int(port) < 2**16):
            raise ValueError(f"{text!r} should end with HOST:PORT")
        return cls(protocol, host.strip("[]"), int(port))


class SyslogFramer:
    """Splits a stream into messages.  A message that begins with a digit is preceded by its length; any other
    one ends with its line."""

    def __init__(self, max_message_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_message_bytes
        self._cutter = LineCutter(max_message_bytes)
        self._counted = b""

    def cut(self, chunk: bytes) -> list[bytes]:
        """Return the messages that end in this chunk; raises ValueError if the framing is invalid."""
        messages: list[bytes] = []
        data = self._counted + chunk
        self._counted = b""
        while data:
            if self._cutter.waiting_bytes or not data[:1].isdigit():
                line, end, data = data.partition(b"\n")
                messages += self._cutter.cut(line + end)
                continue
            count, space, rest = data.partition(b" ")
            if not count.isdigit() or len(count) > MAX_COUNT_DIGITS or int(count) > self._max:
                raise ValueError(f"a message begins with {count[:20]!r}, which is not a valid length")
            if not space or len(rest) < int(count):
                self._counted = data
                break
            messages.append(rest[: int(count)])
            data = rest[int(count) :]
        return messages

    def end(self) -> list[bytes]:
        return self._cutter.end()


class SyslogSource:
    """Listens on all of its addresses."""

    def __init__(self, addresses: list[SyslogAddress], *, max_buffer_bytes: int = MAX_BUFFER_BYTES) -> None:
        self._addresses = addresses
        self._max_buffer_bytes = max_buffer_bytes
        self._buffer: deque[tuple[str, bytes]] = deque()
        self._buffered_bytes = 0
        self._has_some = asyncio.Event()
        self._has_space = asyncio.Event()
        self._has_space.set()
        self._is_stopped = False
        self._dropped = 0
        self._dropped_reported = 0
        self._position = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._datagrams: list[asyncio.DatagramTransport] = []
        # The actual addresses: the system may have chosen a port.
        self.bound: list[SyslogAddress] = []

    @property
    def dropped(self) -> int:
        """The number of datagrams that were dropped."""
        return self._dropped

    async def open(self) -> None:
        """Listen; raises OSError if an address is in use."""
        loop = asyncio.get_running_loop()
        for address in self._addresses:
            if address.protocol == "udp":
                transport, _ = await loop.create_datagram_endpoint(
                    lambda: _Datagrams(self), local_addr=(address.host, address.port)
                )
                self._datagrams.append(transport)
                port = transport.get_extra_info("sockname")[1]
            else:
                server = await asyncio.start_server(self._connected, address.host, address.port)
                self._servers.append(server)
                port = server.sockets[0].getsockname()[1]
            self.bound.append(address._replace(port=port))

    async def read(self) -> AsyncGenerator[Lines, None]:
        while not self._is_stopped or self._buffer:
            await self._has_some.wait()
            while self._buffer:
                origin = self._buffer[0][0]
                lines: list[bytes] = []
                while self._buffer and self._buffer[0][0] == origin and len(lines) < MAX_LINES_AT_ONCE:
                    message = self._buffer.popleft()[1]
                    self._buffered_bytes -= len(message)
                    lines.append(message)
                self._has_space.set()
                self._position += len(lines)
                yield Lines(origin, lines, PLACE, self._position)
            self._warn_of_dropped()
            if not self._is_stopped:
                self._has_some.clear()

    def take(self, origin: str, message: bytes) -> bool:
        """Add a message to the buffer; returns False if it is full."""
        message = message.rstrip(b"\r\n\0")
        if not message:
            return True
        if self._buffered_bytes + len(message) > self._max_buffer_bytes:
            return False
        self._buffer.append((origin, message))
        self._buffered_bytes += len(message)
        self._has_some.set()
        return True

    def drop(self) -> None:
        self._dropped += 1

    def _warn_of_dropped(self) -> None:
        if self._dropped > self._dropped_reported:
            logger.warning(
                "%d syslog datagrams were dropped because lines arrive faster than they are sent; "
                "syslog over TCP waits instead",
                self._dropped - self._dropped_reported,
            )
            self._dropped_reported = self._dropped

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MAX_CONNECTIONS:
            logger.warning("more than %d syslog connections: one was closed", MAX_CONNECTIONS)
            writer.close()
            return
        self._connections.add(task)
        origin = str(writer.get_extra_info("peername")[0])
        try:
            await self._read_stream(origin, reader)
        except (OSError, ValueError) as error:
            logger.warning("the syslog connection from %s was closed: %s", origin, error)
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _read_stream(self, origin: str, reader: asyncio.StreamReader) -> None:
        framer = SyslogFramer()
        while chunk := await reader.read(TCP_CHUNK_BYTES):
            for message in framer.cut(chunk):
                await self._put(origin, message)
        for message in framer.end():
            await self._put(origin, message)

    async def _put(self, origin: str, message: bytes) -> None:
        while not self.take(origin, message):
            self._has_space.clear()
            await self._has_space.wait()

    def written(self, place: int, position: int) -> None:
        """Nothing to save: messages cannot be requested again."""

    def stop(self) -> None:
        """Accept no more; what is in the buffer is still returned."""
        for transport in self._datagrams:
            transport.close()
        for server in self._servers:
            server.close()
        for task in self._connections:
            task.cancel()
        self._is_stopped = True
        self._has_some.set()

    def close(self) -> None:
        self._warn_of_dropped()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, source: SyslogSource) -> None:
        self._source = source

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if not self._source.take(addr[0], data):
            self._source.drop()
