"""KRaft mode: builds, starts and stops the metadata log, its quorum, the controller and the loader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.describe_quorum import describe_quorum
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder, log_options
from barnabas.broker.modes.kraft.metadata_folder_loader import LoadedFolder, load_folder, read_bootstrap
from barnabas.broker.modes.kraft.periodic_tasks import PeriodicTasks
from barnabas.broker.modes.kraft.quorum_setup import (
    check_voters,
    own_voter,
    registration_request,
    static_voters,
)
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.broker.modes.kraft.snapshot_generator import SnapshotGenerator
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.controller.activation import CannotActivateError, activation_records
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.features import supported_features
from barnabas.metadata.image import Image
from barnabas.metadata.levels import CONTROLLER_REGISTRATION_LEVEL
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.schema import Message
from barnabas.raft.node import RaftNode
from barnabas.raft.quorum_state import NOBODY
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.random import Random, random_uuid
from barnabas.storage.directories.meta_properties import read_meta_properties
from barnabas.storage.refused import FolderRefused

logger = logging.getLogger(__name__)

REGISTRATION_VERSION = 0


@dataclass(frozen=True, slots=True)
class _Components:
    """The components of a started node."""

    folder: MetadataFolder
    store: RaftStore
    driver: ControllerDriver
    periodic_tasks: PeriodicTasks
    snapshot_generator: SnapshotGenerator


class KraftMetadata:
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
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.cluster_id = ""
        self.kraft_version = 0
        # The controller's endpoints; updated with the actual ports before the start.
        self.controller_endpoints: Sequence[Endpoint] = node.listeners.advertised_controllers
        self._node = node
        self._disk = disk
        self._clock = clock
        self._random = random
        self._timers = timers
        self._workers = workers
        self._on_failure = on_failure
        self._loader = MetadataLoader()
        self._started: Promise[None] = Promise()
        self._folder: MetadataFolder | None = None
        self._components: _Components | None = None
        self._bootstrap: list[Message] = []
        # The end offset of the log when this process started.
        self._process_start_offset = 0
        self._unpublished_bytes = 0

    # Calls of the broker

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
        """The leader of the quorum as far as this node knows; -1 if there is none."""
        is_active = self._components is not None and self._components.driver.active_epoch is not None
        return self._node.node_id if is_active else NOBODY

    def install(self, publisher: MetadataPublisher) -> None:
        """Adds a publisher, which is called with committed metadata after the earlier ones."""
        self._loader.install(publisher)

    def ask(self, request: Message, version: int, principal: str) -> Promise[Message]:
        """The controller channel: completed when all records that the response depends on are committed."""
        if self._components is None:
            response: Promise[Message] = Promise()
            response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "No controller appears to be active."))
            return response
        return self._components.driver.ask(request, version, principal)

    def describe_quorum(self, request: DescribeQuorumRequest, version: int) -> DescribeQuorumResponse:
        if self._components is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return describe_quorum(self._components.store.quorum, request, version, self._clock.wall_ms())

    # Starting

    def start(self) -> Promise[None]:
        """Opens and loads the directory; completes when this node leads and its image is committed.

        Raises StorageRefused or ConfigError, with advice, if that is not possible.
        """
        settings, log_dir = self._node.settings, self._node.metadata_log_dir
        directory_id = self._read_properties(log_dir)
        self._folder = MetadataFolder(self._disk, self._clock, self._random, log_dir, log_options(settings))
        loaded = load_folder(self._folder, static_voters(self._node))
        check_voters(loaded.quorum.voters, self._node, directory_id)
        self.kraft_version = loaded.quorum.kraft_version
        self._process_start_offset = loaded.quorum.log_end_offset
        self._bootstrap = read_bootstrap(self._disk, log_dir)
        components = self._build(self._folder, loaded, directory_id)
        if not loaded.has_records:
            self._check_activation(components.driver.controller)
        self._components = components
        components.store.stand()
        return self._started

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

    def _build(self, folder: MetadataFolder, loaded: LoadedFolder, directory_id: Uuid) -> _Components:
        node, settings = self._node, self._node.settings
        options = ControllerOptions(
            node_id=node.node_id,
            cluster_id=self.cluster_id,
            static=settings,
            kraft_version=self.kraft_version,
            controller_ids=frozenset({node.node_id, *node.voters}),
        )
        me = own_voter(
            loaded.quorum.voters,
            self.kraft_version,
            node.node_id,
            directory_id,
            self.controller_endpoints,
        )
        store = RaftStore(
            RaftNode(me, loaded.quorum),
            folder,
            clock=self._clock,
            timers=self._timers,
            workers=self._workers,
        )
        driver = ControllerDriver(
            Controller(options, self._random),
            store,
            clock=self._clock,
            timers=self._timers,
            request_timeout_ms=settings["request.timeout.ms"],
            on_active=self._lead,
            on_inactive=self._stop_leading,
            on_fault=store.fail,
        )
        # Publishers apply committed metadata before the request that caused it is answered.
        store.listeners += [self, driver]
        snapshot_generator = SnapshotGenerator(
            folder, settings, self._clock, self._timers, self._workers, self._fail
        )
        periodic_tasks = PeriodicTasks(driver, settings, self._clock, self._timers)
        return _Components(folder, store, driver, periodic_tasks, snapshot_generator)

    # Notifications of the store

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """Loads committed batches chunk by chunk; publishes them at the end as one delta."""
        assert self._components is not None
        components = self._components
        self._loader.load(batches)
        self._unpublished_bytes += sum(batch.size for batch in batches)
        if not is_end or not self._loader.publish():
            return
        size, self._unpublished_bytes = self._unpublished_bytes, 0
        components.folder.committed(self.image.offset + 1)
        components.snapshot_generator.committed(
            self.image, size, components.store.quorum.voters, self.kraft_version
        )

    def won(self, epoch: int) -> None:
        """The controller driver is notified itself."""

    def lost(self, epoch: int) -> None:
        """Like `won`."""

    def failed(self, error: BaseException) -> None:
        self._fail(error)

    # Leading

    def _lead(self) -> None:
        """Called when the controller is active: appends its first records, registers it, starts its tasks."""
        assert self._components is not None
        components = self._components
        driver = components.driver
        activate = partial(
            driver.controller.activate,
            self._bootstrap,
            self._clock.monotonic_ns(),
            in_transaction=driver.in_transaction,
            process_start_offset=self._process_start_offset,
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
        if driver.controller.image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
            self._register()
        components.periodic_tasks.start()
        components.snapshot_generator.start()

    def _report_started(self) -> None:
        if not self._started.done:
            self._started.set(None)

    def _stop_leading(self) -> None:
        assert self._components is not None
        self._components.periodic_tasks.stop()

    def _register(self) -> None:
        unstable = bool(self._node.settings["unstable.feature.versions.enable"])
        request = registration_request(
            self._node.node_id,
            random_uuid(self._random),
            self.controller_endpoints,
            supported_features(unstable=unstable),
        )
        self.ask(request, REGISTRATION_VERSION, OWN_PRINCIPAL).then(lambda _: None, self._registration_failed)

    def _registration_failed(self, error: BaseException) -> None:
        logger.warning("the controller could not register: %s", error)

    def _fail(self, error: BaseException) -> None:
        if self._components is not None:
            self._components.periodic_tasks.stop()
        if not self._started.done:
            self._started.fail(error)
        self._on_failure(error)

    # Stopping

    def stop(self) -> Promise[None]:
        """Refuses requests, waits for pending writes, and closes the log cleanly."""
        done: Promise[None] = Promise()
        components, folder = self._components, self._folder
        self._folder = None
        if folder is None:
            done.set(None)
        elif components is None or components.driver.active_epoch is None:
            _abandon(folder, components)
            done.set(None)
        else:
            components.periodic_tasks.stop()
            components.driver.refuse_requests()
            close = partial(self._close, components, done)
            components.driver.when_committed(close, lambda _: self._abandon_and_finish(components, done))
        return done

    def _close(self, components: _Components, done: Promise[None]) -> None:
        components.driver.close()
        components.store.close()
        components.snapshot_generator.close()

        def closed(_: object, error: BaseException | None) -> None:
            if error is None:
                done.set(None)
            else:
                done.fail(error)

        self._workers.submit(components.folder.close, closed)

    def _abandon_and_finish(self, components: _Components, done: Promise[None]) -> None:
        _abandon(components.folder, components)
        done.set(None)


def _abandon(folder: MetadataFolder, components: _Components | None) -> None:
    """Closes the files without syncing, after a failure or an incomplete start."""
    if components is not None:
        components.periodic_tasks.stop()
        components.driver.close()
        components.store.close()
        components.snapshot_generator.close()
    folder.abandon()
