"""Small requests over the reactor and its connections, compared with an asyncio protocol."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import struct
import time
from collections.abc import Mapping
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

from barnabas.runtime.loop import event_loop
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.network import Connection, StreamHandler
from barnabas.runtime.network.tcp import TcpNetwork
from bench.registry import OURS, Contender, Workbench, row

REQUEST_BYTES = 100
REQUESTS = 100_000
IN_FLIGHT = 128
ANSWER = struct.pack(">i", 4) + b"done"
SIZE = struct.Struct(">i")


class Echo(StreamHandler):
    """Responds to each frame with a short response."""

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, view: memoryview) -> int:
        position, end = 0, len(view)
        while end - position >= 4:
            size = 4 + SIZE.unpack_from(view, position)[0]
            if end - position < size:
                self._connection.expect(size)
                break
            self._connection.send(ANSWER)
            position += size
        return position


class AsyncioEcho(asyncio.Protocol):
    """The same on asyncio: one write per response."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        position, end = 0, len(data)
        while end - position >= 4:
            size = 4 + SIZE.unpack_from(data, position)[0]
            if end - position < size:
                break
            self.respond()
            position += size
        self._rest = data[position:]

    def respond(self) -> None:
        self._transport.write(ANSWER)


class AsyncioJoinedEcho(AsyncioEcho):
    """The same, but the responses of a read are joined by hand, which asyncio leaves to its user."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._responses: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._transport.write(b"".join(self._responses))
        self._responses.clear()

    def respond(self) -> None:
        self._responses.append(ANSWER)


def serve_ours(pipe: Pipe) -> None:
    reactor = Reactor()
    listener = TcpNetwork(reactor).listen("127.0.0.1", 0, lambda peer: Echo())
    pipe.send(listener.address.port)
    event_loop.run(reactor, asyncio.sleep(3600))


def serve_asyncio(protocol: type[AsyncioEcho], pipe: Pipe) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.sleep(3600)

    asyncio.run(main())


def requests_per_second(port: int) -> float:
    batch = (SIZE.pack(REQUEST_BYTES) + bytes(REQUEST_BYTES)) * (IN_FLIGHT // 2)
    buffer = bytearray(1 << 16)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = answered = 0
        started = time.perf_counter()
        while sent < REQUESTS or answered < sent * len(ANSWER):
            while sent < REQUESTS and sent - answered // len(ANSWER) <= IN_FLIGHT // 2:
                client.sendall(batch)
                sent += IN_FLIGHT // 2
            answered += client.recv_into(buffer)
        return sent / (time.perf_counter() - started)


def start(workbench: Workbench, serve: Any) -> Contender:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    workbench.stack.callback(process.join)
    workbench.stack.callback(process.terminate)
    return partial(requests_per_second, ours.recv())


@row(
    "echo",
    "Small requests, 100 B, 128 in flight, one connection",
    unit="requests/s",
    goal=3.0,
    floor=1.5,
    against="asyncio",
)
def contenders(workbench: Workbench) -> Mapping[str, Contender]:
    return {
        OURS: start(workbench, serve_ours),
        "asyncio": start(workbench, partial(serve_asyncio, AsyncioEcho)),
        "asyncio, joined by hand": start(workbench, partial(serve_asyncio, AsyncioJoinedEcho)),
    }
