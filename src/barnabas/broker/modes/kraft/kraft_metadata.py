"""KRaft mode: builds, starts and stops the metadata log, its quorum, the controller and the loader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.principals import LOCALHOST
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.broker_view import BrokerView
from barnabas.broker.modes.kraft.components import Components, abandon
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.controller_registration import ControllerRegistration
from barnabas.broker.modes.kraft.describe_quorum import describe_quorum
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder, log_options
from barnabas.broker.modes.kraft.metadata_folder_loader import LoadedFolder, load_folder, read_bootstrap
from barnabas.broker.modes.kraft.periodic_tasks import PeriodicTasks
from barnabas.broker.modes.kraft.quorum.channel import QuorumChannel
from barnabas.broker.modes.kraft.quorum.live_quorum import LiveQuorum
from barnabas.broker.modes.kraft.quorum.voter_changes import VoterChangeRequest, change_voters
from barnabas.broker.modes.kraft.quorum_setup import (
    bootstrap_addresses,
    check_voters,
    own_voter,
    quorum_options,
    registration_request,
    static_voters,
)
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.broker.modes.kraft.snapshot_generator import SnapshotGenerator
from barnabas.broker.peers.controller_channel import ControllerChannel
from barnabas.broker.peers.peer_connection import NO_SECURITY, PeerSecurity
from barnabas.broker.peers.peers import Peers
from barnabas.broker.timeline import Timeline
from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.controller.activation import CannotActivateError, activation_records
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.features import supported_features
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.metadata.timeline import Kind
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from barnabas.protocol.schema import Message
from barnabas.raft.log import RaftLog
from barnabas.raft.node import RaftNode
from barnabas.raft.quorum_state_file import NOBODY
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address, Network
from barnabas.runtime.random import Random, random_uuid
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.storage.refused import FolderRefused

logger = logging.getLogger(__name__)

# How long a leader that stops tells the other voters to elect another one.
RESIGNATION_MS = 500


class KraftMetadata(BrokerView):
    """The cluster's metadata as this node knows it, and the channel to the controller."""

    def __init__(
        self,
        node: Node,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        timers: TimerService,
        workers: WorkerPool,
        network: Network,
        security: PeerSecurity = NO_SECURITY,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.cluster_id = ""
        self.timeline = Timeline(node.node_id, disk, clock, workers)
        # The controller's endpoints; updated with the actual ports before the start.
        self.controller_endpoints: Sequence[Endpoint] = node.listeners.advertised_controllers
        self._node = node
        self._disk = disk
        self._clock = clock
        self._random = random
        self._timers = timers
        self._workers = workers
        self._network = network
        self._security = security
        self._on_failure = on_failure
        self._channel: ControllerChannel | None = None
        self._loader = MetadataLoader()
        self._started: Promise[None] = Promise()
        self._folder: MetadataFolder | None = None
        self._components: Components | None = None
        self._bootstrap: list[Message] = []
        # The end offset of the log when this process started.
        self._process_start_offset = 0
        self._unpublished_bytes = 0
        self._registration = ControllerRegistration(
            random_uuid(random), self._registration_request, self.send_request, clock, timers
        )

    @property
    def incarnation_id(self) -> Uuid:
        """The id of this process's controller."""
        return self._registration.incarnation_id

    @property
    def image(self) -> Image:
        """The committed metadata."""
        return self._loader.image

    @property
    def publish_errors(self) -> int:
        """The number of errors that publishers have raised."""
        return self._loader.publish_errors

    @property
    def leader_id(self) -> int:
        """The active controller as far as this node knows; -1 if there is none."""
        if self._components is None:
            return NOBODY
        leader_id = self._components.store.quorum.leader_id
        return NOBODY if leader_id == self._node.node_id and not self.is_active else leader_id

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version: 0 with static voters, 1 if the voters are in the log (KIP-853)."""
        return 0 if self._components is None else self._components.store.quorum.kraft_version

    @property
    def is_active(self) -> bool:
        """Whether this node's controller is the active one."""
        return self._components is not None and self._components.driver.active_epoch is not None

    def install(self, publisher: MetadataPublisher) -> None:
        """Adds a publisher, which is called with committed metadata after the earlier ones."""
        self._loader.install(publisher)

    def send_request(
        self,
        request: Message,
        version: int,
        principal: str,
        *,
        host: str = LOCALHOST,
        client_id: str = "",
        is_forwarded: bool = False,
    ) -> Promise[Message]:
        """The controller channel: completed when all records that the response depends on are committed.

        With `is_forwarded` another node's controller authorizes the request and decides, or none.
        """
        if self._components is None:
            response: Promise[Message] = Promise()
            response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "No controller appears to be active."))
            return response
        if is_forwarded or not self.is_active:
            assert self._channel is not None, "it is connected before it is used"
            return self._channel.send_request(
                request, version, principal, host=host, client_id=client_id, is_forwarded=is_forwarded
            )
        if isinstance(request, DescribeQuorumRequest | AddRaftVoterRequest | RemoveRaftVoterRequest):
            return self.ask_quorum(request, version)
        return self._components.driver.ask(request, version, principal, client_id)

    def _ask_local(
        self, request: Message, version: int, principal: str, client_id: str
    ) -> Promise[Message] | None:
        """For a request in the channel: this node's own controller may have become active meanwhile."""
        return self.send_request(request, version, principal, client_id=client_id) if self.is_active else None

    @property
    def log_start_offset(self) -> int:
        """The first offset of the metadata log that this node has."""
        return 0 if self._folder is None else self._folder.log.log_start_offset

    def quorum_request(self, request: object) -> Promise[object]:
        """A request of another node of the quorum, or one that changes its voters."""
        if self._components is None:
            response: Promise[object] = Promise()
            response.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has not started yet"))
            return response
        return self._components.store.request(request)

    def ask_quorum(
        self, request: DescribeQuorumRequest | VoterChangeRequest, version: int
    ) -> Promise[Message]:
        """Describe or change the quorum; NOT_LEADER_OR_FOLLOWER if this node does not lead it."""
        if self._components is None:
            response: Promise[Message] = Promise()
            response.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "this node has not started yet"))
            return response
        store = self._components.store
        if isinstance(request, DescribeQuorumRequest):
            return Promise.of(describe_quorum(store.quorum, request, version, self._clock))
        listener = self._node.listeners.controller_names[0]
        return change_voters(store, request, self.cluster_id, listener)

    def start(self) -> Promise[None]:
        """Opens and loads the directory; completes when this node leads and its image is committed.

        Raises StorageRefused or ConfigError, with advice, if that is not possible.
        """
        settings, log_dir = self._node.settings, self._node.metadata_log_dir
        directory_id = self._read_properties(log_dir)
        self._folder = MetadataFolder(self._disk, self._clock, self._random, log_dir, log_options(settings))
        loaded = load_folder(self._folder, static_voters(self._node))
        history, log = loaded.quorum.history, loaded.quorum.log
        check_voters(history, self._node, directory_id)
        self._process_start_offset = log.end_offset
        self._bootstrap = read_bootstrap(self._disk, log_dir)
        components = self._build(self._folder, loaded, directory_id)
        if not loaded.has_records and history.voters.is_only(self._node.node_id, directory_id):
            self._check_activation(components.driver.controller)
        self._components = components
        self._open_timeline(components, log_dir, log)
        self._connect(components.store)
        components.store.stand()
        return self._started

    def _open_timeline(self, components: Components, log_dir: str, log: RaftLog) -> None:
        self.timeline.open(log_dir, log.end_offset)
        if log.snapshot is not None:
            self.timeline.skip_to(log.snapshot.offset)
        self.timeline.add(Kind.NODE_STARTED, f"node {self._node.node_id}", ",".join(sorted(self._node.roles)))
        quorum = components.store.quorum
        components.store.on_leader_report = lambda epoch, leader_id: self.timeline.leader_changed(
            epoch, leader_id, quorum.role
        )

    def _connect(self, store: RaftStore) -> None:
        """Connections to the other nodes: for the quorum, and for requests to the active controller."""
        store.channel = QuorumChannel(
            self._peers("quorum"),
            bootstrap_addresses(self._node),
            cluster_id=self.cluster_id,
            listener=self._node.listeners.controller_names[0],
            on_response=store.received,
            on_refused=self._refused,
        )
        channel = ControllerChannel(
            self._peers("controller"),
            partial(self._controller_address, store),
            self._ask_local,
            lambda: self.is_active,
            clock=self._clock,
            timers=self._timers,
            request_timeout_ms=self._node.settings["request.timeout.ms"],
        )
        self._channel = channel
        store.on_leader_change = channel.controller_changed

    def _peers(self, purpose: str) -> Peers:
        return Peers(
            f"{self._node.node_id}-{purpose}",
            network=self._network,
            clock=self._clock,
            timers=self._timers,
            random=self._random,
            security=self._security,
        )

    def _controller_address(self, store: RaftStore) -> Address | None:
        assert store.channel is not None, "it is set before the channel is used"
        leader_id = store.quorum.leader_id
        if leader_id in (NOBODY, self._node.node_id):
            return None
        return store.channel.address_of_leader(store.quorum)

    def _check_activation(self, controller: Controller) -> None:
        """Raises if the controller could not activate from this state."""
        try:
            activation_records(controller.state, self._bootstrap, in_transaction=False)
        except CannotActivateError as error:
            raise FolderRefused(self._node.metadata_log_dir, str(error)) from error

    def _read_properties(self, log_dir: str) -> Uuid:
        properties = read_meta_properties(self._disk, log_dir)
        if properties is None or properties.cluster_id is None:
            raise FolderRefused(
                log_dir, "it is not formatted; run `barnabas storage format` with this configuration"
            )
        self.cluster_id = properties.cluster_id
        return ZERO_UUID if properties.directory_id is None else properties.directory_id

    def _build(self, folder: MetadataFolder, loaded: LoadedFolder, directory_id: Uuid) -> Components:
        node, settings = self._node, self._node.settings
        me = own_voter(
            loaded.quorum.history.voters,
            node.node_id,
            directory_id,
            self.controller_endpoints,
        )
        store = RaftStore(
            RaftNode(me, loaded.quorum, quorum_options(node), self._random),
            folder,
            clock=self._clock,
            timers=self._timers,
            workers=self._workers,
        )
        options = ControllerOptions(
            node_id=node.node_id,
            cluster_id=self.cluster_id,
            static=settings,
            quorum=LiveQuorum(store.quorum, self._clock),
            controller_ids=frozenset({node.node_id, *node.voters}),
        )
        driver = ControllerDriver(
            Controller(options, self._random),
            store,
            clock=self._clock,
            timers=self._timers,
            request_timeout_ms=settings["request.timeout.ms"],
            on_fault=store.fail,
        )
        # Publishers apply committed metadata before the request that caused it is answered.
        store.listeners += [self, driver]
        snapshot_generator = SnapshotGenerator(
            folder, settings, self._clock, self._timers, self._workers, store.snapshot_taken, self._fail
        )
        periodic_tasks = PeriodicTasks(driver, settings, self._clock, self._timers)
        return Components(folder, store, driver, periodic_tasks, snapshot_generator)

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """Loads committed batches chunk by chunk; publishes them at the end as one delta."""
        assert self._components is not None
        components = self._components
        self._load(batches)
        self._unpublished_bytes += sum(batch.size for batch in batches)
        if not is_end or not self._loader.publish():
            return
        if self.leader_id not in (NOBODY, self._node.node_id):
            self._following()
        if self.leader_id != NOBODY:
            self._register(self.image)
        size, self._unpublished_bytes = self._unpublished_bytes, 0
        components.folder.committed(self.image.offset + 1)
        # A snapshot has the voters of its last record: later ones may still be undone.
        history, offset = components.store.quorum.quorum.history, self.image.offset
        components.snapshot_generator.committed(
            self.image, size, history.voters_at(offset), history.kraft_version_at(offset)
        )

    def _load(self, batches: Sequence[MetadataBatch]) -> None:
        if not batches or batches[-1].last_offset <= self.timeline.recorded_offset:
            self._loader.load(batches)
            return
        has_expired = self._has_expired if self.is_active else None
        for batch in batches:
            if batch.last_offset > self.timeline.recorded_offset:
                self.timeline.committed(self._loader.loaded_image, batch, has_expired)
            self._loader.load((batch,))

    def _has_expired(self, broker_id: int) -> bool | None:
        """Whether a broker's session has expired; called on the active controller."""
        assert self._components is not None
        heartbeats = self._components.driver.controller.state.heartbeats
        silence_ns = heartbeats.silence_ns(broker_id, self._clock.monotonic_ns())
        return None if silence_ns is None else silence_ns > heartbeats.session_timeout_ns

    def expire_session(self, broker_id: int) -> None:
        """Called on the active controller: the broker's process has ended, and is fenced soon."""
        assert self._components is not None
        self._components.periodic_tasks.expire(broker_id)

    def _following(self) -> None:
        """Called with committed metadata of a leader elsewhere: this node is a standby, or a broker."""
        assert self._components is not None
        if not self._started.done:
            self._components.snapshot_generator.start()
            self._report_started()

    def loading_snapshot(self) -> None:
        latest = None if self._folder is None else self._folder.snapshots.latest
        if latest is not None:
            # A snapshot has no changes, only what came of them.
            self.timeline.skip_to(latest.offset)
        self._loader.begin_snapshot()

    def won(self, epoch: int) -> None:
        """Called when the controller is active: appends its first records, registers it, starts its tasks."""
        assert self._components is not None
        components = self._components
        driver = components.driver
        activate = partial(
            driver.controller.activate,
            self._bootstrap,
            self._clock.monotonic_ns(),
            in_transaction=driver.in_transaction,
            # A log that others may truncate says nothing about the age of a registration.
            process_start_offset=self._process_start_offset if components.store.quorum.is_alone else 0,
        )
        try:
            driver.append(activate, atomic=True)
        except CannotActivateError as error:
            components.store.fail(FolderRefused(self._node.metadata_log_dir, str(error)))
            return
        except KafkaError as error:
            logger.warning("the controller could not activate: %s", error)
            return
        driver.when_committed(self._report_started, lambda _: None)
        self._register(driver.controller.image)
        components.periodic_tasks.start()
        components.snapshot_generator.start()

    def lost(self, epoch: int) -> None:
        assert self._components is not None
        self._components.periodic_tasks.stop()

    def failed(self, error: BaseException) -> None:
        self._fail(error)

    def _report_started(self) -> None:
        if not self._started.done:
            self._started.set(None)

    def _register(self, image: Image) -> None:
        if self._node.is_controller:
            self._registration.update(image)

    def _registration_request(self) -> ControllerRegistrationRequest:
        unstable = bool(self._node.settings["unstable.feature.versions.enable"])
        return registration_request(
            self._node.node_id,
            self.incarnation_id,
            self.controller_endpoints,
            supported_features(unstable=unstable),
        )

    def _refused(self, reason: str) -> None:
        """Called when this node is configured against its quorum; once it has started it goes on trying."""
        if not self._started.done and self._components is not None:
            self._components.store.fail(ConfigError(reason))

    def _fail(self, error: BaseException) -> None:
        if self._components is not None:
            self._components.periodic_tasks.stop()
        if self._channel is not None:
            # Requests that waited for another controller fail now, not at their deadlines.
            self._channel.close()
        if not self._started.done:
            self._started.fail(error)
        self._on_failure(error)

    def stop(self) -> Promise[None]:
        """Refuses requests, waits for pending writes, and closes the log cleanly."""
        done: Promise[None] = Promise()
        components, folder = self._components, self._folder
        self._folder = None
        self._registration.close()
        if self._channel is not None:
            self._channel.close()
        if folder is None:
            done.set(None)
        elif components is None or components.store.failure is not None or not self._started.done:
            abandon(folder, components, done)
        elif self.is_active and components.store.quorum.is_alone:
            components.periodic_tasks.stop()
            components.driver.refuse_requests()
            close = partial(components.close, self._workers, done)
            components.driver.when_committed(close, lambda _: abandon(folder, components, done))
        else:
            self._leave(components, done)
        return done

    def _leave(self, components: Components, done: Promise[None]) -> None:
        """A leader resigns first, so that another is elected at once; the others only close."""
        is_leader = components.store.quorum.is_leader
        self.timeline.is_stopping = True
        components.periodic_tasks.stop()
        components.driver.refuse_requests()
        components.store.shut_down()
        delay_ns = RESIGNATION_MS * NS_PER_MS if is_leader else 0
        deadline_ns = self._clock.monotonic_ns() + delay_ns
        self._timers.set((self, "leave"), deadline_ns, partial(components.close, self._workers, done))
