"""A metadata log: requests, snapshots, retention, and power loss at any moment.

Invariant, checked with committed deltas and responses: what a power loss now would leave on the disk must
lead to the same image.  And whenever the node restarts, or leads again after it had resigned: it has
everything that was committed, in a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft import snapshot_generator as snapshotting
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.broker.modes.kraft.snapshot_files import SnapshotFiles
from barnabas.broker.modes.kraft.snapshot_generator import SnapshotGenerator
from barnabas.config.node.node import Node as Configuration
from barnabas.controller.configs.configs import OpType
from barnabas.controller.machine import Controller
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, ConfigResource, Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from barnabas.protocol.schema import Message
from barnabas.raft.quorum import Quorum
from barnabas.raft.quorum_state_file import ElectionState
from barnabas.raft.snapshot import SnapshotId
from barnabas.runtime.disk.disk import Disk, WholeFiles
from barnabas.runtime.planted import patched
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.world import InvariantError, Node, World
from barnabas.storage.failure import StorageFailure
from barnabas.testing.simulation.metadata_node import (
    NODE_ID,
    configuration,
    creation,
    format_folder,
    heartbeat,
    make_metadata,
    registration,
)
from barnabas.testing.simulation.metadata_survivor import Survivor
from barnabas.testing.simulation.nemesis import Nemesis, Strike
from barnabas.testing.simulation.registry import planted, scenario
from barnabas.testing.simulation.token_requests import SECRET

TROUBLED_NS = 3_000 * NS_PER_MS
# Old snapshots are checked for often enough that some are deleted.
CLEAN_INTERVAL_MS = 350
# Checking what a power loss would leave takes as long as a start of the node.
CHECK_ONE_IN = 4
QUIET_NS = 20_000 * NS_PER_MS
ASK_EVERY_NS = 40 * NS_PER_MS
# How often the leader resigns instead of getting a request, and how long there is no leader then.
RESIGN_ONE_IN = 30
MAX_WITHOUT_LEADER_NS = 150 * NS_PER_MS
# There is a single node, and after a failed sync the page cache shows data that the disk does not have: a
# process that restarts on it cannot tell.
STRIKES = frozenset(Strike) - {Strike.PARTITION, Strike.ONE_WAY_LOSS, Strike.CUT, Strike.FAILED_SYNC}
# Small, so that segments roll, snapshots are taken and old ones are deleted within seconds.
OPTIONS = {
    "metadata.max.idle.interval.ms": 300,
    "metadata.log.max.record.bytes.between.snapshots": 900,
    "internal.metadata.log.segment.bytes": 1_500,
    "internal.metadata.delete.delay.millis": 200,
    "metadata.max.retention.bytes": 6_000,
    "delegation.token.secret.key": SECRET,
}


class MetadataLife:
    """A node with its metadata, requests to it, and a model of what was committed."""

    def __init__(self, world: World, *, dynamic: bool, power_loss_in: int | None = None) -> None:
        self.world = world
        self.random = world.random_for("requests")
        self.settings: Configuration = configuration(OPTIONS, dynamic=dynamic)
        self.committed: Image = EMPTY_IMAGE
        self.answers = 0
        self.asks = True
        self._dynamic = dynamic
        self._power_loss_in = power_loss_in
        self._led_in: list[int] = []
        self._number = 0
        self.metadata: KraftMetadata | None = None
        self.violation: InvariantError | None = None
        world.check_always(self._raise_violation)
        self.node: Node = world.add_node(NODE_ID, self._boot)

    def _raise_violation(self) -> None:
        if self.violation is not None:
            raise self.violation

    # The node

    def _boot(self, node: Node) -> None:
        self.metadata = None
        if node.life == 1:
            format_folder(node.disk, dynamic=self._dynamic)
            if self._power_loss_in is not None:
                node.disk.crash_after(self._power_loss_in)
        metadata = make_metadata(node, self.settings, partial(self._failed, node))
        metadata.install(_Witness(self, node))
        try:
            metadata.start().then(lambda _: self._check_started(node), lambda _: None)
        except (OSError, StorageFailure) as error:
            node.halt(error)
            return
        self.metadata = metadata

    def _failed(self, node: Node, error: BaseException) -> None:
        """Disk faults may stop a node; committed records must survive."""
        if not isinstance(error, OSError | StorageFailure):
            self.violation = InvariantError(f"the node failed: {error!r}")
        node.halt(error)

    def _check_started(self, node: Node) -> None:
        try:
            self._started(node)
        except InvariantError as violation:
            self.violation = violation

    def _started(self, node: Node) -> None:
        """The node leads, in an epoch in which it never led before, and its vote would survive."""
        epoch = self.committed.epoch
        if self._led_in and epoch <= self._led_in[-1]:
            raise InvariantError(f"the node leads in epoch {epoch}, as it did before: {self._led_in}")
        self._led_in.append(epoch)
        kept = self._survivor(node.disk).folder.election()
        if kept != ElectionState(epoch, NODE_ID):
            raise InvariantError(f"the node leads in epoch {epoch}, but its disk would contain {kept}")
        self._join()

    def on_delta(self, node: Node, delta: Delta) -> None:
        """A committed delta has reached the publishers."""
        if delta.image.offset <= self.committed.offset and not _same(delta.image, self.committed):
            raise InvariantError(f"offset {delta.image.offset} was committed before, as something else")
        self.committed = delta.image
        if self.random.integer(1, CHECK_ONE_IN) == 1:
            self._check(node.disk, "a power loss right after a commit")

    # Invariants

    def _check(self, disk: SimulatedDisk, when: str) -> None:
        if self.committed.offset < 0:
            return
        image = self._survivor(disk).image_at(self.committed.offset)
        if not _same(image, self.committed):
            raise InvariantError(
                f"{when}: the disk leads to {_brief(image)}, committed was {_brief(self.committed)}"
            )

    def _survivor(self, disk: SimulatedDisk) -> Survivor:
        copy = disk.fork(self.world.random_for(f"copy {self.world.now_ns}"))
        copy.power_loss()
        copy.restart()
        return Survivor(copy, self.node.clock, self.settings)

    # Requests

    def ask(self, request: Message, then: Callable[[Message], None]) -> None:
        if self.metadata is not None:
            version = request.schema.versions.highest
            self.metadata.send_request(request, version, OWN_PRINCIPAL).then(
                partial(self._answered, then), self._refused
            )

    def _answered(self, then: Callable[[Message], None], reply: Message) -> None:
        """The controller continues after a callback that raises: a violation is raised after the event."""
        try:
            then(reply)
        except InvariantError as violation:
            self.violation = violation

    def _refused(self, error: BaseException) -> None:
        if not isinstance(error, KafkaError) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.violation = InvariantError(f"a request failed with {error!r}")

    def _join(self) -> None:
        self._number += 1
        self.ask(registration(self._number), self._registered)

    def _registered(self, reply: Message) -> None:
        assert isinstance(reply, BrokerRegistrationResponse)
        self.ask(heartbeat(reply.broker_epoch, self.committed.offset), lambda _: None)

    def ask_on(self) -> None:
        """Send a request, and another one soon."""
        if self.asks:
            resigns = self.random.integer(1, RESIGN_ONE_IN) == 1
            self.node.enter(self.node.life, self._resign if resigns else self.ask_something)
            self.world.agenda.after(self.random.integer(1, 2 * ASK_EVERY_NS), self.ask_on)

    def _resign(self) -> None:
        """Leadership is lost, with records in flight to the disk, and regained in a later epoch."""
        parts = None if self.metadata is None else self.metadata._components
        if parts is None or parts.driver.active_epoch is None:
            return
        self.ask_something()
        parts.store.resign(parts.driver.active_epoch)
        self.node.after(self.random.integer(1, MAX_WITHOUT_LEADER_NS), parts.store.stand)

    @property
    def leads(self) -> bool:
        """Whether the controller is active, and the node has not resigned meanwhile."""
        parts = None if self.metadata is None else self.metadata._components
        if parts is None or parts.driver.active_epoch is None:
            return False
        return parts.store.quorum.leader_epoch == parts.driver.active_epoch

    def ask_something(self) -> None:
        self._number += 1
        names = sorted(self.committed.topic_ids)
        drawn = self.random.integer(0, 9)
        if drawn < 5 or not names:
            name = f"t{self._number}"
            self.ask(creation(name, partitions=self.random.integer(1, 4)), partial(self._created, name))
            return
        name = names[self.random.integer(0, len(names) - 1)]
        if drawn < 8:
            self.ask(_retention(name, self._number), partial(self._altered, name, str(self._number)))
        else:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=1
            )
            self.ask(request, partial(self._deleted, name))

    def _created(self, name: str, reply: Message) -> None:
        assert isinstance(reply, CreateTopicsResponse)
        self.answers += 1
        if reply.topics[0].error_code == 0 and self.committed.topic_ids.get(name) != reply.topics[0].topic_id:
            raise InvariantError(f"the response to the creation of {name} was sent before the commit")

    def _altered(self, name: str, value: str, reply: Message) -> None:
        self.answers += 1
        known = self.committed.configs_of(ConfigResource.TOPIC, name)
        if name in self.committed.topic_ids and int(known.get("retention.ms", "0")) < int(value):
            raise InvariantError(
                f"{name}: retention.ms={value} got a response, and {dict(known)} is committed"
            )

    def _deleted(self, name: str, reply: Message) -> None:
        assert isinstance(reply, DeleteTopicsResponse)
        self.answers += 1
        is_throttled = reply.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if not is_throttled and name in self.committed.topic_ids:
            raise InvariantError(f"the response to the deletion of {name} was sent before the commit")

    # The end

    def stop_cleanly(self) -> None:
        """A clean shutdown leaves a log that ends with the committed records."""
        self.asks = False
        stopped: list[object] = []
        metadata = self.metadata
        assert metadata is not None, "all is well"
        self.node.enter(self.node.life, lambda: metadata.stop().then(stopped.append, stopped.append))
        self.world.run(QUIET_NS, until=lambda: bool(stopped))
        if stopped != [None]:
            raise InvariantError(f"a clean stop ended with {stopped}")
        self._check_controller(metadata)
        end = self._survivor(self.node.disk).folder.log.end_offset
        if end != self.committed.offset + 1:
            raise InvariantError(f"the log ends at {end}, committed was {self.committed.offset}")
        self._check(self.node.disk, "a power loss after a clean stop")

    def _check_controller(self, metadata: KraftMetadata) -> None:
        """Once all is committed the images of controller and broker are equal, whoever led in between."""
        assert metadata._components is not None, "it has started"
        decided = metadata._components.driver.controller.image
        if not _same(decided, metadata.image):
            raise InvariantError(
                f"the controller has {_brief(decided)}, its broker has {_brief(metadata.image)}"
            )


class _Witness:
    """A publisher.  The loader continues after one that raises: a violation is raised after the event."""

    name = "witness"

    def __init__(self, life: MetadataLife, node: Node) -> None:
        self._life = life
        self._node = node

    def publish(self, delta: Delta, image: Image) -> None:
        try:
            self._life.on_delta(self._node, delta)
        except InvariantError as violation:
            self._life.violation = violation


def _same(one: Image, other: Image) -> bool:
    """Equal except for the timestamp, which a control batch gets when it is written."""
    return replace(one, timestamp_ms=0) == replace(other, timestamp_ms=0)


def _brief(image: Image) -> str:
    return f"offset {image.offset}, epoch {image.epoch}, topics {sorted(image.topic_ids)}"


def _retention(topic: str, value: int) -> IncrementalAlterConfigsRequest:
    option = IncrementalAlterConfigsRequest.AlterableConfig(
        name="retention.ms", config_operation=OpType.SET, value=str(value)
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=ConfigResource.TOPIC, resource_name=topic, configs=[option]
    )
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


@scenario("metadata-life")
def metadata_life(world: World) -> None:
    """A metadata log and its quorum's state lose nothing that was committed, whatever happens to their
    node."""
    with patched(snapshotting, "CLEAN_INTERVAL_MS", CLEAN_INTERVAL_MS):
        live(world, MetadataLife(world, dynamic=world.random.integer(0, 1) == 1))


@scenario("metadata-power-loss")
def metadata_power_loss(world: World) -> None:
    """Power fails in the Nth operation on the disk, N being the seed; nothing that was committed is lost."""
    with patched(snapshotting, "CLEAN_INTERVAL_MS", CLEAN_INTERVAL_MS):
        life = MetadataLife(world, dynamic=world.seed % 2 == 1, power_loss_in=world.seed // 2 + 1)
        life.ask_on()
        world.run(QUIET_NS, until=lambda: not life.node.is_up)
        if life.node.is_up:
            raise InvariantError(f"there were no {world.seed // 2 + 1} operations on the disk")
        life.node.start()
        _end_well(world, life)


def live(world: World, life: MetadataLife) -> None:
    """Faults, and then none."""
    nemesis = Nemesis(world, strikes=STRIKES)
    life.ask_on()
    world.run(TROUBLED_NS)
    nemesis.stop()
    _end_well(world, life)


def _end_well(world: World, life: MetadataLife) -> None:
    enough = life.answers + 5

    def is_well() -> bool:
        # Responses may still be sent after the leader has resigned, and then a stop leaves uncommitted
        # records.
        return life.answers >= enough and life.leads

    # A start on a slow disk may last longer than the quiet: its delays were counted before the repair.
    world.run(life.node.stalled_ns + QUIET_NS, until=lambda: is_well() or not life.node.is_up)
    if not life.node.is_up:
        # A fault from before was reported late, by a slow worker.  It may stop the node once, not twice.
        life.node.start()
        world.run(QUIET_NS, until=is_well)
    if life.answers < enough:
        raise InvariantError("no request got a response after the faults ended")
    if not life.leads:
        raise InvariantError("the node does not lead after the faults ended")
    life.stop_cleanly()


# ----------------------------------------------------------------------------------------- the planted bugs


@planted("metadata: responds before the commit", scenario="metadata-life")
def answers_before_commit() -> Iterator[None]:
    """The response is sent when the records are in the page cache."""

    healthy = ControllerDriver.when_committed

    def at_once(
        self: ControllerDriver,
        reply: Callable[[], None],
        refuse: Callable[[BaseException], None],
        deadline_ns: int | None = None,
    ) -> None:
        if any(not broker.fenced for broker in self.controller.image.brokers.values()):
            reply()
        else:
            healthy(self, reply, refuse, deadline_ns)

    with patched(ControllerDriver, "when_committed", at_once):
        yield


@planted("metadata: a deposed controller keeps uncommitted records", scenario="metadata-life")
def keeps_uncommitted() -> Iterator[None]:
    """A controller that loses leadership keeps what was not committed."""
    with patched(Controller, "deactivate", lambda self, committed: None):
        yield


@planted("metadata: uncommitted records are published", scenario="metadata-life")
def reports_uncommitted() -> Iterator[None]:
    """Publishers get everything in the log as soon as something is committed."""
    healthy = RaftStore._commit

    def commit(self: RaftStore, high_watermark: int) -> None:
        healthy(self, self.quorum.end_offset)

    with patched(RaftStore, "_commit", commit):
        yield


@planted("metadata: batches are not synced", scenario="metadata-life")
def batches_not_synced() -> Iterator[None]:
    """Only the quorum's state is synced before it counts."""
    with patched(MetadataFolder, "_mark_unsynced", lambda self: None):
        yield


