"""The world of one seed for an application: brokers, processes that crash, a network with faults.

A process is a coroutine function on a machine of its own.  What it keeps in Python objects outside of itself
is its database: it survives crashes, and no crash comes between two statements without an `await`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS, NS_PER_S
from barnabas.broker.server import Broker
from barnabas.config.node.node import read_node
from barnabas.runtime.simulated.event_loop import SimulatedEventLoop
from barnabas.runtime.simulated.links import LinkFaults
from barnabas.runtime.simulated.network import host_name
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.testing.kit.profile import options_for
from barnabas.testing.simulation.metadata_cluster.server import CLIENT_PORT, CONTROLLER_PORT, Loop
from barnabas.testing.simulation.metadata_node import DATA, format_folder

Process = Callable[[], Coroutine[Any, Any, Any]]
Body = Callable[["ApplicationWorld"], Awaitable[Any]]

FIRST_BROKER_ID = 1
TEST_ID = 100
FIRST_PROCESS_ID = 101
# Virtual time that a test may take.
MOST_S = 3_600
# Between two crashes of a process, and until it is started again.
LONGEST_LIFE_MS = 8_000
LONGEST_ABSENCE_MS = 1_000
# Between two looks at a condition.
POLL_MS = 50
# Space for indexes is reserved, which takes longer than everything else in a short test.
OPTIONS = {"log.index.size.max.bytes": 4_096}


class ApplicationWorld:
    """What a test may do with the world of its seed."""

    def __init__(self, seed: int, *, brokers: int = 1, keep_trace: bool = False) -> None:
        self.seed = seed
        self.world = World(seed, keep_trace=keep_trace)
        self._brokers = brokers
        self._loops: list[SimulatedEventLoop] = []
        self._started = 0
        self._processes: dict[str, Node] = {}
        self._crashing: set[str] = set()
        self._error: BaseException | None = None
        self._is_over = False
        self._random = self.world.random_for("application")
        self.crashes = 0

    # For tests ----------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """As `barnabas.client` wants them; they are reached from this world only."""
        return ",".join(f"{host_name(node_id)}:{CLIENT_PORT}" for node_id in self._broker_ids)

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        """Waits until it is there."""
        from barnabas.client import Admin, NewTopic

        async with Admin(bootstrap_servers=self.bootstrap_servers) as admin:
            (await admin.create_topics([NewTopic(name, partitions)])).raise_first()

    def start(self, name: str, process: Process, *, crashes: bool = True) -> None:
        """Starts a process; with `crashes` it ends at times that the seed chooses, and is started again."""
        if name in self._processes:
            raise ValueError(f"there is a process {name} already")
        node_id = FIRST_PROCESS_ID + len(self._processes)
        self._processes[name] = self.world.add_node(node_id, partial(self._boot, process))
        if crashes:
            self._crashing.add(name)
            self._crash_later(name)

    def crash(self, name: str) -> None:
        """The process ends now, between two awaits, and is started again soon."""
        node = self._processes[name]
        if node.is_up:
            self.crashes += 1
            node.crash(power_loss=False)
            delay_ns = self._random.integer(1, LONGEST_ABSENCE_MS) * NS_PER_MS
            self.world.agenda.after(delay_ns, partial(self._restart, node))

    def crash_broker(self, node_id: int = FIRST_BROKER_ID) -> None:
        """A broker ends as by SIGKILL, and is started again at once."""
        node = self.world.nodes[node_id]
        if node.is_up:
            node.crash(power_loss=False)
            self.world.agenda.after(NS_PER_MS, partial(self._restart, node))

    def disturb(self) -> None:
        """From now on the network delays as much as the seed wants."""
        self.world.links.faults = LinkFaults.draw(self.world.random_for("disturb"))

    def calm(self) -> None:
        """No more crashes and disturbances: what was begun can be finished."""
        self._crashing.clear()
        self.world.links.faults = LinkFaults()

    async def until(self, condition: Callable[[], bool], timeout: float = 60.0) -> None:
        """Waits in virtual time; raises an AssertionError if the condition does not hold then."""
        left = int(timeout * 1_000 / POLL_MS)
        while not condition():
            if not left:
                raise AssertionError(f"the condition does not hold after {timeout:g} s of virtual time")
            left -= 1
            await self.sleep(POLL_MS / 1_000)

    async def sleep(self, seconds: float) -> None:
        """Virtual seconds; processes use their loop's own, asyncio.sleep."""
        loop = self._loops[0]
        woken = loop.create_future()
        loop.call_later(seconds, woken.set_result, None)
        await woken

    # Running ------------------------------------------------------------------------------------------------

    @property
    def _broker_ids(self) -> range:
        return range(FIRST_BROKER_ID, FIRST_BROKER_ID + self._brokers)

    @property
    def digest(self) -> str:
        """Equal for equal runs."""
        return self.world.trace.digest

    def run(self, body: Body) -> None:
        """Runs a test to its end; raises what it raises, or what a process of it has raised."""
        try:
            for node_id in self._broker_ids:
                self.world.add_node(node_id, partial(self._boot_broker, node_id))
            self.world.run(until=lambda: self._started >= self._brokers or self._error is not None)
            if self._error is None:
                self.world.add_node(TEST_ID, partial(self._boot_test, body))
                self.world.run(MOST_S * NS_PER_S, until=lambda: self._is_over)
            if self._error is not None:
                raise self._error
            if not self._is_over:
                raise InvariantError(f"the test has not ended after {MOST_S} s of virtual time")
        finally:
            for loop in self._loops:
                loop.dispose()

    def _boot_test(self, body: Body, node: Node) -> None:
        def ended() -> None:
            self._is_over = True

        async def test() -> None:
            await body(self)

        self._run_on(node, test, ended)

    def _boot(self, process: Process, node: Node) -> None:
        self._run_on(node, process, lambda: None)

    def _run_on(self, node: Node, process: Process, ended: Callable[[], None]) -> None:
        loop = SimulatedEventLoop(node)
        # The test's own loop is the first: `until` and `sleep` are for it.
        self._loops.append(loop)

        async def watched() -> None:
            try:
                await process()
            except Exception as error:
                self._error = self._error or error
                self._is_over = True
            ended()

        with loop.running():
            loop.create_task(watched())

    def _crash_later(self, name: str) -> None:
        delay_ns = self._random.integer(1, LONGEST_LIFE_MS) * NS_PER_MS
        self.world.agenda.after(delay_ns, partial(self._crash_now, name))

    def _crash_now(self, name: str) -> None:
        if name in self._crashing and not self._is_over:
            self.crash(name)
            self._crash_later(name)

    def _restart(self, node: Node) -> None:
        if not node.is_up and not self._is_over:
            node.start()

    def _boot_broker(self, node_id: int, node: Node) -> None:
        if not node.disk.exists(DATA):
            format_folder(node.disk, node_id=node_id, directory_id=Uuid.from_words(node_id, 4711))
        broker = Broker(
            read_node({**_settings(node_id), **options_for(self._brokers, OPTIONS)}),
            disk=node.disk,
            clock=node.clock,
            random=node.random,
            loop=Loop(node),
            network=node.network,
            workers=node.workers,
            host_name=lambda: host_name(node_id),
        )
        broker.start().then(self._broker_started, self._failed)

    def _broker_started(self, _: None) -> None:
        self._started += 1

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error
        self._is_over = True


def _settings(node_id: int) -> dict[str, str]:
    """The first node is the controller too."""
    host, roles = host_name(node_id), "broker"
    listeners = f"PLAINTEXT://{host}:{CLIENT_PORT}"
    if node_id == FIRST_BROKER_ID:
        roles, listeners = "broker,controller", f"{listeners},CONTROLLER://{host}:{CONTROLLER_PORT}"
    return {
        "process.roles": roles,
        "node.id": str(node_id),
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{host}:{CLIENT_PORT}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{FIRST_BROKER_ID}@{host_name(FIRST_BROKER_ID)}:{CONTROLLER_PORT}",
        "log.dirs": DATA,
    }
