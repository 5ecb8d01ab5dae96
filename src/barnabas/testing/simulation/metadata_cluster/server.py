"""One node of a simulated cluster: a whole `Broker` in any role, restarted as often as it fails."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from barnabas.base.ids import Uuid
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder, log_options
from barnabas.broker.server import Broker
from barnabas.config.node.node import Node as Configuration
from barnabas.config.node.node import read_node
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.metadata.initial_voters import InitialVoter
from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.simulated.disk_faults import Fault, Kind
from barnabas.runtime.simulated.network import host_name
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.storage.failure import StorageFailure
from barnabas.storage.refused import StorageRefused
from barnabas.testing.simulation.metadata_cluster.reference import ReferenceLog
from barnabas.testing.simulation.metadata_node import DATA, format_folder

CLIENT_PORT = 9092
CONTROLLER_PORT = 9093
# Small, so that segments roll, snapshots are taken and old ones are deleted within seconds; timeouts that
# simulated faults exceed now and then.
OPTIONS = {
    "controller.quorum.election.timeout.ms": 250,
    "controller.quorum.election.backoff.max.ms": 150,
    "controller.quorum.fetch.timeout.ms": 500,
    "controller.quorum.request.timeout.ms": 600,
    "request.timeout.ms": 2_000,
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "initial.broker.registration.timeout.ms": 600_000,
    "metadata.max.idle.interval.ms": 400,
    "metadata.log.max.record.bytes.between.snapshots": 1_000,
    "internal.metadata.log.segment.bytes": 1_500,
    "internal.metadata.delete.delay.millis": 200,
    "metadata.max.retention.bytes": 6_000,
    "log.index.size.max.bytes": 1_024,
}


class Violations(Protocol):
    """Receives what an invariant does not allow."""

    def violated(self, violation: InvariantError) -> None: ...


class Loop:
    """The event loop of a simulated node as a broker uses it."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def timers(self) -> TimerService:
        return self._node.timers

    def at_tick_end(self, action: Callable[[], None], /) -> None:
        self._node.after(0, action)