@planted("metadata: a new segment's name is not synced", scenario="metadata-life")
def segment_name_not_synced() -> Iterator[None]:
    """The file of a new segment is synced, its name in the folder is not."""
    healthy = MetadataFolder._mark_unsynced

    def mark_unsynced(self: MetadataFolder) -> None:
        healthy(self)
        if self.path in self._unsynced:
            self._unsynced.remove(self.path)

    with patched(MetadataFolder, "_mark_unsynced", mark_unsynced):
        yield


@planted("metadata: votes are not synced", scenario="metadata-life")
def votes_not_synced() -> Iterator[None]:
    """The quorum's state is replaced, but not synced."""
    healthy = WholeFiles.write_atomically

    def write(self: Disk, path: str, data: bytes, *, sync: bool = True) -> None:
        healthy(self, path, data, sync=sync and not path.endswith("quorum-state"))

    with patched(WholeFiles, "write_atomically", write):
        yield


@planted("metadata: the same epoch again", scenario="metadata-life")
def same_epoch_again() -> Iterator[None]:
    """A restarted node continues in the epoch in which it led before."""
    healthy = Quorum.become_candidate

    def stand(self: Quorum, now_ns: int) -> None:
        if self.role.epoch > 0:
            self.role.epoch -= 1
        healthy(self, now_ns)

    with patched(Quorum, "become_candidate", stand):
        yield


