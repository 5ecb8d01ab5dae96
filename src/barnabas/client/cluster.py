"""What a client knows of its cluster, and whom it asks for what.

What lives here: the cache of metadata and its refresh, leaders with their epochs, coordinators, the choice of
a node.  What may not: connections (pool) and what is done with the answers.
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
from barnabas.client.errors.data import LeaderNotAvailableError, UnknownTopicOrPartitionError
from barnabas.client.errors.groups import CoordinatorNotAvailableError
from barnabas.client.errors.kinds import RetriableError, check, error_for
from barnabas.client.errors.local import NoBrokersError
from barnabas.client.metadata import Metadata
from barnabas.client.model import Node, Partition, Topic, TopicPartition
from barnabas.client.pool import Pool, Purpose
from barnabas.client.waiting import Deadline, Retries
from barnabas.config.settings import Settings
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.schema import Message
from barnabas.runtime.network.asyncio_network import AsyncioNetwork
from barnabas.runtime.network.resolver import Resolver, SystemResolver
from barnabas.runtime.random import Random, SystemRandom

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
BROKER_ENDPOINTS = 1
CONTROLLER_ENDPOINTS = 2

# What says that a coordinator is to be looked up again.
COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION}
)

# What metadata says of a topic that may have partitions and leaders a moment later.
SOON_THERE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE})


class CoordinatorType(IntEnum):
    """What a coordinator coordinates; the number is the one of FindCoordinator."""

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
        self.random: Random = random if random is not None else SystemRandom()
        controllers = settings.get("bootstrap.controllers") or ()
        self.bootstrap = Bootstrap(
            settings, controllers or settings["bootstrap.servers"], resolver or SystemResolver()
        )
        # What DescribeCluster calls them: brokers are 1, controllers 2 (KIP-919).
        self.endpoint_type = CONTROLLER_ENDPOINTS if controllers else BROKER_ENDPOINTS
        self.pool = pool if pool is not None else Pool(settings, AsyncioNetwork(), self.random)
        self.retries = Retries(settings, self.random)
        self.metadata = Metadata()
        # Topics to ask for; None asks for all there are.
        self.wanted: set[str] | None = set()
        self.on_update: list[Callable[[], None]] = []
        self._auto_create = allow_auto_topic_creation
        # Topics that were last told to be unknown, so that it is said once.
        self._unknown: set[str] = set()
        # Answers in a row that lacked a topic or its leaders, and how long the last of them counts.
        self._incomplete = 0
        self._incomplete_s = 0.0
        self._updating: asyncio.Task[None] | None = None
        # When the first attempt began to get metadata that nobody has given yet (KIP-1102).
        self._attempt_began_at: float | None = None
        self._coordinators: dict[tuple[CoordinatorType, str], Node] = {}

    # ---------------------------------------------------------------------------------------- the metadata

    @property
    def is_stale(self) -> bool:
        if self.metadata.is_expired:
            return True
        age_s = asyncio.get_running_loop().time() - self.metadata.updated_at
        if self._incomplete and age_s > self._incomplete_s:
            return True
        return bool(age_s * 1000 > self.settings["metadata.max.age.ms"])

    def request_update(self) -> asyncio.Task[None]:
        """Ask for fresh metadata; who calls while that is under way shares it."""
        if self._updating is None or self._updating.done():
            self._updating = asyncio.ensure_future(self._update())
            self._updating.add_done_callback(_look)
        return self._updating

    async def update(self) -> None:
        """Wait for fresh metadata; a RetriableError if no broker gives it."""
        await asyncio.shield(self.request_update())

    async def _update(self) -> None:
        began_at = self._attempt_began_at
        if began_at is None:
            began_at = self._attempt_began_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self.bootstrap.begins_anew_at(began_at)) as patience:
                await self._ask_for_metadata()
        except TimeoutError:
            if not patience.expired():
                raise
            self.rebootstrap(f"no broker has given metadata for {self.bootstrap.trigger_s:.0f} s")
            await self._ask_for_metadata()
        self._attempt_began_at = None
        for listener in list(self.on_update):
            listener()

    def rebootstrap(self, reason: str) -> None:
        """Forget the brokers and begin anew with the bootstrap servers (KIP-899, KIP-1102)."""
        logger.info("beginning anew with the bootstrap servers: %s", reason)
        for node in self.metadata.brokers.values():
            self.pool.disconnect(node)
        self.metadata.brokers = {}
        self.metadata.expire()
        self.bootstrap.forget()
        self._coordinators.clear()
        self._attempt_began_at = asyncio.get_running_loop().time()

    async def _ask_for_metadata(self) -> None:
        if self.endpoint_type == CONTROLLER_ENDPOINTS:
            await self._update_controllers()
        else:
            await self._update_metadata()

    async def _update_controllers(self) -> None:
        """Controllers know no Metadata request; they tell of each other."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLER_ENDPOINTS
        )
        answer = await self.ask_any(request, DescribeClusterResponse)
        check(answer.error_code, answer.error_message)
        brokers = [
            MetadataResponse.Broker(node_id=one.broker_id, host=one.host, port=one.port)
            for one in answer.brokers
        ]
        told = MetadataResponse(
            brokers=brokers, cluster_id=answer.cluster_id, controller_id=answer.controller_id, topics=[]
        )
        self.metadata.take(told, asyncio.get_running_loop().time())

    async def _update_metadata(self) -> None:
        wanted = self.wanted
        topics = None
        if wanted is not None:
            topics = [MetadataRequest.Topic(name=name) for name in sorted(wanted)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create)
        answer = await self.ask_any(request, MetadataResponse)
        if answer.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self.bootstrap.is_for_recovery:
            self.rebootstrap("a broker asks for it")
        check(answer.error_code)
        self.metadata.take(answer, asyncio.get_running_loop().time())
        self._note_incomplete(answer)
        if self._auto_create:
            self._warn_of_unknown(answer)

    def _note_incomplete(self, answer: MetadataResponse) -> None:
        """A topic that is wanted may be there soon: `metadata.max.age.ms` is too long to find that out."""
        if all(topic.error_code not in SOON_THERE for topic in answer.topics):
            self._incomplete = 0
            return
        self._incomplete_s = self.retries.pause_s(self._incomplete)
        self._incomplete += 1

    def _warn_of_unknown(self, answer: MetadataResponse) -> None:
        """To ask for a topic creates it where brokers allow that: a slip in its name should not go unseen."""
        unknown = {
            topic.name
            for topic in answer.topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None
        }
        for name in sorted(unknown - self._unknown):
            logger.warning("the topic %s does not exist: asked for it, so that it may be created", name)
        self._unknown = unknown

    async def topic(self, name: str, deadline: Deadline) -> Topic:
        """A topic that has partitions; waits for it, and so for its creation where that is allowed."""
        is_new = self.wanted is not None and name not in self.wanted
        if self.wanted is not None:
            self.wanted.add(name)
        known = self.metadata.topics.get(name)
        if known is not None and known.partitions and not self.metadata.is_expired:
            return known
        try:
            return await self.retries.until(deadline, f"finding the topic {name}", lambda: self._find(name))
        except KafkaError:
            if is_new and self.wanted is not None:
                # Nobody else wants it: every later update would ask for it, and soon again, for ever.
                self.wanted.discard(name)
            raise

    async def _find(self, name: str) -> Topic:
        if self.wanted is not None:
            self.wanted.add(name)
        await self.update()
        known = self.metadata.topics.get(name)
        if known is None:
            raise UnknownTopicOrPartitionError(f"the topic {name} is not known")
        check(known.error_code, None if known.error_code == 0 else f"the topic {name} cannot be used now")
        if not known.partitions:
            raise LeaderNotAvailableError(f"the topic {name} has no partitions yet")
        return known

    async def describe(self, names: Iterable[str] | None, deadline: Deadline) -> dict[str, Topic]:
        """Topics as they are now, without keeping them in the cache; all there are without names."""
        wanted = None if names is None else [MetadataRequest.Topic(name=name) for name in names]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

        async def attempt() -> MetadataResponse:
            answer = await self.ask_any(request, MetadataResponse)
            for topic in answer.topics if wanted is not None else ():
                check(topic.error_code, f"the topic {topic.name} cannot be used now")
            return answer

        answer = await self.retries.until(deadline, "describing topics", attempt)
        told = Metadata()
        told.take(answer, 0.0)
        return told.topics

    async def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Partition]:
        """The partitions that have a leader, by fresh metadata if one of them is not known to."""
        asked = list(partitions)
        if self.wanted is not None:
            self.wanted.update(one.topic for one in asked)
        known = {one: self.metadata.leader_of(one) for one in asked}
        if self.is_stale or any(one is None for one in known.values()):
            await self.update()
            known = {one: self.metadata.leader_of(one) for one in asked}
        return {one: found for one, found in known.items() if found is not None}

    def leaderless(self, partition: TopicPartition) -> RetriableError | UnknownTopicOrPartitionError:
        """Why a partition has no leader, as far as the metadata tells."""
        topic = self.metadata.topics.get(partition.topic)
        if topic is not None and topic.error_code:
            found = error_for(topic.error_code)
            if isinstance(found, RetriableError):
                return found
        if topic is None or partition.partition not in topic.partition_of:
            return UnknownTopicOrPartitionError(f"the partition {partition} is not known")
        return LeaderNotAvailableError(f"the partition {partition} has no leader now")

    # ------------------------------------------------------------------------------------------- the nodes

    async def nodes(self) -> list[Node]:
        """Those to ask when any will do: connected and least busy first; bootstrap servers last, and once
        brokers are known only if they may be used to recover (`metadata.recovery.strategy`, KIP-899)."""
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

    async def ask_any(self, request: Message, answer: type[R], timeout_ms: int | None = None) -> R:
        """Ask whichever broker answers; NoBrokersError if none does."""
        reasons = []
        for node in await self.nodes():
            try:
                connection = await self.pool.connection(node)
                return await connection.ask(request, answer, timeout_ms=timeout_ms)
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker answers: {'; '.join(reasons)}")

    async def any_connection(self) -> BrokerConnection:
        """The link to whichever broker can be reached; NoBrokersError if none can."""
        reasons = []
        for node in await self.nodes():
            try:
                return await self.pool.connection(node)
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker answers: {'; '.join(reasons)}")

    async def connection_to(self, node_id: int, purpose: Purpose = Purpose.DATA) -> BrokerConnection:
        """The link to a broker by its id."""
        node = self.metadata.brokers.get(node_id)
        if node is None:
            await self.update()
            node = self.metadata.brokers.get(node_id)
        if node is None:
            raise error_for(ErrorCode.REPLICA_NOT_AVAILABLE, f"the broker {node_id} is not alive")
        return await self.pool.connection(node, purpose)

    async def controller(self) -> BrokerConnection:
        """The link to the broker that takes requests for the controller (any, in KRaft mode: it forwards)."""
        if self.metadata.controller_id < 0 or self.metadata.is_expired:
            await self.update()
        if self.metadata.controller_id < 0:
            raise error_for(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
        return await self.connection_to(self.metadata.controller_id)

    # ------------------------------------------------------------------------------------ the coordinators

    async def coordinators(self, keys: Iterable[str], kind: CoordinatorType) -> dict[str, Node | Exception]:
        """The coordinator of each key, or why there is none now."""
        found: dict[str, Node | Exception] = {}
        unknown = []
        for key in keys:
            node = self._coordinators.get((kind, key))
            if node is None:
                unknown.append(key)
            else:
                found[key] = node
        if not unknown:
            return found
        for key, node_or_error in (await self._find_coordinators(unknown, kind)).items():
            found[key] = node_or_error
            if isinstance(node_or_error, Node):
                self._coordinators[kind, key] = node_or_error
        return found

    async def _find_coordinators(self, keys: list[str], kind: CoordinatorType) -> dict[str, Node | Exception]:
        batched = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        reasons = []
        for node in await self.nodes():
            try:
                connection = await self.pool.connection(node)
                if connection.version_for(FindCoordinatorRequest.schema.key or 0) >= 4:
                    answer = await connection.ask(batched, FindCoordinatorResponse)
                    return {one.key: _coordinator(one) for one in answer.coordinators}
                return {key: await _find_one(connection, key, kind) for key in keys}
            except RetriableError as error:
                reasons.append(error.message)
        raise NoBrokersError(f"no broker answers: {'; '.join(reasons)}")

    async def coordinator(self, key: str, kind: CoordinatorType) -> BrokerConnection:
        """The link to the coordinator of one key."""
        node = (await self.coordinators([key], kind))[key]
        if isinstance(node, Exception):
            raise node
        try:
            return await self.pool.connection(node, Purpose.COORDINATION)
        except RetriableError:
            self.forget_coordinator(key, kind)
            raise

    def forget_coordinator(self, key: str, kind: CoordinatorType) -> None:
        """It said that it is not, or does not answer: look it up again."""
        self._coordinators.pop((kind, key), None)

    async def close(self) -> None:
        if self._updating is not None:
            self._updating.cancel()
            await asyncio.gather(self._updating, return_exceptions=True)
        self.pool.close()
        # The transports tell of their end in the loop's next turns.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def _coordinator(
    found: FindCoordinatorResponse.Coordinator | FindCoordinatorResponse,
) -> Node | Exception:
    if found.error_code:
        return error_for(found.error_code, found.error_message or None)
    if found.node_id < 0:
        return CoordinatorNotAvailableError()
    return Node(found.node_id, found.host, found.port)


async def _find_one(connection: BrokerConnection, key: str, kind: CoordinatorType) -> Node | Exception:
    request = FindCoordinatorRequest(key=key, key_type=kind)
    return _coordinator(await connection.ask(request, FindCoordinatorResponse, highest=3))


def _look(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
