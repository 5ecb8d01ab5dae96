"""The worlds in which the same tests run: a real ensemble through kazoo, the simulated one, and that of the test
kit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor_thread import ReactorThread, wait_until
from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble
from barnabas.runtime.simulated.world import Node, World
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.testing.kit.node.ensemble import Ensemble
from barnabas.testing.kit.node.services import Gate, NodeLoop
from tests.runtime.zookeeper.cutting_proxy import CuttingProxy

T = TypeVar("T")

PATIENCE_S = 60.0
# Long enough that no session ends on a machine that is busy.
SESSION_MS = 20_000
# For tests that wait for the end of a session.
SHORT_SESSION_MS = 1_000


class Driver(Protocol):
    """Runs the loop of the clients, and strikes them with faults."""

    def client(self, session_timeout_ms: int = SESSION_MS) -> ZooKeeperClient: ...

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        """Call it on the loop and wait for its promise."""
        ...

    def call(self, action: Callable[[], T]) -> T:
        """Call it on the loop."""
        ...

    def until(self, condition: Callable[[], bool]) -> None:
        """Run until it holds."""
        ...

    def cut(self, client: ZooKeeperClient) -> None:
        """End the connection; the client may connect again."""
        ...

    def lose_next_answer(self, client: ZooKeeperClient) -> None:
        """The next request is carried out, and the connection ends in place of its answer."""
        ...

    def isolate(self, client: ZooKeeperClient) -> None:
        """No connection until `reconnect`."""
        ...

    def reconnect(self, client: ZooKeeperClient) -> None: ...


class RealDriver:
    """A reactor in a thread, and a proxy for each client."""

    def __init__(self, connect: str) -> None:
        self._thread = ReactorThread("zookeeper-test")
        address, _, self._path = connect.partition("/")
        self._port = int(address.rpartition(":")[2])
        self._clients: list[KazooZooKeeperClient] = []
        self._proxies: dict[int, CuttingProxy] = {}

    def client(self, session_timeout_ms: int = SESSION_MS) -> ZooKeeperClient:
        proxy = CuttingProxy(self._port)
        reactor = self._thread.reactor
        client = KazooZooKeeperClient(
            ZooKeeperOptions(f"{proxy.address}/{self._path}", session_timeout_ms, int(PATIENCE_S * 1000)),
            post=reactor.post,
            timers=reactor.timers,
            clock=SystemClock(),
        )
        self._clients.append(client)
        self._proxies[id(client)] = proxy
        return client

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        return self._thread.finish(begin, PATIENCE_S)

    def call(self, action: Callable[[], T]) -> T:
        return self.run(lambda: Promise.of(action()))

    def until(self, condition: Callable[[], bool]) -> None:
        assert wait_until(partial(self.call, condition), PATIENCE_S), "it took too long"

    def cut(self, client: ZooKeeperClient) -> None:
        self._proxies[id(client)].cut()

    def lose_next_answer(self, client: ZooKeeperClient) -> None:
        self._proxies[id(client)].swallow_answer()

    def isolate(self, client: ZooKeeperClient) -> None:
        self._proxies[id(client)].refuse()

    def reconnect(self, client: ZooKeeperClient) -> None:
        self._proxies[id(client)].accept_again()

    def end(self) -> None:
        for client in self._clients:
            self._proxies[id(client)].accept_again()
            self.run(client.close)
        for proxy in self._proxies.values():
            proxy.close()
        self._thread.end()


class SimulatedDriver:
    """A seeded world with a node for each client."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.ensemble = SimulatedEnsemble(self.world)
        self._nodes: dict[int, Node] = {}
        self._driver = self.world.add_node(0, lambda node: None)

    def client(self, session_timeout_ms: int = SESSION_MS) -> ZooKeeperClient:
        node = self.world.add_node(len(self.world.nodes), lambda node: None)
        client = self.ensemble.client(node, ZooKeeperOptions("zookeeper/chroot", session_timeout_ms))
        self._nodes[id(client)] = node
        return client

    def node_of(self, client: ZooKeeperClient) -> Node:
        return self._nodes[id(client)]

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        promise = self.call(begin)
        self.until(lambda: promise.done)
        if promise.error is not None:
            raise promise.error
        return promise.value

    def call(self, action: Callable[[], T]) -> T:
        results: list[T] = []
        self._driver.enter(self._driver.life, lambda: results.append(action()))
        return results[0]

    def until(self, condition: Callable[[], bool]) -> None:
        self.world.run(int(PATIENCE_S * 1e9), until=condition)
        assert condition(), "it took too long"

    def cut(self, client: ZooKeeperClient) -> None:
        self.ensemble.drop_connections(self._nodes[id(client)].id)

    def lose_next_answer(self, client: ZooKeeperClient) -> None:
        self.ensemble.lose_next_answer(self._nodes[id(client)].id)

    def isolate(self, client: ZooKeeperClient) -> None:
        for server in self.ensemble.servers:
            host, node = self.ensemble.host_of(server), self._nodes[id(client)].id
            self.world.links.block(host, node)
            self.world.links.block(node, host)

    def reconnect(self, client: ZooKeeperClient) -> None:
        self.world.links.heal()

    def end(self) -> None:
        """There is nothing to close."""


class KitDriver:
    """A reactor in a thread, and a link for each client, which delays what is said while it is cut."""

    def __init__(self) -> None:
        self._thread = ReactorThread("zookeeper-kit-test")
        self._ensemble = Ensemble(self._thread.reactor, SystemClock())
        self._links: dict[int, Gate] = {}

    def client(self, session_timeout_ms: int = SESSION_MS) -> ZooKeeperClient:
        link = Gate()
        loop = NodeLoop(self._thread.reactor, Gate())
        client = self._ensemble.client(len(self._links), loop, link, session_timeout_ms)
        self._links[id(client)] = link
        return client

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        return self._thread.finish(begin, PATIENCE_S)

    def call(self, action: Callable[[], T]) -> T:
        return self.run(lambda: Promise.of(action()))

    def until(self, condition: Callable[[], bool]) -> None:
        assert wait_until(partial(self.call, condition), PATIENCE_S), "it took too long"

    def cut(self, client: ZooKeeperClient) -> None:
        raise NotImplementedError("its connections do not break")

    def lose_next_answer(self, client: ZooKeeperClient) -> None:
        raise NotImplementedError("its connections do not break")

    def isolate(self, client: ZooKeeperClient) -> None:
        self.call(self._links[id(client)].shut)

    def reconnect(self, client: ZooKeeperClient) -> None:
        self.call(self._links[id(client)].open)

    def end(self) -> None:
        self._thread.end()