@planted("metadata: snapshots are not synced", scenario="metadata-life")
def snapshots_not_synced() -> Iterator[None]:
    """A snapshot gets its name while its content is in memory only."""

    def write(self: SnapshotFiles, snapshot: SnapshotId, batches: Iterable[bytearray]) -> None:
        path = self.path(snapshot)
        self._disk.remove(path)
        file = self._disk.open(path, create=True)
        file.append([b"".join(batches)])
        file.close()
        self._disk.sync_folder(self._folder)

    with patched(SnapshotFiles, "write", write):
        yield


@planted("metadata: a snapshot of uncommitted records", scenario="metadata-life")
def snapshot_of_uncommitted() -> Iterator[None]:
    """A snapshot is named after the committed image and contains the controller's newest one."""
    healthy = KraftMetadata.committed

    def committed(self: KraftMetadata, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        assert self._components is not None
        newest = self._components.driver.controller.image
        write = SnapshotGenerator.committed

        def write_newest(self: SnapshotGenerator, image: Image, *arguments: Any) -> None:
            write(self, replace(newest, offset=image.offset, epoch=image.epoch), *arguments)

        with patched(SnapshotGenerator, "committed", write_newest):
            healthy(self, batches, is_end=is_end)

    with patched(KraftMetadata, "committed", committed):
        yield


@planted("metadata: the log is deleted too early", scenario="metadata-life")
def log_goes_too_early() -> Iterator[None]:
    """Only the last segment of the log is kept, wherever the snapshot ends."""
    healthy = MetadataFolder.delete_before

    def delete_before(self: MetadataFolder, snapshot: SnapshotId) -> object:
        result = healthy(self, snapshot)
        self.log.remove_segments(list(self.log.segments)[:-1], "of a planted bug")
        return result

    with patched(MetadataFolder, "delete_before", delete_before):
        yield
