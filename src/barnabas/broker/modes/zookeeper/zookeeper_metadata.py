"""ZooKeeper mode: the session, the image of this broker, and the way to the controller.

Contains how the parts of this package work together.  The image is fed by the controller's requests
(inbound.py) and by what this broker reads of /config and /kafka-acl; when the session is lost the broker goes
on serving with it, and registers again in a new session.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.principals import LOCALHOST, OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.broker.log_directories import LogDirectories
from barnabas.broker.modes.metadata import OnFailure
from barnabas.broker.modes.zookeeper.acl_store import AclStore
from barnabas.broker.modes.zookeeper.admin_requests import LOCAL_REQUESTS, AdminRequests
from barnabas.broker.modes.zookeeper.controller.zookeeper_controller import ZooKeeperController
from barnabas.broker.modes.zookeeper.entity_store import EntityStore
from barnabas.broker.modes.zookeeper.identity import Folders, identify
from barnabas.broker.modes.zookeeper.inbound import ControllerRequest, Inbound
from barnabas.broker.modes.zookeeper.registration import Registration
from barnabas.broker.modes.zookeeper.requested_transitions import RequestedTransitions
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.admin import encode_log_dir_event
from barnabas.broker.modes.zookeeper.zookeeper_lifecycle import ZooKeeperLifecycle
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.broker.peers.controller_channel import ControllerChannel
from barnabas.broker.peers.peer_connection import PeerSecurity
from barnabas.broker.peers.peers import Peers
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.timeline import Timeline
from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Endpoint as Configured
from barnabas.config.node.node import Node
from barnabas.config.node.security import AUTHORIZER
from barnabas.metadata.cluster import Endpoint
from barnabas.metadata.features import METADATA_VERSION, metadata_version_named
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataLoader
from barnabas.metadata.publisher import MetadataPublisher
from barnabas.metadata.timeline import Kind
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.records.metadata import FeatureLevelRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address, Network
from barnabas.runtime.random import Random
from barnabas.runtime.zookeeper.client import SessionState, ZooKeeperClient, ZooKeeperCode, ZooKeeperError

logger = logging.getLogger(__name__)

T = TypeVar("T")
NO_CONTROLLER = -1
# What this broker writes and understands: Apache Kafka 3.9, the last with ZooKeeper.
LEVEL = metadata_version_named("3.9-IV0").level
FIRST_RETRY_MS, MAX_RETRY_MS = 200, 5_000


class ZooKeeperMetadata:
    """The `ClusterMetadata` of ZooKeeper mode."""

    auto_created = ErrorCode.LEADER_NOT_AVAILABLE
    serves_before_registration = True
    # No directory is worth more than another.
    log_dir: str | None = None

    def __init__(
        self,
        node: Node,
        client: ZooKeeperClient,
        lifecycle: ZooKeeperLifecycle,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        timers: TimerService,
        workers: WorkerPool,
        network: Network,
        security: PeerSecurity,
        on_failure: OnFailure,
        replicas: Callable[[], ReplicaManager | None],
    ) -> None:
        self.node = node
        self.timeline = Timeline(node.node_id, disk, clock, workers)
        self.controller_endpoints: Sequence[Configured] = ()
        self._client = client
        self._lifecycle = lifecycle
        self._disk = disk
        self._clock = clock
        self._random = random
        self._timers = timers
        self._network = network
        self._security = security
        self._on_failure = on_failure
        self._work = RequestWork(timers, clock.monotonic_ns)
        self._loader = MetadataLoader()
        self._policy = RequestedTransitions()
        self.inbound = Inbound(
            self._loader,
            self._policy,
            replicas,
            self._read_topic_configs,
            lambda: lifecycle.broker_epoch,
            clock,
        )
        publish = self.inbound.publish
        self._entities = EntityStore(client, lambda: self.image, publish, self._work, clock)
        self._acls = AclStore(client, lambda: self.image, publish, self._work, clock)
        self._admin = AdminRequests(lambda: self.node, lambda: self.image, self._entities, self._acls, random)
        self._registration: Registration | None = None
        self._controller: ZooKeeperController | None = None
        self._channel: ControllerChannel | None = None
        # Locked and not handed over yet.
        self._folders: Folders | None = None
        self._is_stopping = False
        # Whether ZooKeeper had topics when this broker registered.
        self._has_topics = False
        self._retry_ms = FIRST_RETRY_MS
        client.on_state(self._session_changed)
        lifecycle.register = self._register
        lifecycle.send_request = self.send_request
        lifecycle.is_shown = self._is_shown
        lifecycle.announce_failed_dir = self._announce_failed_dir

    def _run(self, steps: Steps[T]) -> Promise[T]:
        return self._work.start(steps)[0]

    def _is_shown(self) -> bool:
        """A new controller announces the brokers first and the partitions after: what looks like a cluster
        without topics may be one whose topics are still to come."""
        image = self.image
        return self.node.node_id in image.brokers and (bool(image.topics) or not self._has_topics)

    # What the broker asks

    @property
    def image(self) -> Image:
        return self._loader.image

    @property
    def publish_errors(self) -> int:
        return self._loader.publish_errors

    @property
    def leader_id(self) -> int:
        return NO_CONTROLLER if self._controller is None else self._controller.controller_id

    @property
    def is_active(self) -> bool:
        return self._controller is not None and self._controller.active_epoch is not None

    def supported_features(self) -> Mapping[str, tuple[int, int]]:
        """None: features are levels of KRaft mode."""
        return {}

    def finalized_features(self) -> tuple[Mapping[str, int], int]:
        return {}, 0

    def controller_for_clients(self) -> int:
        return self.inbound.controller_id

    def transition_policy(self) -> RequestedTransitions:
        return self._policy

    def install(self, publisher: MetadataPublisher) -> None:
        self._loader.install(publisher)

    # Requests

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
        """Requests are not forwarded for clients, who find the controller themselves."""
        if is_forwarded or self._channel is None:
            return _refused()
        return self._channel.send_request(request, version, OWN_PRINCIPAL)

    def send_for_client(
        self, request: Message, version: int, principal: str, host: str, client_id: str
    ) -> Promise[Message]:
        if isinstance(request, LOCAL_REQUESTS):
            return self._run(self._admin.carry_out(request, version, principal))
        if not self.is_active:
            return _refused()
        if isinstance(request, AlterUserScramCredentialsRequest):
            return self._run(self._admin.carry_out(request, version, principal))
        assert self._controller is not None, "it is active"
        return self._controller.ask(request, version, principal, client_id)

    def controller_request(self, request: ControllerRequest) -> Promise[Message]:
        """LeaderAndIsr, UpdateMetadata or StopReplica of the controller."""
        return self.inbound.handle(request)

    def _deliver(self, request: Message) -> Promise[Message]:
        """From this node's own controller."""
        return self.inbound.handle(request)  # type: ignore[arg-type]  # it sends these three alone

    def _ask_local(
        self, request: Message, version: int, principal: str, client_id: str
    ) -> Promise[Message] | None:
        controller = self._controller
        if controller is None or controller.active_epoch is None:
            return None
        return controller.ask(request, version, principal, client_id)

    def _controller_address(self) -> Address | None:
        broker = self.image.brokers.get(self.leader_id)
        if broker is None or self.leader_id == self.node.node_id:
            return None
        end = broker.endpoint(self.node.listeners.inter_broker_name)
        return None if end is None else Address(end.host, end.port)

    def _controller_changed(self, controller_id: int) -> None:
        if self._channel is not None and controller_id != NO_CONTROLLER:
            self._channel.controller_changed()
        epoch = None if self._controller is None else self._controller.active_epoch
        if epoch is not None:
            # The others would tell the same again, and without the epoch.
            subject, cause = f"controller {controller_id}", "it created /controller in ZooKeeper"
            self.timeline.add(Kind.LEADER_ELECTED, subject, f"epoch {epoch}", cause, epoch=epoch)

    # Starting

    def open_folders(self) -> Promise[LogDirectories]:
        """Connects: the cluster's id, and perhaps the broker's, are in ZooKeeper."""
        self._folders = folders = Folders(self._disk, self.node)
        return self._run(self._identify(folders))

    def _identify(self, folders: Folders) -> Steps[LogDirectories]:
        try:
            yield from awaited(self._client.start())
            self.node, opened = yield from self._persistently(
                lambda: identify(self._client, folders, self.node, self._random, self._clock)
            )
        except ZooKeeperError as error:
            raise ConfigError(
                f"zookeeper.connect={self.node.settings['zookeeper.connect']}: {error}"
            ) from error
        self._folders = None
        self._lifecycle.broker_id = self.node.node_id
        return opened

    def start(self) -> Promise[None]:
        """Completes when the options of all entities are known."""
        self.timeline.open(self.node.log_dirs[0], 0)
        self.timeline.add(Kind.NODE_STARTED, f"node {self.node.node_id}", "broker")
        self.inbound.publish([FeatureLevelRecord(name=METADATA_VERSION, feature_level=LEVEL)])
        self._connect()
        return self._run(self._persistently(self._load))

    def _persistently(self, steps: Callable[[], Steps[T]]) -> Steps[T]:
        """Begins again if the connection is lost: calls wait for the next one."""
        while True:
            try:
                return (yield from steps())
            except ZooKeeperError as error:
                if error.code is not ZooKeeperCode.CONNECTION_LOSS or self._is_stopping:
                    raise
                logger.warning("the connection to ZooKeeper was lost at the start; it goes on with the next")

    def _load(self) -> Steps[None]:
        yield from self._entities.load()
        if self.node.settings[AUTHORIZER]:
            yield from self._acls.load()

    def _connect(self) -> None:
        node = self.node
        self._controller = ZooKeeperController(
            node,
            self._client,
            clock=self._clock,
            random=self._random,
            timers=self._timers,
            peers=self._peers("controller-to-brokers"),
            deliver=self._deliver,
            on_controller_change=self._controller_changed,
            on_failure=self._on_failure,
            on_stored=partial(self.timeline.committed, on_zookeeper=True),
        )
        self._channel = ControllerChannel(
            self._peers("controller"),
            self._controller_address,
            self._ask_local,
            lambda: self.is_active,
            clock=self._clock,
            timers=self._timers,
            request_timeout_ms=node.settings["request.timeout.ms"],
        )

    def _peers(self, purpose: str) -> Peers:
        return Peers(
            f"{self.node.node_id}-{purpose}",
            network=self._network,
            clock=self._clock,
            timers=self._timers,
            random=self._random,
            security=self._security,
        )

    def _register(self, endpoints: Sequence[Endpoint]) -> Promise[int]:
        rack = self.node.settings["broker.rack"]
        self._registration = Registration(
            self._client, self.node.node_id, endpoints, rack, self._clock, self._timers
        )
        return self._run(self._join(self._registration))

    def _join(self, registration: Registration) -> Steps[int]:
        """Registers, and then takes part in the election: a controller must be among the live brokers."""
        epoch = yield from self._persistently(registration.register)
        self._lifecycle.renewed(epoch)
        self._has_topics = yield from self._persistently(self._find_topics)
        assert self._controller is not None, "it is made at the start"
        self._controller.start().then(_ignore, self._controller_failed)
        return epoch

    def _find_topics(self) -> Steps[bool]:
        topics = (yield from awaited(self._client.children(paths.TOPICS))) or []
        deleted = (yield from awaited(self._client.children(paths.DELETE_TOPICS))) or []
        return not set(topics) <= set(deleted)

    def _controller_failed(self, error: BaseException) -> None:
        logger.warning("this broker does not know the controller yet: %s", error)

    # The session

    def _session_changed(self, state: SessionState) -> None:
        if self._is_stopping:
            return
        if state is SessionState.EXPIRED:
            logger.warning(
                "the ZooKeeper session of broker %d has expired; it goes on serving, and registers again",
                self.node.node_id,
            )
            if self._controller is not None:
                self._controller.session_lost()
            self._entities.stop()
            self._acls.stop()
            self._retry_ms = FIRST_RETRY_MS
            self._begin_session()
        elif state is SessionState.AUTH_FAILED:
            self._on_failure(ConfigError("ZooKeeper did not accept this broker's authentication"))

    def _begin_session(self) -> None:
        if not self._is_stopping:
            self._run(self._rejoin()).then(_ignore, self._rejoin_failed)

    def _rejoin(self) -> Steps[None]:
        yield from awaited(self._client.start())
        if self._registration is not None:
            yield from self._join(self._registration)
        yield from self._load()

    def _rejoin_failed(self, error: BaseException) -> None:
        if isinstance(error, ConfigError):
            self._on_failure(error)
            return
        logger.warning(
            "broker %d could not register in a new session: %s; it is tried again in %d ms",
            self.node.node_id,
            error,
            self._retry_ms,
        )
        deadline_ns = self._clock.monotonic_ns() + self._retry_ms * NS_PER_MS
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        self._timers.set((self, "session"), deadline_ns, self._try_again)

    def _try_again(self) -> None:
        if self._is_stopping:
            return
        if self._client.state is SessionState.CONNECTED:
            self._run(self._rejoin_connected()).then(_ignore, self._rejoin_failed)
        elif self._client.state is SessionState.CONNECTING:
            self._rejoin_failed(ConnectionError("there is no connection to ZooKeeper"))
        else:
            self._begin_session()

    def _rejoin_connected(self) -> Steps[None]:
        """The session is there, but what was to be done in it failed half-way."""
        if self._registration is not None:
            yield from self._join(self._registration)
        yield from self._load()

    def _read_topic_configs(self, names: Sequence[str]) -> Promise[list[Message]]:
        """Those that cannot be read now are read with everything else, once there is a connection."""
        read = self._run(self._entities.read_topics(names))
        read.then(_ignore, self._reload_later)
        return read

    def _reload_later(self, error: BaseException) -> None:
        if not self._is_stopping:
            logger.warning("broker %d reads all options again soon: %s", self.node.node_id, error)
            deadline_ns = self._clock.monotonic_ns() + FIRST_RETRY_MS * NS_PER_MS
            self._timers.set((self, "reload"), deadline_ns, self._reload)

    def _reload(self) -> None:
        # While there is no connection, calls wait for it; a new session reads everything anyway.
        if self._client.state in (SessionState.CONNECTED, SessionState.CONNECTING):
            self._run(self._load()).then(_ignore, self._reload_later)

    def _announce_failed_dir(self) -> None:
        path = f"{paths.LOG_DIR_EVENTS}/{paths.LOG_DIR_EVENT}"
        announced = self._client.create(path, encode_log_dir_event(self.node.node_id), sequential=True)
        announced.then(_ignore, _not_announced)

    # Stopping

    def stop(self) -> Promise[None]:
        """Resigns and ends the session, which removes the broker's znode."""
        self._is_stopping = True
        self.timeline.is_stopping = True
        self._timers.cancel((self, "session"))
        self._timers.cancel((self, "reload"))
        self._entities.stop()
        self._acls.stop()
        if self._channel is not None:
            self._channel.close()
        if self._folders is not None:
            self._folders.dirs.close()
            self._folders = None
        resigned = Promise.of(None) if self._controller is None else self._controller.stop()
        done: Promise[None] = Promise()

        def close(_: object) -> None:
            self._client.close().then(lambda _: done.set(None), lambda _: done.set(None))

        resigned.then(close, close)
        return done


def _refused() -> Promise[Message]:
    response: Promise[Message] = Promise()
    response.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    return response


def _ignore(_: object) -> None:
    """Nothing is left to do."""


def _not_announced(error: BaseException) -> None:
    logger.error(
        "the controller could not be told of a failed log directory (%s): it elects other leaders when this "
        "broker stops",
        error,
    )
