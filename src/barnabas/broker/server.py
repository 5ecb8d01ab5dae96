"""The broker: builds, starts and stops its components.

Contains the wiring, and the order of startup and shutdown.  There is no state outside of a `Broker`: several
of them may run in one process, on one reactor.  Signals and logging belong to the command line.

Startup: log directories locked and checked; ports bound; metadata started; registered; caught up; logs open;
unfenced; clients accepted.  Shutdown: leaderships moved; connections drained; logs closed and marked clean;
metadata stopped; log directories unlocked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import Loop
from barnabas.broker.coordinators.coordinators import Coordinators
from barnabas.broker.coordinators.shards import Shards
from barnabas.broker.coordinators.transactions import Transactions
from barnabas.broker.log_directories import LogDirectories, epoch_of_last_life
from barnabas.broker.metadata.auto_topic_creation import AutoTopics
from barnabas.broker.metadata.broker_lifecycle import Lifecycle, State
from barnabas.broker.metadata.image_waits import ImageWaits
from barnabas.broker.metadata.publishers import publishers_for
from barnabas.broker.metrics.node_gauges import add_node_gauges
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.broker.modes.metadata import BrokerLifecycle, ClusterMetadata
from barnabas.broker.network.connection_limits import ConnectionLimits
from barnabas.broker.network.dispatch import Dispatch
from barnabas.broker.network.listener import BrokerListener, drain_all
from barnabas.broker.network.ports import taking
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.broker.peers.broker_channel import BrokerChannel
from barnabas.broker.peers.peers import Peers
from barnabas.broker.quotas.client_quotas import ClientQuotas, Quotas
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replication.fetcher_manager import FetcherManager
from barnabas.broker.replication.follower_effects import FollowerEffects
from barnabas.broker.replication.replication_metrics import add_replication_metrics
from barnabas.broker.replication.truncations import Truncations
from barnabas.broker.security.authorizer import Authorizer
from barnabas.broker.security.node_security import NodeSecurity
from barnabas.broker.security.standard_authorizer import authorizer_for
from barnabas.config.layers import Layers
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.config.option import Mode
from barnabas.config.settings import Settings
from barnabas.metadata.image import ConfigResource, Image
from barnabas.metadata.timeline import Kind
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.network import Network
from barnabas.runtime.random import Random, random_uuid
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from barnabas.storage.failure import explain

if TYPE_CHECKING:
    from barnabas.broker.modes.zookeeper.zookeeper_metadata import ZooKeeperMetadata
    from barnabas.broker.modes.zookeeper.zookeeper_mode import PostingLoop
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

# How long connections may take to read their last responses when the broker stops.
DRAIN_MS = 5_000
# How long a controlled shutdown may take before the broker stops anyway (as in Apache Kafka).
CONTROLLED_SHUTDOWN_MS = 5 * 60 * 1_000


class Broker:
    """One node: broker, controller, or both."""

    def __init__(
        self,
        node: Node,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        loop: Loop,
        network: Network,
        workers: WorkerPool,
        host_name: Callable[[], str],
        zookeeper: ZooKeeperClient | None = None,
    ) -> None:
        """`zookeeper` replaces the client of a real ensemble, in ZooKeeper mode."""
        self.node = node
        self.clock = clock
        self.random = random
        self.layers = Layers(node.settings.given, node.mode)
        self.settings: Settings = node.settings
        self.authorizer: Authorizer = authorizer_for(node.settings)
        self.quotas: Quotas = ClientQuotas(node.settings, clock)
        self.metrics = Metrics()
        self.auto_topics = AutoTopics(self)
        self.image_waits = ImageWaits(clock, loop.timers)
        # Called once, with the reason, when the broker cannot continue; its owner must stop it.
        self.on_fatal: Callable[[BaseException], None] = _log_fatal
        self.security = NodeSecurity(node, lambda: self.image, random=random, clock=clock, workers=workers)
        self._disk = disk
        self._loop = loop
        self._network = network
        self._workers = workers
        self._host_name = host_name
        self._zookeeper = zookeeper
        self.metadata, self.lifecycle = self._mode()
        self.supported_features = self.metadata.supported_features()
        self.image: Image = self.metadata.image
        self._folders: LogDirectories | None = None
        self._replicas: ReplicaManager | None = None
        self._coordinators: Coordinators | None = None
        self._is_up = False
        # The fatal error of this node.
        self._failure: BaseException | None = None
        self.connection_limits = ConnectionLimits(node.settings, node.listeners)
        self._work = RequestWork(loop.timers, clock.monotonic_ns)
        self._cancel_start: Callable[[], None] = lambda: None
        self._listeners = self._make_listeners(network)
        add_node_gauges(
            self.metrics,
            image=lambda: self.image,
            connections=lambda: self.connection_limits.total,
            apply_errors=lambda: self.metadata.publish_errors,
            replicas=lambda: self._replicas,
            folders=lambda: self._folders,
        )

    def _mode(self) -> tuple[ClusterMetadata, BrokerLifecycle]:
        """The only place that chooses the mode."""
        node, timers = self.node, self._loop.timers
        if node.mode is Mode.ZOOKEEPER:
            # Imported here: KRaft mode needs neither this nor its library.
            from barnabas.broker.modes.zookeeper.zookeeper_mode import real_client, zookeeper_mode

            return zookeeper_mode(
                node,
                self._zookeeper or real_client(node, cast("PostingLoop", self._loop), self.clock),
                disk=self._disk,
                clock=self.clock,
                random=self.random,
                timers=timers,
                workers=self._workers,
                network=self._network,
                security=self.security.towards_brokers,
                on_failure=self._metadata_failed,
                replicas=lambda: self._replicas,
            )
        metadata = KraftMetadata(
            node,
            disk=self._disk,
            clock=self.clock,
            random=self.random,
            timers=timers,
            workers=self._workers,
            network=self._network,
            security=self.security.towards_controllers,
            on_failure=self._metadata_failed,
        )
        own_id = random_uuid(self.random)
        return metadata, Lifecycle(node.node_id, own_id, node.settings, metadata, self.clock, timers)

    @property
    def broker_epoch(self) -> int:
        return self.lifecycle.broker_epoch

    @property
    def cluster_id(self) -> str:
        assert self._folders is not None
        return self._folders.cluster_id

    @property
    def replicas(self) -> ReplicaManager:
        assert self._replicas is not None
        return self._replicas

    @property
    def groups(self) -> Shards[GroupMachine]:
        assert self._coordinators is not None
        return self._coordinators.groups

    @property
    def transactions(self) -> Transactions:
        assert self._coordinators is not None
        return self._coordinators.transactions

    @property
    def quorum(self) -> KraftMetadata:
        """For the handlers that only KRaft mode has."""
        return cast("KraftMetadata", self.metadata)

    @property
    def zookeeper(self) -> ZooKeeperMetadata:
        """For the handlers that only ZooKeeper mode has."""
        return cast("ZooKeeperMetadata", self.metadata)

    @property
    def controller_id(self) -> int:
        """The active controller as far as this node knows."""
        return self.metadata.leader_id

    @property
    def listeners(self) -> Mapping[str, BrokerListener]:
        return self._listeners

    def role_of(self, listener: str) -> Role:
        return self._listeners[listener].role

    def routes_of(self, listener: str) -> Mapping[int, Route]:
        return self._listeners[listener].dispatch.routes

    @property
    def is_running(self) -> bool:
        return self.lifecycle.state is State.RUNNING

    # Starting -----------------------------------------------------------------------------------------------

    def start(self) -> Promise[None]:
        """Come up; done when clients can be served.  What stands in the way is raised or failed with.

        Whoever starts a broker stops it, also after a failure.
        """
        opened = self.metadata.open_folders()
        for broker_listener in self._listeners.values():
            with taking(broker_listener.endpoint, "listeners"):
                broker_listener.bind()
        self.metadata.controller_endpoints = self._reachable(self.node.listeners.advertised_controllers)
        # In KRaft mode the folders are open now, and what they lack is raised at once.
        started = self._begin(opened.value) if opened.done and opened.error is None else None
        done, self._cancel_start = self._work.start(self._start_up(opened, started))
        return done

    def _begin(self, folders: LogDirectories) -> Promise[None]:
        self._folders = folders
        self.node = self.metadata.node
        for path, reason in folders.dirs.offline.items():
            logger.error("the log directory %s is offline: %s", path, reason)
        for publisher in publishers_for(self, self.node.node_id):
            self.metadata.install(publisher)
        return self.metadata.start()

    def _start_up(self, opened: Promise[LogDirectories], started: Promise[None] | None) -> Steps[None]:
        """The steps of the startup, each of which waits for a promise; an exception fails the startup."""
        folders = yield from awaited(opened)
        metadata_started = started or self._begin(folders)
        for broker_listener in self._listeners.values():
            if broker_listener.sasl is not None:
                yield broker_listener.sasl.prepared
        # Other voters vote and fetch before there is a leader.
        for broker_listener in self._listeners.values():
            if broker_listener.role is Role.CONTROLLER:
                broker_listener.open()
        yield metadata_started
        self.take_image(self.metadata.image)
        self.take_settings()
        if self.node.is_broker:
            self._replicas = replicas = self._make_replicas()
            self._coordinators = Coordinators(self, replicas, self._loop.timers, self.channel_to_brokers)
            self._coordinators.add_gauges(self.metrics)
            self._register()
            yield self.lifecycle.caught_up
            yield replicas.start()
            if self.metadata.serves_before_registration:
                self._open_inter_broker()
            yield self.lifecycle.ready_to_unfence()
            # The broker leads its partitions, which happens in slices, before it accepts clients.
            yield replicas.transitions.carry_out(())
        self._accept_clients()
        self._is_up = True

    def _make_replicas(self) -> ReplicaManager:
        assert self._folders is not None
        replicas = ReplicaManager(
            self,
            self._disk,
            self._folders.dirs,
            self._folders.directory_ids,
            timers=self._loop.timers,
            workers=self._workers,
            at_tick_end=self._loop.at_tick_end,
            policy=self.metadata.transition_policy(),
        )
        replicas.on_dir_failed.append(self._dir_failed)
        replicas.storage.manager.full.listeners.append(self._space_changed)
        truncations = Truncations(
            replicas.storage,
            timers=self._loop.timers,
            workers=self._workers,
            now_ns=self.clock.monotonic_ns,
        )
        effects = FollowerEffects(replicas, truncations)
        replicas.fetchers = fetchers = FetcherManager(
            self,
            effects,
            connect=self._peers_named,
            timers=self._loop.timers,
            at_tick_end=self._loop.at_tick_end,
        )
        add_replication_metrics(self.metrics, replicas, fetchers, effects)
        return replicas

    def channel_to_brokers(self, purpose: str) -> BrokerChannel:
        """Connections of their own to the other brokers, for a component."""
        peers = self._peers_named(f"{self.node.node_id}-{purpose}")
        return BrokerChannel(peers, lambda: self.image, self.node.listeners.inter_broker_name)

    def _peers_named(self, client_id: str) -> Peers:
        return Peers(
            client_id,
            network=self._network,
            clock=self.clock,
            timers=self._loop.timers,
            random=self.random,
            security=self.security.towards_brokers,
        )

    def _register(self) -> None:
        assert self._folders is not None
        self.lifecycle.start(
            self._folders.cluster_id,
            self._reachable(self.node.listeners.advertised_to_clients),
            self.supported_features,
            self._folders.live_ids,
            epoch_of_last_life(self._disk, self._folders.dirs),
        )

    def _open_inter_broker(self) -> None:
        self._listeners[self.node.listeners.inter_broker_name].open()

    def _accept_clients(self) -> None:
        is_open = self.metadata.serves_before_registration
        for broker_listener in self._listeners.values():
            was_opened = broker_listener.role is Role.INTER_BROKER and is_open
            if broker_listener.role is not Role.CONTROLLER and not was_opened:
                broker_listener.open()
        places = ", ".join(
            f"{broker_listener.name} on {broker_listener.address}"
            for broker_listener in self._listeners.values()
        )
        logger.info("node %d of cluster %s serves %s", self.node.node_id, self.cluster_id, places)

    def _make_listeners(self, network: Network) -> dict[str, BrokerListener]:
        configured = self.node.listeners
        listeners: dict[str, BrokerListener] = {}
        for endpoint in configured.listeners:
            role = Role.CLIENT
            if endpoint.listener_name in configured.controller_names:
                role = Role.CONTROLLER
            elif endpoint.listener_name == configured.inter_broker_name:
                role = Role.INTER_BROKER
            routes = routes_for(self.node.mode, role, self.settings, self.metrics)
            listeners[endpoint.listener_name] = BrokerListener(
                endpoint,
                role,
                Dispatch(self, routes, self.authorizer, self.quotas, self.clock, self._work),
                self.connection_limits,
                self.metrics,
                network=network,
                clock=self.clock,
                timers=self._loop.timers,
                max_request_bytes=self.settings["socket.request.max.bytes"],
                max_idle_ms=self.settings["connections.max.idle.ms"],
                sasl=self.security.sasl_of(endpoint.listener_name),
                tls=self.security.tls_of(endpoint.listener_name),
            )
        return listeners

    def _reachable(self, advertised: Iterable[Endpoint]) -> list[Endpoint]:
        """The advertised endpoints: port 0 is replaced by the actual port, no host by the host name."""
        return [
            replace(
                end,
                host=end.host or self._host_name(),
                port=end.port or self._listeners[end.listener_name].address.port,
            )
            for end in advertised
        ]

    # Running ------------------------------------------------------------------------------------------------

    @property
    def hosted_replicas(self) -> ReplicaManager | None:
        """For the publishers; None before it is started."""
        return self._replicas

    @property
    def hosted_coordinators(self) -> Coordinators | None:
        return self._coordinators

    def take_image(self, image: Image) -> None:
        """Sets the committed image, which handlers use from now on."""
        self.image = image
        self.security.tokens.take(image)

    def take_settings(self) -> None:
        """Applies the static settings with the dynamic ones of the cluster (KIP-226)."""
        wide = self.image.configs_of(ConfigResource.BROKER, "")
        own = self.image.configs_of(ConfigResource.BROKER, str(self.node.node_id))
        self.layers = self.layers.with_cluster(wide).with_broker(own)
        self.settings = self.layers.settings()
        self.security.tls.apply(self.settings)
        self.connection_limits.configure(self.settings)
        for broker_listener in self._listeners.values():
            broker_listener.make_room()

    def _dir_failed(self, path: str, directory_id: object) -> None:
        assert self._folders is not None
        self.lifecycle.dir_failed(self._folders.directory_ids.get(path))
        if path == self.metadata.log_dir:
            reason = self._folders.dirs.offline.get(path, f"{path} has failed")
            self._metadata_failed(OSError(f"the metadata log is lost with its directory: {reason}"))
        elif not self._folders.dirs.live:
            reasons = "; ".join(self._folders.dirs.offline.values())
            self._give_up(OSError(f"every log directory has failed: {reasons}"))

    def _space_changed(self, path: str, reason: str | None) -> None:
        kind, cause = Kind.LOG_DIR_FULL, reason or ""
        if reason is None:
            kind, cause = Kind.LOG_DIR_HAS_ROOM, "there is free space again, and writes are accepted"
        self.metadata.timeline.add(kind, f"broker {self.node.node_id}", path, cause)

    def _metadata_failed(self, error: BaseException) -> None:
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error = OSError(error.errno, error.strerror, self.node.metadata_log_dir)
        self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        """Called on a fatal error.  A stop then skips the controlled shutdown."""
        if self._failure is None:
            self._failure = error
            logger.critical("this node cannot continue: %s", _explained(error))
            self.lifecycle.stop()
            self.on_fatal(error)

    # Stopping -----------------------------------------------------------------------------------------------

    def stop(self) -> Promise[None]:
        """Stops in order; completes when files, ports and locks are released, also after a failed start."""
        done: Promise[None] = Promise()
        self._cancel_start()
        timers = self._loop.timers
        deadline_ns = self.clock.monotonic_ns() + CONTROLLED_SHUTDOWN_MS * NS_PER_MS
        timers.set(
            (self, "let go"), deadline_ns, partial(self.lifecycle.give_up_shutdown, CONTROLLED_SHUTDOWN_MS)
        )
        if self._failure is not None or not self.settings["controlled.shutdown.enable"]:
            self.lifecycle.stop()
        self.lifecycle.shut_down().then(lambda _: self._let_go(done), done.fail)
        return done

    def _let_go(self, done: Promise[None]) -> None:
        self._loop.timers.cancel((self, "let go"))
        if self._coordinators is not None:
            self._coordinators.stop()  # waiting members look for the new coordinator
        deadline_ns = self.clock.monotonic_ns() + DRAIN_MS * NS_PER_MS
        listeners = list(self._listeners.values())
        drain_all(listeners, deadline_ns, self._loop.timers, lambda: self._drained(done))

    def _drained(self, done: Promise[None]) -> None:
        closed = Promise.of(None) if self._replicas is None else self._replicas.stop()
        closed.then(lambda _: self._logs_closed(done), partial(self._logs_not_closed, done))

    def _logs_not_closed(self, done: Promise[None], error: BaseException) -> None:
        logger.error("the logs were not closed; they are recovered at the next start", exc_info=error)
        self._logs_closed(done)

    def _logs_closed(self, done: Promise[None]) -> None:
        self.metadata.stop().then(lambda _: self._stopped(done), done.fail)

    def _stopped(self, done: Promise[None]) -> None:
        timeline = self.metadata.timeline
        cause = "it was asked to stop" if self._failure is None else _explained(self._failure)
        timeline.add(Kind.NODE_STOPPED, f"node {self.node.node_id}", "", cause)
        timeline.close().then(lambda _: self._release(done), done.fail)

    def _release(self, done: Promise[None]) -> None:
        if self._folders is not None:
            self._folders.dirs.close()
        if self._is_up:
            logger.info("node %d has stopped", self.node.node_id)
        done.set(None)


def _explained(error: BaseException) -> str:
    """Returns the error with advice, if the disk is the cause."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{error.filename}: {explain(error)}"
    return str(error)


def _log_fatal(error: BaseException) -> None:
    logger.critical("the broker cannot continue: %s", error)
