"""Connections on asyncio's own loop: the same guarantees as on the reactor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.runtime.network.asyncio_network import AsyncioNetwork, ClientSocketOptions
from barnabas.runtime.network.buffers import READ_BUFFER_BYTES
from barnabas.runtime.network.network import CloseReason, Connection, StreamHandler
from tools.ports import free_ports

PATIENCE_S = 120
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


class Recorder(StreamHandler):
    """Frames of four size bytes and as many bytes."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.connection: Connection | None = None
        self.ended: asyncio.Future[tuple[CloseReason, BaseException | None]] = (
            asyncio.get_running_loop().create_future()
        )
        self.opened = asyncio.Event()
        self.received = asyncio.Event()

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        self.opened.set()

    def data_received(self, view: memoryview) -> int:
        position = 0
        while len(view) - position >= 4:
            end = position + 4 + int.from_bytes(view[position : position + 4], "big")
            if end > len(view):
                assert self.connection is not None
                self.connection.expect(end - position)
                break
            self.frames.append(bytes(view[position + 4 : end]))
            position = end
            self.received.set()
        return position

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.ended.set_result((reason, error))


def framed(*contents: bytes) -> bytes:
    return b"".join(len(content).to_bytes(4, "big") + content for content in contents)


def run(serve: Serve, client: Callable[[AsyncioNetwork, int], Any]) -> None:
    async def work() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(PATIENCE_S):
            await client(AsyncioNetwork(), server.sockets[0].getsockname()[1])
        server.close()
        await server.wait_closed()

    asyncio.run(work())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


def test_frames_of_every_size_are_echoed() -> None:
    sizes = [0, 1, 100, READ_BUFFER_BYTES - 4, READ_BUFFER_BYTES, 3_000_000]

    async def client(network: AsyncioNetwork, port: int) -> None:
        handler = Recorder()
        network.connect("127.0.0.1", port, handler)
        await handler.opened.wait()
        assert handler.connection is not None
        assert handler.connection.peer.port == port
        expected = [bytes([number]) * size for number, size in enumerate(sizes)] * 2
        for content in expected:
            handler.connection.send(len(content).to_bytes(4, "big"), content)
        while len(handler.frames) < len(expected):
            handler.received.clear()
            await handler.received.wait()
        assert handler.frames == expected
        handler.connection.close_when_sent()
        assert (await handler.ended)[0] is CloseReason.LOCAL
        assert handler.connection.is_closed or handler.ended.done()

    run(echo, client)


def test_the_peer_closes() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(framed(b"bye"))
        await writer.drain()
        writer.close()

    async def client(network: AsyncioNetwork, port: int) -> None:
        handler = Recorder()
        network.connect("127.0.0.1", port, handler)
        assert await handler.ended == (CloseReason.PEER, None)
        assert handler.frames == [b"bye"]
        assert handler.connection is not None
        handler.connection.send(b"too late")

    run(serve, client)


def test_a_handler_that_fails_closes_the_connection() -> None:
    class Broken(Recorder):
        def data_received(self, view: memoryview) -> int:
            raise ValueError("cannot read this")

    async def client(network: AsyncioNetwork, port: int) -> None:
        handler = Broken()
        network.connect("127.0.0.1", port, handler)
        await handler.opened.wait()
        assert handler.connection is not None
        handler.connection.send(b"x")
        reason, error = await handler.ended
        assert reason is CloseReason.HANDLER_FAILED
        assert str(error) == "cannot read this"

    run(echo, client)


def test_a_port_without_a_listener() -> None:
    async def client(network: AsyncioNetwork, port: int) -> None:
        handler = Recorder()
        network.connect("127.0.0.1", free_ports(1)[0], handler)
        reason, error = await handler.ended
        assert reason is CloseReason.CONNECT_FAILED
        assert isinstance(error, OSError)

    run(echo, client)


def test_cancelling_and_timing_out() -> None:
    async def client(network: AsyncioNetwork, port: int) -> None:
        given_up = Recorder()
        give_up = network.connect("127.0.0.1", port, given_up)
        give_up()
        await asyncio.sleep(0)
        late = Recorder()
        # An address reserved for documentation: no response, or an immediate error of the network.
        network.connect("192.0.2.1", 9, late, ClientSocketOptions(connect_timeout_ms=50))
        reason, _ = await late.ended
        assert reason in (CloseReason.CONNECT_TIMED_OUT, CloseReason.CONNECT_FAILED)

    run(echo, client)


@pytest.mark.parametrize("paused", [True, False])
def test_reading_is_paused(paused: bool) -> None:
    responded = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
            responded.set()
        writer.close()

    async def client(network: AsyncioNetwork, port: int) -> None:
        handler = Recorder()
        options = ClientSocketOptions(send_buffer_bytes=65536, receive_buffer_bytes=65536)
        network.connect("127.0.0.1", port, handler, options)
        await handler.opened.wait()
        connection = handler.connection
        assert connection is not None
        if paused:
            connection.pause_reading()
        assert connection.reading is not paused
        connection.send(framed(b"hello"))
        await responded.wait()
        if paused:
            # A later exchange on another connection is read, and so this one's data would have been.
            await round_trip(network, port)
            assert handler.frames == []
        connection.resume_reading()
        await handler.received.wait()
        assert handler.frames == [b"hello"]
        assert connection.queued_bytes == 0
        connection.close()
        await handler.ended

    run(serve, client)


async def round_trip(network: AsyncioNetwork, port: int) -> None:
    """Data is sent and echoed on a separate connection."""
    witness = Recorder()
    network.connect("127.0.0.1", port, witness)
    await witness.opened.wait()
    assert witness.connection is not None
    witness.connection.send(framed(b"witness"))
    await witness.received.wait()
    witness.connection.close()
    await witness.ended