class ClusterServer:
    """A machine with one node of the cluster."""

    def __init__(
        self,
        world: World,
        node_id: int,
        roles: str,
        voters: Sequence[InitialVoter],
        *,
        dynamic: bool,
        reference: ReferenceLog,
        violations: Violations,
        options: Mapping[str, object] = OPTIONS,
        release: str = "4.1",
    ) -> None:
        self.id = node_id
        self.roles = roles
        self.reference = reference
        self.broker: Broker | None = None
        self.is_started = False
        # Snapshots of other nodes that this one has installed.
        self.installed = 0
        self.settings = _configuration(node_id, roles, voters, options, dynamic=dynamic)
        self._voters = voters
        self._release = release
        self._dynamic = dynamic
        self._violations = violations
        # The kind of the last injected disk fault that this process has met.
        self._fault: Kind | None = None
        self.node = world.add_node(node_id, self._boot)

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def address(self) -> tuple[str, int]:
        """Where clients reach it: brokers as usual, controllers too (KIP-919)."""
        return host_name(self.id), CLIENT_PORT if self.is_broker else CONTROLLER_PORT

    # Lifecycle

    def _boot(self, node: Node) -> None:
        self.broker = None
        self.is_started = False
        self._fault = None
        if node.life == 1:
            self._watch_faults(node)
            format_folder(
                node.disk,
                release=self._release,
                dynamic=self._dynamic,
                node_id=self.id,
                directory_id=directory_of(self.id),
                voters=self._voters,
            )
        broker = Broker(
            self.settings,
            disk=node.disk,
            clock=node.clock,
            random=node.random,
            loop=Loop(node),
            network=node.network,
            workers=node.workers,
            host_name=lambda: host_name(self.id),
        )
        life = node.life
        broker.on_fatal = partial(self._failed, node, life)
        broker.metadata.install(_Witness(self))
        try:
            started = broker.start()
        except (OSError, StorageFailure, StorageRefused) as error:
            self._failed(node, life, error)
            return
        self.broker = broker
        components = kraft_metadata_of(broker)._components
        assert components is not None, "it has started"
        _watch_installs(self, components.folder)
        listeners = components.store.listeners
        listeners.insert(0, _LogWitness(self, broker))
        listeners.append(_ControllerWitness(self, broker))
        started.then(lambda _: self._started(node, life), partial(self._failed, node, life))

    def _watch_faults(self, node: Node) -> None:
        healthy = node.disk.begin

        def begin(kind: Kind, path: str, length: int = 0) -> Fault | None:
            fault = healthy(kind, path, length)
            if fault is not None:
                self._fault = kind
            return fault

        node.disk.begin = begin  # type: ignore[method-assign]

    def _started(self, node: Node, life: int) -> None:
        if node.life == life:
            self.is_started = True

    def _failed(self, node: Node, life: int, error: BaseException) -> None:
        """Injected disk faults may stop a node, and nothing else."""
        if node.life != life:
            return
        if self._fault is None:
            self._violations.violated(InvariantError(f"n{self.id} failed without a disk fault: {error!r}"))
        is_lost = self._fault in (Kind.SYNC, Kind.SYNC_FOLDER)
        node.halt(error)
        if is_lost:
            # After a failed sync the page cache shows data that the disk does not have: a process that
            # restarts cannot tell.  The machine is restarted, too.
            node.disk.power_loss()

    def stop(self) -> None:
        """A clean shutdown; the process ends when it is complete."""
        node, broker = self.node, self.broker
        if broker is None or not node.is_up or not self.is_started:
            return
        self.is_started = False
        life = node.life

        def stopped(_: object) -> None:
            if node.life == life:
                node.crash(power_loss=False)

        node.enter(life, lambda: broker.stop().then(stopped, partial(self._failed, node, life)))

    def violated(self, violation: InvariantError) -> None:
        self._violations.violated(violation)

    # State

    @property
    def image(self) -> Image | None:
        """The image of the running process."""
        return None if self.broker is None or not self.node.is_up else self.broker.metadata.image

    @property
    def leader_epoch(self) -> int | None:
        if self.broker is None or not self.node.is_up:
            return None
        components = kraft_metadata_of(self.broker)._components
        return None if components is None else components.store.quorum.leader_epoch

    def surviving_offset(self, world: World) -> int:
        """The end of the committed log that a power loss now would leave on this disk."""
        copy = self.node.disk.fork(world.random_for(f"copy {self.id} {world.now_ns}"))
        copy.power_loss()
        copy.restart()
        copy.clear_faults()
        # Without the faults of the original, and its observation.
        options = log_options(self.settings.settings)
        folder = MetadataFolder(copy, self.node.clock, world.random_for("copy"), DATA, options)
        latest = folder.snapshots.latest
        offset = 0 if latest is None else latest.offset
        for batch in folder.batches_from(max(offset, folder.log.log_start_offset)):
            if not self.reference.has(batch):
                break
            offset = batch.next_offset
        return offset


class _Witness:
    """A publisher: every published image is that of the log."""

    name = "witness"

    def __init__(self, server: ClusterServer) -> None:
        self._server = server

    def publish(self, delta: Delta, image: Image) -> None:
        server = self._server
        try:
            server.reference.check_image(f"n{server.id}", image)
            _check_delta(server.id, delta)
        except InvariantError as violation:
            server.violated(violation)


def _check_delta(node_id: int, delta: Delta) -> None:
    """A delta names every topic and broker that differs."""
    before, after = delta.before, delta.image
    for kind, old, new, named in (
        ("topic", before.topics, after.topics, delta.topics),
        ("broker", before.brokers, after.brokers, delta.brokers),
    ):
        for key in {*old, *new}:
            if old.get(key) != new.get(key) and key not in named:
                raise InvariantError(f"n{node_id}: the delta lacks the {kind} {key}")


