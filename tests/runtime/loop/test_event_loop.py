"""asyncio on the reactor: both are served by near thread, through asyncio's public interface."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections.abc import Iterator

import pytest

from barnabas.runtime.loop.event_loop import ReactorLoop, ReactorSelector, run
from barnabas.runtime.loop.poller import READ, make_poller
from barnabas.runtime.loop.reactor import Reactor


@pytest.fixture(params=[None, "select"])
def reactor(request: pytest.FixtureRequest) -> Iterator[Reactor]:
    reactor = Reactor(poller=make_poller(request.param))
    yield reactor
    reactor.close()


def test_asyncio_streams_work_on_it(reactor: Reactor) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(100_000))
        await writer.drain()
        writer.close()

    async def main() -> bytes:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x" * 100_000)
        reply = await reader.readexactly(100_000)
        writer.close()
        server.close()
        return reply

    assert run(reactor, main()) == b"x" * 100_000


def test_the_data_path_wakes_a_waiting_task(reactor: Reactor) -> None:
    """A future that a data-path handler resolves inside select() must not wait for asyncio's next event."""
    near, far = socket.socketpair()

    async def main() -> str:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        watch = reactor.watch(near.fileno(), lambda: future.set_result(near.recv(10).decode()), lambda: None)
        reactor.want(watch, READ)
        reactor.timers.set("later", reactor.clock.monotonic_ns() + 3_000_000, lambda: far.sendall(b"hello"))
        result = await future
        reactor.forget(watch)
        return result

    with near, far:
        assert run(reactor, main()) == "hello"


def test_the_data_path_can_start_an_asyncio_timer_and_stop_the_loop(reactor: Reactor) -> None:
    loop = ReactorLoop(reactor)
    order: list[str] = []

    def stop() -> None:
        order.append("stop")
        loop.stop()

    def in_data_path() -> None:
        order.append("data path")
        loop.call_later(0.001, lambda: reactor.at_tick_end(stop))

    reactor.timers.set("start", 0, in_data_path)
    loop.run_forever()
    assert order == ["data path", "stop"]
    loop.close()


def test_no_asyncio_tick_for_the_data_path(reactor: Reactor) -> None:
    near, far = socket.socketpair()
    selects: list[object] = []

    class CountingSelector(ReactorSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            selects.append(timeout)
            return super().select(timeout)

    selector = CountingSelector(reactor)
    rounds = 0

    def on_readable() -> None:
        nonlocal rounds
        rounds += 1
        near.recv(1)
        if rounds < 100:
            far.send(b"x")
        else:
            reactor.interrupt()

    with near, far:
        reactor.want(reactor.watch(near.fileno(), on_readable, lambda: None), READ)
        far.send(b"x")
        selector.select(None)
    assert rounds == 100
    assert len(selects) == 1


def test_errors_of_the_data_path_reach_the_loop_s_exception_handler(reactor: Reactor) -> None:
    seen: list[BaseException] = []

    def fail() -> None:
        raise RuntimeError("planted")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
        reactor.at_tick_end(fail)
        await asyncio.sleep(0.001)

    run(reactor, main())
    assert [str(error) for error in seen] == ["planted"]


def test_threads_and_subtasks_work_as_on_any_loop(reactor: Reactor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        posted: asyncio.Future[int] = loop.create_future()
        threading.Thread(target=lambda: reactor.post(lambda: posted.set_result(1))).start()
        by_thread = asyncio.to_thread(lambda: 2)
        return [
            await posted,
            await by_thread,
            *await asyncio.gather(asyncio.sleep(0, 3), asyncio.sleep(0.001, 4)),
        ]

    assert run(reactor, main()) == [1, 2, 3, 4]


def test_two_loops_one_after_another_on_one_reactor(reactor: Reactor) -> None:
    async def main() -> str:
        await asyncio.sleep(0)
        return "done"

    assert [run(reactor, main()), run(reactor, main())] == ["done", "done"]


def test_the_selector_keeps_the_contract_of_the_standard_library(reactor: Reactor) -> None:
    selector = ReactorSelector(reactor)
    near, far = socket.socketpair()
    key = selector.register(near, selectors.EVENT_READ, "data")
    with pytest.raises(KeyError, match="registered already"):
        selector.register(near, selectors.EVENT_READ)
    assert selector.get_key(near) == selector.get_map()[near.fileno()] == key
    assert list(selector.get_map()) == [near]
    assert len(selector.get_map()) == 1
    assert selector.modify(near, selectors.EVENT_READ | selectors.EVENT_WRITE, "more").data == "more"
    assert selector.select(0)[0][1] == selectors.EVENT_WRITE
    fd = near.fileno()
    near.close()
    assert selector.unregister(near).fd == fd
    with pytest.raises(KeyError, match="not registered"):
        selector.get_key(far)
    far.close()
    selector.close()
