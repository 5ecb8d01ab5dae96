"""A cluster's metadata quorum: three or five voters and brokers beside them, each a whole node.

Invariants: one leader an epoch; committed batches are the same bytes on every node and are never lost; every
image, of a broker or a controller, is that of the log up to its offset; a response holds; no node fails
except of its disk; and once the faults end, every node catches up and the cluster works.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft import raft_store
from barnabas.broker.modes.kraft import snapshot_generator as snapshotting
from barnabas.metadata.initial_voters import InitialVoter
from barnabas.runtime.planted import patched
from barnabas.runtime.simulated.network import host_name
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.metadata_cluster.client import TopicsClient
from barnabas.testing.simulation.metadata_cluster.logged_errors import logged_errors
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_cluster.server import (
    CONTROLLER_PORT,
    ClusterServer,
    directory_of,
    kraft_metadata_of,
)
from barnabas.testing.simulation.nemesis import Nemesis
from barnabas.testing.simulation.registry import scenario

TROUBLED_NS = 8_000 * NS_PER_MS
# Without faults at first, in some worlds: an election, registrations, some topics.
MAX_CALM_NS = 1_500 * NS_PER_MS
MEAN_STRIKE_PAUSE_NS = 500 * NS_PER_MS
QUIET_NS = 40_000 * NS_PER_MS
STOP_NS = 20_000 * NS_PER_MS
CLIENT_ID = 100
# Old snapshots are checked for often enough that some are deleted.
CLEAN_INTERVAL_MS = 350
# The records of one fetch and the bytes of a snapshot in one response: small, so that transfers take several.
TRANSFER_BYTES = 600
# How often a node is paused or stopped cleanly, and the longest pause.
DISTURB_EVERY_NS = 900 * NS_PER_MS
MAX_PAUSE_NS = 1_500 * NS_PER_MS


class MetadataCluster:
    """The nodes of a cluster and their client."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reference = ReferenceLog()
        self.violation: InvariantError | None = None
        self._random = world.random_for("cluster")
        self._leaders: dict[int, int] = {}
        dynamic = self._random.integer(0, 1) == 1
        voters = self._draw_voters()
        self.servers = [
            ClusterServer(
                world, node_id, roles, voters, dynamic=dynamic, reference=self.reference, violations=self
            )
            for node_id, roles in self._draw_roles(len(voters))
        ]
        self._servers = {server.id: server for server in self.servers}
        world.check_always(self._check)
        self.client = TopicsClient(world, CLIENT_ID, self.servers, self.reference, self)
        self.client.begin()
        self._is_disturbed = True

    def _draw_voters(self) -> list[InitialVoter]:
        count = 5 if self._random.integer(0, 3) == 0 else 3
        return [
            InitialVoter(node_id, host_name(node_id), CONTROLLER_PORT, directory_of(node_id))
            for node_id in range(1, count + 1)
        ]

    def _draw_roles(self, voters: int) -> list[tuple[int, str]]:
        combined = self._random.integer(0, voters)
        brokers = self._random.integer(0 if combined else 1, 2)
        roles = [
            (node_id, "broker,controller" if node_id <= combined else "controller")
            for node_id in range(1, voters + 1)
        ]
        return roles + [(node_id, "broker") for node_id in range(voters + 1, voters + brokers + 1)]

    # Invariants

    def violated(self, violation: InvariantError) -> None:
        if self.violation is None:
            self.violation = violation

    def _check(self) -> None:
        if self.violation is not None:
            raise self.violation
        node = self.world.active
        server = None if node is None else self._servers.get(node.id)
        if server is None:
            return
        epoch = server.leader_epoch
        if epoch is not None and self._leaders.setdefault(epoch, server.id) != server.id:
            raise InvariantError(f"n{self._leaders[epoch]} and n{server.id} both lead epoch {epoch}")

    def check_durable(self, when: str) -> None:
        """If all machines lost power now, a majority of the voters would still have what is committed."""
        voters = [server for server in self.servers if server.is_controller]
        offsets = sorted((server.surviving_offset(self.world) for server in voters), reverse=True)
        kept = offsets[len(voters) // 2]
        if kept < self.reference.end_offset:
            raise InvariantError(
                f"{when}: {self.reference.end_offset} offsets are committed, and voters would keep {offsets}"
            )

    # Faults

    def disturb(self) -> None:
        """Pauses a node, or stops it cleanly, now and then."""
        if not self._is_disturbed:
            return
        server = self.servers[self._random.integer(0, len(self.servers) - 1)]
        if self._random.integer(0, 1) == 0:
            server.stop()
        else:
            pause_ns = self._random.integer(1, MAX_PAUSE_NS)
            server.node._busy_until_ns = max(server.node._busy_until_ns, self.world.now_ns + pause_ns)
        self.world.agenda.after(self._random.integer(1, 2 * DISTURB_EVERY_NS), self.disturb)

    # The end

    def end_well(self) -> None:
        """The faults have ended."""
        self._is_disturbed = False
        self._await_progress("after the faults ended")
        self.client.is_active = False
        target = self.reference.end_offset - 1
        self._wait(
            lambda: all(
                server.is_started and (image := server.image) is not None and image.offset >= target
                for server in self.servers
            ),
            f"not every node has caught up with offset {target}",
        )
        self._wait(self._is_complete, "not every broker and controller is registered")
        self.client.check()
        for server in self.servers:
            assert server.broker is not None, "it has started"
            if server.broker.metadata.publish_errors:
                raise InvariantError(f"n{server.id}: a publisher failed")
        self.check_durable("at the end")
        self._stop_one()

    def _await_progress(self, when: str) -> None:
        """A client gets responses, among them that a topic was created."""
        known = len(self.client.created)
        self._wait(lambda: len(self.client.created) > known + 1, f"no topic was created {when}")

    def _restart(self) -> None:
        """A fault from before was met late, or a clean stop ended late."""
        for server in self.servers:
            if not server.node.is_up:
                server.node.start()
        if not self.client.node.is_up:
            self.client.node.start()

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        def holds() -> bool:
            self._restart()
            return condition()

        self.world.run(QUIET_NS, until=holds)
        if not holds():
            state = {server.id: _state(server) for server in self.servers}
            raise InvariantError(f"{otherwise}: {state}")

    def _is_complete(self) -> bool:
        """Every process is registered: each broker unfenced, each controller with its present incarnation."""
        image = self.reference.image
        for server in self.servers:
            if server.broker is None:
                return False
            if server.is_broker:
                broker = image.brokers.get(server.id)
                if broker is None or broker.fenced or broker.epoch != server.broker.broker_epoch:
                    return False
            if server.is_controller:
                controller = image.controllers.get(server.id)
                if (
                    controller is None
                    or controller.incarnation_id != kraft_metadata_of(server.broker).incarnation_id
                ):
                    return False
        return True

    def _stop_one(self) -> None:
        """A clean stop completes, and the others go on."""
        server = self.servers[self._random.integer(0, len(self.servers) - 1)]
        life = server.node.life
        server.stop()
        self.world.run(STOP_NS, until=lambda: server.node.life != life)
        if server.node.life == life:
            raise InvariantError(f"n{server.id} did not stop")
        server.surviving_offset(self.world)
        known = self.reference.end_offset
        self.world.run(QUIET_NS, until=lambda: self.reference.end_offset > known + 2)
        if self.reference.end_offset <= known + 2:
            raise InvariantError(f"nothing is committed without n{server.id}")


def _state(server: ClusterServer) -> str:
    image = server.image
    components = None if server.broker is None else kraft_metadata_of(server.broker)._components
    raft = None if components is None else components.store.quorum
    where = "" if raft is None else f"{type(raft.role).__name__} {raft.epoch} end {raft.end_offset}"
    return f"{server.roles} started={server.is_started} image {image and image.offset} {where}"


@scenario("metadata-quorum")
def metadata_quorum(world: World) -> None:
    """A metadata quorum of whole nodes keeps one committed log, whatever happens to them."""
    with ExitStack() as stack:
        stack.enter_context(patched(snapshotting, "CLEAN_INTERVAL_MS", CLEAN_INTERVAL_MS))
        stack.enter_context(patched(raft_store, "MAX_BATCH_BYTES", TRANSFER_BYTES))
        cluster = MetadataCluster(world)
        stack.enter_context(logged_errors(cluster))
        world.run(world.random.integer(1, MAX_CALM_NS))
        nemesis = Nemesis(world, mean_pause_ns=MEAN_STRIKE_PAUSE_NS)
        cluster.disturb()
        world.run(TROUBLED_NS)
        cluster.check_durable("before the faults ended")
        nemesis.stop()
        cluster.end_well()