class _LogWitness:
    """The first listener of the store: what is reported as committed is in the log, as everywhere else."""

    def __init__(self, server: ClusterServer, broker: Broker) -> None:
        self._server = server
        self._broker = broker
        self._next_offset = 0

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        components = kraft_metadata_of(self._broker)._components
        if not is_end or components is None:
            return
        end_offset = components.store._next_offset
        assert end_offset is not None, "something was committed"
        folder = components.folder
        start = max(self._next_offset, folder.log.log_start_offset)
        try:
            for batch in folder.batches_from(start):
                if batch.last_offset >= end_offset:
                    break
                self._server.reference.committed(self._server.id, batch)
        except InvariantError as violation:
            self._server.violated(violation)
        self._next_offset = end_offset

    def loading_snapshot(self) -> None:
        """The images show what it contained."""

    def won(self, epoch: int) -> None: ...

    def lost(self, epoch: int) -> None: ...

    def failed(self, error: BaseException) -> None: ...


class _ControllerWitness(_LogWitness):
    """The last listener of the store: the controller's committed image is that of the log."""

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        self._check(is_end=is_end)

    def won(self, epoch: int) -> None:
        """Called before the controller acts: every live broker has a whole session from now on."""
        components = kraft_metadata_of(self._broker)._components
        assert components is not None, "it has started"
        controller, clock = components.driver.controller, self._server.node.clock
        activated_ns, fence_stale = clock.monotonic_ns(), type(controller).fence_stale

        def fence(now_ns: int) -> list[Message]:
            records = fence_stale(controller, now_ns)
            if records and now_ns - activated_ns <= controller.state.heartbeats.session_timeout_ns:
                self._server.violated(
                    InvariantError(
                        f"n{self._server.id} fenced a broker {now_ns - activated_ns} ns after it won"
                    )
                )
            return records

        controller.fence_stale = fence  # type: ignore[method-assign]

    def lost(self, epoch: int) -> None:
        self._check(is_end=True)

    def _check(self, *, is_end: bool) -> None:
        components, server = kraft_metadata_of(self._broker)._components, self._server
        if not is_end or components is None:
            return
        driver = components.driver
        image = driver._committed if driver.active_epoch is not None else driver.controller.image
        if image.offset < 0 and driver._committed_offset < 0:
            return
        try:
            server.reference.check_image(f"the controller of n{server.id}", image)
        except InvariantError as violation:
            server.violated(violation)


def _watch_installs(server: ClusterServer, folder: MetadataFolder) -> None:
    healthy = folder._install

    def install(snapshot: object) -> object:
        server.installed += 1
        return healthy(snapshot)  # type: ignore[arg-type]

    folder._install = install  # type: ignore[method-assign, assignment]


def directory_of(node_id: int) -> Uuid:
    return Uuid.from_words(node_id, 4711)


def _configuration(
    node_id: int,
    roles: str,
    voters: Sequence[InitialVoter],
    options: Mapping[str, object],
    *,
    dynamic: bool,
) -> Configuration:
    addresses = [f"{voter.host}:{voter.port}" for voter in voters]
    host = host_name(node_id)
    listeners = []
    if "broker" in roles:
        listeners.append(f"PLAINTEXT://{host}:{CLIENT_PORT}")
    if "controller" in roles:
        listeners.append(f"CONTROLLER://{host}:{CONTROLLER_PORT}")
    quorum = (
        {"controller.quorum.bootstrap.servers": ",".join(addresses)}
        if dynamic
        else {
            "controller.quorum.voters": ",".join(
                f"{voter.node_id}@{address}" for voter, address in zip(voters, addresses, strict=True)
            )
        }
    )
    return read_node(
        {
            "process.roles": roles,
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": DATA,
            **quorum,
            **{name: str(value) for name, value in options.items()},
        }
    )


def is_disk_error(error: BaseException) -> bool:
    """Whether an error is one that the simulated disk raises."""
    return isinstance(error, OSError) and error.errno in (errno.EIO, errno.ENOSPC)


def kraft_metadata_of(broker: Broker) -> KraftMetadata:
    """The metadata of a broker in KRaft mode, which all nodes of this world are."""
    assert isinstance(broker.metadata, KraftMetadata), "process.roles is set"
    return broker.metadata
