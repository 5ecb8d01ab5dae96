"""The controller of one node in ZooKeeper mode: election, store, watches, and what it tells the brokers.

Every node takes part in elections; the decisions are those of the same controller as in KRaft mode.  Whatever
it is not sure of (a lost connection, a znode that somebody else has changed) ends its leadership for the
moment: it then reads again who is the controller, and everything else if it is this node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.zookeeper.controller.deletions import Deletions
from barnabas.broker.modes.zookeeper.controller.election import NO_CONTROLLER, Election
from barnabas.broker.modes.zookeeper.controller.follow_ups import FollowUps
from barnabas.broker.modes.zookeeper.controller.gathering import gather
from barnabas.broker.modes.zookeeper.controller.loading import Loaded, Loading
from barnabas.broker.modes.zookeeper.controller.outbound.queues import Connections, Outbound
from barnabas.broker.modes.zookeeper.controller.outbound.requests import Sender
from barnabas.broker.modes.zookeeper.controller.store import ZooKeeperStore
from barnabas.broker.modes.zookeeper.controller.transactions import Epoch
from barnabas.broker.modes.zookeeper.controller.watched_changes import WatchedChanges
from barnabas.broker.modes.zookeeper.controller.watching import Watching
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import Features
from barnabas.broker.peers.peers import Peers
from barnabas.config.node.node import Node
from barnabas.controller.decision import Context
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.controller.store import StorePolicy
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoader
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records.metadata import RemoveTopicRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.random import Random, random_uuid
from barnabas.runtime.zookeeper.client import Created, Delete, ZooKeeperClient, ZooKeeperCode, ZooKeeperError

logger = logging.getLogger(__name__)

# How soon this node reads again who is the controller after something unexpected.
UNSURE_MS = 100

ZOOKEEPER_POLICY = StorePolicy(
    reassigns_in_one_step=False,
    leaders_shrink_within_epoch=True,
    alters_mechanisms_together=True,
    too_few_brokers="Replication factor: {wanted} larger than available brokers: {present}.",
    colliding_topic="Topic '{name}' collides with existing topics: {other}",
    fewer_partitions=(
        "Topic currently has {present} partitions, which is higher than the requested {wanted}."
    ),
    as_many_partitions="Topic already has {present} partitions.",
    no_topic="The partition does not exist.",
    no_partition="The partition does not exist.",
    placement_refused="",
    counts_validated_mutations=False,
)


def _nobody_is_told(before: Image, batch: MetadataBatch) -> None:
    """Of a controller without a timeline."""


class ZooKeeperController:
    """The controller object of a node; active between `won` and `lost`."""

    def __init__(
        self,
        node: Node,
        client: ZooKeeperClient,
        *,
        clock: Clock,
        random: Random,
        timers: TimerService,
        peers: Peers,
        deliver: Callable[[Message], Promise[Message]],
        on_controller_change: Callable[[int], None],
        on_failure: Callable[[BaseException], None],
        on_stored: Callable[[Image, MetadataBatch], None] = _nobody_is_told,
    ) -> None:
        """`on_stored` gets the image before each batch that this node's controller has stored."""
        self.cluster_id = ""
        # The active controller as far as this node knows.
        self.controller_id = NO_CONTROLLER
        self._node = node
        self._client = client
        self._clock = clock
        self._random = random
        self._timers = timers
        self._on_controller_change = on_controller_change
        self._on_failure = on_failure
        self._on_stored = on_stored
        self._is_loading = False
        self._known: Promise[None] = Promise()
        self._is_running = False
        self._loaded: Loaded | None = None
        self._watching: Watching | None = None
        # The epoch whose state this node loads, or has loaded.
        self._elected_epoch: Epoch | None = None
        self.election = Election(
            client, node.node_id, clock=clock, timers=timers, won=self._elected, known=self._controller_known
        )
        self.store = ZooKeeperStore(client, clock=clock, timers=timers, on_unsure=self.unsure)
        settings = node.settings
        connections = Connections(node.node_id, deliver, peers, int(settings["controller.socket.timeout.ms"]))
        self._outbound = Outbound(connections, clock=clock, timers=timers, answered=self._answered)
        self._loader = MetadataLoader()
        self._loader.install(self)
        options = ControllerOptions(
            node_id=node.node_id, cluster_id=self.cluster_id, static=settings, policy=ZOOKEEPER_POLICY
        )
        self.driver = ControllerDriver(
            Controller(options, random),
            self.store,
            clock=clock,
            timers=timers,
            request_timeout_ms=int(settings["request.timeout.ms"]),
            on_fault=on_failure,
        )
        self._follow_ups = FollowUps(self.driver, self.store, settings, clock, timers)
        self._deletions, self._changes = self._actors()
        self._follow_ups.deletions = self._deletions
        # Brokers learn of a change before the request that caused it is answered.
        self.store.listeners += [self, self.driver]

    def _actors(self) -> tuple[Deletions, WatchedChanges]:
        """What acts on requests to delete topics, and on changes that others make."""
        deletions = Deletions(
            self.driver.controller.state,
            self._outbound,
            self._follow_ups.decide,
            self._when_stored,
            lambda name: self._remove_znode(paths.delete_topic(name)),
        )
        changes = WatchedChanges(
            self.driver,
            self.store,
            self._follow_ups,
            deletions,
            outbound=self._outbound,
            settings=self._node.settings,
            committed=lambda: self._loader.image,
            new_id=lambda: random_uuid(self._random),
            remove_znode=self._remove_znode,
            unsure=self.unsure,
        )
        return deletions, changes

    # Calls of the broker

    @property
    def active_epoch(self) -> int | None:
        """The epoch of this node's controller while it is active."""
        return self.driver.active_epoch

    @property
    def image(self) -> Image:
        """What is stored, while this node's controller is active."""
        return self._loader.image

    def start(self) -> Promise[None]:
        """Take part in elections, in a new session; completed when it is known who the controller is."""
        self._is_running = True
        if self._known.done:
            self._known = Promise()
        self.election.start()
        return self._known

    def session_lost(self) -> None:
        """The session has expired: /controller is gone if it was this node's, and so are all watches."""
        self._stand_down()
        self.election.stop()
        self._controller_known(NO_CONTROLLER)

    def stop(self) -> Promise[None]:
        """The end of the session lets the others elect another controller."""
        self._is_running = False
        self.election.stop()
        self._stand_down()
        self.driver.close()
        self._timers.cancel((self, "unsure"))
        return Promise.of(None)

    def ask(self, request: Message, version: int, principal: str, client_id: str = "") -> Promise[Message]:
        """Decides on a request; completed when everything that the response depends on is stored."""
        if self.active_epoch is None:
            refused: Promise[Message] = Promise()
            refused.fail(KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the controller"))
            return refused
        if isinstance(request, DeleteTopicsRequest):
            return self._delete_topics(request, version, principal, client_id)
        if isinstance(request, UpdateFeaturesRequest):
            return Promise.of(_no_features(request, version))
        return self.driver.ask(request, version, principal, client_id)

    def _delete_topics(
        self, request: DeleteTopicsRequest, version: int, principal: str, client_id: str
    ) -> Promise[Message]:
        """The request is stored; the deletion itself may take as long as a broker is down."""
        response: Promise[Message] = Promise()
        controller = self.driver.controller
        context = Context(
            self._clock.monotonic_ns(), self.store.end_offset, version, principal, client_id=client_id
        )
        try:
            decision = controller.decide(request, context)
        except KafkaError as error:
            response.fail(error)
            return response
        names = [
            controller.image.topics[record.topic_id].name
            for record in decision.records
            if isinstance(record, RemoveTopicRecord)
        ]

        epoch = self.store.epoch

        def marked(_: object) -> None:
            if self.store.epoch is not epoch:
                # Whoever is the controller now finds the request in ZooKeeper.
                refusal = "this node's controller is no longer active"
                response.fail(KafkaError(ErrorCode.NOT_CONTROLLER, refusal))
                return
            self._deletions.add(names)
            self._when_stored(partial(response.set, decision.reply))

        marks = [_existing_is_fine(self._client.create(paths.delete_topic(name))) for name in names]
        gather(marks).then(marked, lambda error: response.fail(_refusal(error)))
        return response

    # Elections

    def _controller_known(self, broker_id: int) -> None:
        if broker_id != self._node.node_id and self.active_epoch is not None:
            logger.warning("node %d is no longer the controller", self._node.node_id)
            self._stand_down()
        if broker_id != self._node.node_id and self._watching is not None:
            self._stand_down()
        changed, self.controller_id = broker_id != self.controller_id, broker_id
        if broker_id != self._node.node_id:
            self._report(changed=changed)

    def _report(self, *, changed: bool) -> None:
        if changed:
            self._on_controller_change(self.controller_id)
        if self.controller_id != NO_CONTROLLER and not self._known.done:
            self._known.set(None)

    def _elected(self, epoch: Epoch) -> None:
        """This node is the controller: it loads everything, then it is active."""
        if self._elected_epoch == epoch:
            return
        self._stand_down()
        self._elected_epoch = epoch
        logger.info("node %d is elected as the controller, epoch %d", self._node.node_id, epoch.number)
        watching = Watching(self._client, self._changes, self._node.node_id)
        self._watching = watching
        loading = Loading(
            self._client, self._node.node_id, watching.called, lambda: random_uuid(self._random)
        )

        def loaded(found: Loaded) -> None:
            if self._watching is watching:
                self._loaded = found
                self.store.activate(epoch, found.records, found.stored)

        def failed(error: BaseException) -> None:
            if self._watching is watching:
                self.unsure(error)

        loading.start().then(loaded, failed)

    def _stand_down(self) -> None:
        """This node's controller is not active, or not any more."""
        if self._watching is not None:
            self._watching.close()
            self._watching = None
        self._elected_epoch = None
        self._timers.cancel((self, "unsure"))
        self.store.deactivate()

    def unsure(self, error: BaseException) -> None:
        """Something that cannot be while this node is the controller: find out who is."""
        logger.warning("the controller of node %d reads everything again: %s", self._node.node_id, error)
        self._stand_down()
        self.election.stop()
        if self._is_running:
            deadline_ns = self._clock.monotonic_ns() + UNSURE_MS * NS_PER_MS
            self._timers.set((self, "unsure"), deadline_ns, self.election.start)

    # Notifications of the store

    def loading_snapshot(self) -> None:
        self._is_loading = True
        self._loader.begin_snapshot()

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        is_new, self._is_loading = not self._is_loading, False
        for batch in batches:
            if is_new:
                self._on_stored(self._loader.loaded_image, batch)
            self._loader.load((batch,))
        self._loader.publish()

    @property
    def name(self) -> str:
        return "ZooKeeper controller"

    def publish(self, delta: Delta, image: Image) -> None:
        """See `metadata.publisher.MetadataPublisher`: what is stored is told to the brokers."""
        self._outbound.publish(delta)
        if self.active_epoch is not None:
            self._follow_ups.published(delta)
            self._changes.published(delta)

    def won(self, epoch: int) -> None:
        loaded, watching = self._loaded, self._watching
        assert loaded is not None, "it is loaded before"
        assert watching is not None, "it is loaded before"
        self._loaded = None
        self._deletions.mark(loaded.deleted)
        sender = Sender(
            self._node.node_id,
            epoch,
            self._node.listeners.inter_broker_name,
            lambda name: name in self._deletions.names,
        )
        self._outbound.activate(sender, self._loader.image)
        self._follow_ups.start(loaded.without_id)
        self._deletions.add(loaded.deleted)
        watching.start(loaded.stored.topics)
        self._client.create(paths.FEATURE, Features().encode()).then(lambda _: None, _log_unless_exists)
        logger.info("node %d is the active controller, epoch %d", self._node.node_id, epoch)
        self._report(changed=True)

    def lost(self, epoch: int) -> None:
        self._follow_ups.stop()
        self._outbound.deactivate()
        self._deletions.clear()
        self._changes.clear()
        logger.info("node %d is not the active controller any more, epoch %d", self._node.node_id, epoch)

    def failed(self, error: BaseException) -> None:
        self._on_failure(error)

    # Help for the others

    def _when_stored(self, action: Callable[[], None]) -> None:
        self.driver.when_committed(action, lambda _: None)

    def _remove_znode(self, path: str) -> None:
        """A request or notification that was seen to; one that is gone already is fine."""

        def failed(error: BaseException) -> None:
            if not isinstance(error, ZooKeeperError):
                return
            if error.code is not ZooKeeperCode.NO_NODE or error.path == paths.CONTROLLER_EPOCH:
                self.unsure(error)

        if self.store.epoch is not None:
            self.store.transact(Delete(path)).then(lambda _: None, failed)

    def _answered(self, broker_id: int, request: Message, answer: Message) -> None:
        """A broker has carried out a request, or not all of it."""
        if isinstance(answer, StopReplicaResponse) and isinstance(request, StopReplicaRequest):
            self._deletions.stopped(broker_id, request, answer)
        if isinstance(answer, LeaderAndIsrResponse) and isinstance(request, LeaderAndIsrRequest):
            self._changes.replicas_answered(broker_id, request, answer)


def _no_features(request: UpdateFeaturesRequest, version: int) -> UpdateFeaturesResponse:
    """A cluster on ZooKeeper has no features that could be finalized."""
    message = "Could not apply finalized feature update because the provided feature is not supported."
    return UpdateFeaturesResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        results=[
            UpdateFeaturesResponse.UpdatableFeatureResult(
                feature=update.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=message
            )
            for update in request.feature_updates
        ],
    )


def _existing_is_fine(created: Promise[Created]) -> Promise[None]:
    done: Promise[None] = Promise()

    def failed(error: BaseException) -> None:
        if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.NODE_EXISTS:
            done.set(None)
        else:
            done.fail(error)

    created.then(lambda _: done.set(None), failed)
    return done


def _refusal(error: BaseException) -> BaseException:
    """The client asks again, then this node or another one knows better."""
    if isinstance(error, ZooKeeperError):
        return KafkaError(ErrorCode.NOT_CONTROLLER, f"ZooKeeper did not answer: {error}")
    return error


def _log_unless_exists(error: BaseException) -> None:
    if not isinstance(error, ZooKeeperError) or error.code is not ZooKeeperCode.NODE_EXISTS:
        logger.warning("%s could not be created: %s", paths.FEATURE, error)
