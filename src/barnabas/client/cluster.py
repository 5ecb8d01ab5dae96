"""A client's view of its cluster, and the choice of the broker for a request.

Contains the metadata cache and its refresh, leaders with their epochs, coordinators, and the choice of a
node.  Connections belong in `pool`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.bootstrap import Bootstrap
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.errors.base import RetriableError, check, error_for
from barnabas.client.errors.data import LeaderNotAvailableError, UnknownTopicOrPartitionError
from barnabas.client.errors.groups import CoordinatorNotAvailableError
from barnabas.client.errors.local import NoBrokersError
from barnabas.client.metadata import Metadata
from barnabas.client.model import Node, Partition, Topic, TopicPartition
from barnabas.client.pool import Pool, Purpose
from barnabas.client.retries import Deadline, Retries
from barnabas.config.settings import Settings
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.loop_services import loop_services
from barnabas.runtime.network.resolver import Resolver
from barnabas.runtime.random import Random

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2

# A coordinator that answers so, or does not answer, may be cut off from the rest of the cluster.
COORDINATOR_LOST = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
)

# Metadata errors of a topic that may have partitions and leaders a moment later.
MAY_APPEAR_SOON = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


class CoordinatorType(IntEnum):
    """The type of a coordinator; the values are those of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Cluster:
    """One client's view of one cluster."""

    def __init__(
        self,
        settings: Settings,
        *,
        allow_auto_topic_creation: bool = False,
        random: Random | None = None,
        pool: Pool | None = None,
        resolver: Resolver | None = None,
    ) -> None:
        self.settings = settings
        services = loop_services()
        self.random: Random = random if random is not None else services.random
        controllers = settings.get("bootstrap.controllers") or ()
        self.bootstrap = Bootstrap(
            settings, controllers or settings["bootstrap.servers"], resolver or services.resolver
        )
        # The endpoint types of DescribeCluster: brokers are 1, controllers 2 (KIP-919).
        self.endpoint_type = CONTROLLER_ENDPOINTS if controllers else BROKER_ENDPOINTS
        self.pool = pool if pool is not None else Pool(settings, services.make_network(), self.random)
        self.retries = Retries(settings, self.random)
        self.metadata = Metadata()
        # Topics to request metadata for; None requests all.
        self.wanted: set[str] | None = set()
        self.on_update: list[Callable[[], None]] = []
        self._auto_create = allow_auto_topic_creation
        # Topics that the last response did not know, so that each is reported once.
        self._unknown: set[str] = set()
        # Consecutive responses that lacked a topic or its leaders, and how long the last one counts as fresh.
        self._incomplete = 0
        self._incomplete_s = 0.0
        self._updating: asyncio.Task[None] | None = None
        # Start of the first attempt since metadata was last received (KIP-1102).
        self._attempt_began_at: float | None = None
        self._coordinators: dict[tuple[CoordinatorType, str], Node] = {}
        # The last one that was lost.
        self._lost_coordinator: Node | None = None

    # ----------------------------------------------------------------------------------------------- metadata

    @property
    def is_stale(self) -> bool:
        if self.metadata.is_expired:
            return True
        age_s = asyncio.get_running_loop().time() - self.metadata.updated_at
        if self._incomplete and age_s > self._incomplete_s:
            return True
        return bool(age_s * 1000 > self.settings["metadata.max.age.ms"])

    def request_update(self) -> asyncio.Task[None]:
        """Start a metadata update; callers share one that is in progress."""
        if self._updating is None or self._updating.done():
            self._updating = asyncio.ensure_future(self._update())
            self._updating.add_done_callback(_retrieve_exception)
        return self._updating

    async def update(self) -> None:
        """Wait for fresh metadata; raises a RetriableError if no broker provides it."""
        await asyncio.shield(self.request_update())

    async def _update(self) -> None:
        began_at = self._attempt_began_at
        if began_at is None:
            began_at = self._attempt_began_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self.bootstrap.rebootstrap_at(began_at)) as patience:
                await self._request_metadata()
        except TimeoutError:
            if not patience.expired():
                raise
            self.rebootstrap(f"no broker has responded with metadata for {self.bootstrap.trigger_s:.0f} s")
            await self._request_metadata()
        self._attempt_began_at = None
        for listener in list(self.on_update):
            listener()

    def rebootstrap(self, reason: str) -> None:
        """Forget the brokers and return to the bootstrap servers (KIP-899, KIP-1102)."""
        logger.info("rebootstrapping: %s", reason)
        for node in self.metadata.brokers.values():
            self.pool.disconnect(node)
        self.metadata.brokers = {}
        self.metadata.expire()
        self.bootstrap.forget()
        self._coordinators.clear()
        self._attempt_began_at = asyncio.get_running_loop().time()

    async def _request_metadata(self) -> None:
        if self.endpoint_type == CONTROLLER_ENDPOINTS:
            await self._update_controllers()
        else:
            await self._update_metadata()

    async def _update_controllers(self) -> None:
        """Controllers do not support Metadata; they describe each other with DescribeCluster."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLER_ENDPOINTS
        )
        response = await self.send_to_any(request, DescribeClusterResponse)
        check(response.error_code, response.error_message)
        brokers = [
            MetadataResponse.Broker(node_id=broker.broker_id, host=broker.host, port=broker.port)
            for broker in response.brokers
        ]
        metadata = MetadataResponse(
            brokers=brokers, cluster_id=response.cluster_id, controller_id=response.controller_id, topics=[]
        )
        self.metadata.update(metadata, asyncio.get_running_loop().time())

    async def _update_metadata(self) -> None:
        wanted = self.wanted
        topics = None
        if wanted is not None:
            topics = [MetadataRequest.Topic(name=name) for name in sorted(wanted)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create)
        response = await self.send_to_any(request, MetadataResponse)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.bootstrap.is_for_recovery:
            self.rebootstrap("a broker requires it")
        check(response.error_code)
        self.metadata.update(response, asyncio.get_running_loop().time())
        self._track_incomplete(response)
        if self._auto_create:
            self._warn_of_unknown_topics(response)

    def _track_incomplete(self, response: MetadataResponse) -> None:
        """A requested topic may exist soon: `metadata.max.age.ms` is too long to wait for it."""
        if all(topic.error_code not in MAY_APPEAR_SOON for topic in response.topics):
            self._incomplete = 0
            return
        self._incomplete_s = self.retries.pause_s(self._incomplete)
        self._incomplete += 1

    def _warn_of_unknown_topics(self, response: MetadataResponse) -> None:
        """A metadata request may auto-create its topics: a typo in a name should be visible."""
        unknown = {
            topic.name: topic.error_code
            for topic in response.topics
            if topic.error_code in MAY_APPEAR_SOON and topic.name is not None
        }
        for name in sorted(unknown.keys() - self._unknown):
            if unknown[name] == ErrorCode.LEADER_NOT_AVAILABLE:
                # As brokers in ZooKeeper mode answer the request that has created the topic.
                logger.warning("topic %s has no leader yet (LEADER_NOT_AVAILABLE); it may be a new one", name)
            else:
                logger.warning("topic %s does not exist yet; the broker may create it", name)
        self._unknown = set(unknown)

    async def topic(self, name: str, deadline: Deadline) -> Topic:
        """Wait for a topic with partitions, and so for its auto-creation where that is enabled."""
        is_new = self.wanted is not None and name not in self.wanted
        if self.wanted is not None:
            self.wanted.add(name)
        known = self.metadata.topics.get(name)
        if known is not None and known.partitions and not self.metadata.is_expired:
            return known
        try:
            return await self.retries.until(deadline, f"finding topic {name}", lambda: self._find(name))
        except KafkaError:
            if is_new and self.wanted is not None:
                # No other caller wants it: every later update would request it again, with backoff, forever.
                self.wanted.discard(name)
            raise

    async def _find(self, name: str) -> Topic:
        if self.wanted is not None:
            self.wanted.add(name)
        await self.update()
        known = self.metadata.topics.get(name)
        if known is None:
            raise UnknownTopicOrPartitionError(f"topic {name} is unknown")
        check(known.error_code, None if known.error_code == 0 else f"topic {name} is not available")
        if not known.partitions:
            raise LeaderNotAvailableError(f"topic {name} has no partitions yet")
        return known

    async def describe(self, names: Iterable[str] | None, deadline: Deadline) -> dict[str, Topic]:
        """Return current metadata of topics, without caching it; of all topics if `names` is None."""
        wanted = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        async def attempt() -> MetadataResponse:
            response = await self.send_to_any(request, MetadataResponse)
            for topic in response.topics if wanted is not None else ():
                check(topic.error_code, f"topic {topic.name} is not available")
            return response

        response = await self.retries.until(deadline, "describing topics", attempt)
        metadata = Metadata()
        metadata.update(response, 0.0)
        return metadata.topics

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Partition]:
        """Return the partitions that have a leader; updates the metadata if one of them is not known."""
        requested = list(partitions)
        if self.wanted is not None:
            self.wanted.update(partition.topic for partition in requested)
        known = {partition: self.metadata.leader_of(partition) for partition in requested}
        if self.is_stale or any(value is None for value in known.values()):
            await self.update()
            known = {partition: self.metadata.leader_of(partition) for partition in requested}
        return {partition: leader for partition, leader in known.items() if leader is not None}

    def leaderless(self, partition: TopicPartition) -> RetriableError | UnknownTopicOrPartitionError:
        """Return why a partition has no leader, according to the metadata."""
        topic = self.metadata.topics.get(partition.topic)
        if topic is not None and topic.error_code:
            error = error_for(topic.error_code)
            if isinstance(error, RetriableError):
                return error
        if topic is None or partition.partition not in topic.partition_of:
            return UnknownTopicOrPartitionError(f"partition {partition} is unknown")
        return LeaderNotAvailableError(f"partition {partition} has no leader")

    # -------------------------------------------------------------------------------------------------- nodes

    async def nodes(self) -> list[Node]:
        """Return nodes for requests that any can serve: connected and least busy first, bootstrap servers
        last.

        Once brokers are known, bootstrap servers are used only for recovery (`metadata.recovery.strategy`,
        KIP-899).
        """
        brokers = list(self.metadata.brokers.values())
        others: list[Node] = []
        if not brokers or self.bootstrap.is_for_recovery:
            known = {(node.host, node.port) for node in brokers}
            others = [node for node in await self.bootstrap.nodes() if (node.host, node.port) not in known]
        connections = {node: self.pool.ready(node) for node in (*brokers, *others)}

        def rank(node: Node) -> tuple[bool, bool, int, float]:
            connection = connections[node]
            busy = connection.in_flight if connection is not None else 0
            return connection is None, self.pool.is_backing_off(node), busy, self.random.fraction()

        return sorted(brokers, key=rank) + sorted(others, key=rank)

    async def send_to_any(self, request: Message, response_type: type[R], timeout_ms: int | None = None) -> R:
        """Send to the first broker that responds; raises NoBrokersError if none does."""
        reasons = []
        for node in await self.nodes():
            try:
                connection = await self.pool.connection(node)
                return await connection.send(request, response_type, timeout_ms=timeout_ms)
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker responds: {'; '.join(reasons)}")

    async def any_connection(self) -> BrokerConnection:
        """Return a connection to a reachable broker; raises NoBrokersError if there is none."""
        reasons = []
        for node in await self.nodes():
            try:
                return await self.pool.connection(node)
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker responds: {'; '.join(reasons)}")

    async def connection_to(self, node_id: int, purpose: Purpose = Purpose.DATA) -> BrokerConnection:
        """Return the connection to a broker by its id."""
        node = self.metadata.brokers.get(node_id)
        if node is None:
            await self.update()
            node = self.metadata.brokers.get(node_id)
        if node is None:
            raise error_for(ErrorCode.REPLICA_NOT_AVAILABLE, f"broker {node_id} is not alive")
        return await self.pool.connection(node, purpose)

    async def controller(self) -> BrokerConnection:
        """Return the connection for controller requests (in KRaft mode any broker: it forwards them)."""
        if self.metadata.controller_id < 0 or self.metadata.is_expired:
            await self.update()
        if self.metadata.controller_id < 0:
            raise error_for(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
        return await self.connection_to(self.metadata.controller_id)

    # ------------------------------------------------------------------------------------------- coordinators

    async def coordinators(self, keys: Iterable[str], kind: CoordinatorType) -> dict[str, Node | Exception]:
        """Return the coordinator of each key, or why there is none."""
        results: dict[str, Node | Exception] = {}
        unknown = []
        for key in keys:
            node = self._coordinators.get((kind, key))
            if node is None:
                unknown.append(key)
            else:
                results[key] = node
        if not unknown:
            return results
        for key, node_or_error in (await self._find_coordinators(unknown, kind)).items():
            results[key] = node_or_error
            if isinstance(node_or_error, Node):
                self._coordinators[kind, key] = node_or_error
        return results

    async def _find_coordinators(self, keys: list[str], kind: CoordinatorType) -> dict[str, Node | Exception]:
        batched = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        reasons = []
        for node in await self._nodes_for_lookup():
            try:
                connection = await self.pool.connection(node)
                if connection.version_for(FindCoordinatorRequest.schema.key or 0) >= 4:
                    response = await connection.send(batched, FindCoordinatorResponse)
                    return {
                        coordinator.key: _coordinator(coordinator) for coordinator in response.coordinators
                    }
                return {key: await _find_one(connection, key, kind) for key in keys}
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker responds: {'; '.join(reasons)}")

    async def _nodes_for_lookup(self) -> list[Node]:
        """One that is cut off takes itself for the coordinator still: the others are asked first."""
        lost = self._lost_coordinator
        if lost is None:
            return await self.nodes()
        if not self.metadata.brokers:
            await self.update()
        address = lost.host, lost.port
        return sorted(await self.nodes(), key=lambda node: (node.host, node.port) == address)

    async def coordinator(self, key: str, kind: CoordinatorType) -> BrokerConnection:
        """Return the connection to the coordinator of a key."""
        node = (await self.coordinators([key], kind))[key]
        if isinstance(node, Exception):
            raise node
        try:
            return await self.pool.connection(node, Purpose.COORDINATION)
        except RetriableError as error:
            self.coordinator_failed(key, kind, error)
            raise

    def coordinator_failed(self, key: str, kind: CoordinatorType, error: KafkaError) -> None:
        """If it is no longer the coordinator, or does not respond, the next use looks it up."""
        if error.code in COORDINATOR_LOST:
            self._lost_coordinator = self._coordinators.get((kind, key), self._lost_coordinator)
        elif error.code != ErrorCode.NOT_COORDINATOR:
            return
        self.forget_coordinator(key, kind)

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        self._coordinators.pop((kind, key), None)

    async def close(self) -> None:
        if self._updating is not None:
            self._updating.cancel()
            await asyncio.gather(self._updating, return_exceptions=True)
        self.pool.close()
        # The transports report that they are closed in the next iterations of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def _coordinator(
    coordinator: FindCoordinatorResponse.Coordinator | FindCoordinatorResponse,
) -> Node | Exception:
    if coordinator.error_code:
        return error_for(coordinator.error_code, coordinator.error_message or None)
    if coordinator.node_id < 0:
        return CoordinatorNotAvailableError()
    return Node(coordinator.node_id, coordinator.host, coordinator.port)


async def _find_one(connection: BrokerConnection, key: str, kind: CoordinatorType) -> Node | Exception:
    request = FindCoordinatorRequest(key=key, key_type=kind)
    return _coordinator(await connection.send(request, FindCoordinatorResponse, highest=3))


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
