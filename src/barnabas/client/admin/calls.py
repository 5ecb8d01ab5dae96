"""How the admin client asks: the controller, the leaders, the coordinators, any broker; until it works.

What lives here: routing and retrying for calls about many things.  What may not: any single API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import COORDINATOR_MOVED, Cluster, CoordinatorType
from barnabas.client.errors.kinds import ClientError, InvalidMetadataError, RetriableError, error_for
from barnabas.client.model import Node, TopicPartition
from barnabas.client.outcomes import Outcomes
from barnabas.client.waiting import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.schema import Message

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Message)

# Answers for one thing that mean: ask again, perhaps somebody else.
CONTROLLER_RETRIES = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
LEADER_RETRIES = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
COORDINATOR_RETRIES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

Found = dict[K, V | KafkaError]


class AdminCalls:
    """The part of the admin client that its areas stand on."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self.settings = settings
        self.cluster = cluster

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        return Deadline(self.settings["default.api.timeout.ms"] if timeout_ms is None else timeout_ms)

    # ------------------------------------------------------------------------------------------ one answer

    async def _ask_any(self, request: Message, answer: type[R], timeout_ms: int | None = None) -> R:
        """Ask a broker that need not be a special one."""
        name = request.schema.name
        return await self.cluster.retries.until(
            self._deadline(timeout_ms), name, lambda: self.cluster.ask_any(request, answer)
        )

    async def _ask_controller(
        self,
        request: Message,
        answer: type[R],
        timeout_ms: int | None = None,
        judge: Callable[[R], None] | None = None,
    ) -> R:
        """Ask the controller; `judge` raises what the answer holds, so that it is tried again if it may."""

        async def attempt() -> R:
            try:
                connection = await self.cluster.controller()
                found = await connection.ask(request, answer)
                if judge is not None:
                    judge(found)
            except InvalidMetadataError:
                self.cluster.metadata.expire()
                raise
            except RetriableError as error:
                if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                    self.cluster.metadata.expire()
                    raise
                if error.code in CONTROLLER_RETRIES:
                    raise
                # To try again what the controller has refused would only hide its words.
                raise _Final(error) from error
            return found

        try:
            return await self.cluster.retries.until(self._deadline(timeout_ms), request.schema.name, attempt)
        except _Final as final:
            raise final.error from None

    async def _ask_broker(
        self, broker_id: int, request: Message, answer: type[R], timeout_ms: int | None = None
    ) -> R:
        """Ask one broker by its id."""

        async def attempt() -> R:
            return await (await self.cluster.connection_to(broker_id)).ask(request, answer)

        return await self.cluster.retries.until(self._deadline(timeout_ms), request.schema.name, attempt)

    async def reach(self, *, timeout_ms: int | None = None) -> None:
        """Wait until the cluster answers and tells who belongs to it."""
        await self.cluster.retries.until(self._deadline(timeout_ms), "Metadata", self.cluster.update)

    async def _brokers(self, timeout_ms: int | None) -> list[Node]:
        """All brokers that are alive, by fresh metadata."""
        await self.reach(timeout_ms=timeout_ms)
        return sorted(self.cluster.metadata.brokers.values(), key=lambda node: node.id)

    # ---------------------------------------------------------------------------------------- many answers

    async def _each(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        retried: frozenset[ErrorCode],
        timeout_ms: int | None,
        what: str,
    ) -> Outcomes[K, V]:
        """Ask about all keys, then again about those whose error is one of `retried`."""
        deadline = self._deadline(timeout_ms)
        left = list(dict.fromkeys(keys))
        found: dict[K, V | KafkaError] = {}
        failures = 0
        while left:
            found.update(await self._attempt(left, attempt, deadline, what))
            left = [key for key in left if _is_one_of(found[key], retried)]
            if not left:
                break
            self.cluster.metadata.expire()
            pause_s = self.cluster.retries.pause_s(failures)
            if pause_s >= deadline.left_s:
                break
            failures += 1
            await asyncio.sleep(pause_s)
        return Outcomes(found)

    async def _attempt(
        self,
        keys: list[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        deadline: Deadline,
        what: str,
    ) -> Found[K, V]:
        answers = await self.cluster.retries.until(deadline, what, lambda: attempt(keys))
        missing = error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer to {what} does not name it")
        return {key: answers.get(key, missing) for key in keys}

    async def _through_controller(
        self,
        keys: Iterable[K],
        request: Callable[[list[K]], Message],
        answer: type[R],
        read: Callable[[R, list[K]], Mapping[K, V | KafkaError]],
        timeout_ms: int | None,
    ) -> Outcomes[K, V]:
        """One request to the controller about many things."""

        async def attempt(left: list[K]) -> Mapping[K, V | KafkaError]:
            try:
                connection = await self.cluster.controller()
                return read(await connection.ask(request(left), answer), left)
            except RetriableError:
                self.cluster.metadata.expire()
                raise

        return await self._each(keys, attempt, CONTROLLER_RETRIES, timeout_ms, answer.__name__)

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[
            [BrokerConnection, list[TopicPartition]], Awaitable[Mapping[TopicPartition, V | KafkaError]]
        ],
        timeout_ms: int | None,
        what: str,
    ) -> Outcomes[TopicPartition, V]:
        """One request to each broker that leads some of the partitions."""

        async def attempt(left: list[TopicPartition]) -> Mapping[TopicPartition, V | KafkaError]:
            leaders = await self.cluster.leaders(left)
            found: Found[TopicPartition, V] = {}
            by_broker: dict[int, list[TopicPartition]] = {}
            for one in left:
                if one in leaders:
                    by_broker.setdefault(leaders[one].leader, []).append(one)
                else:
                    found[one] = self.cluster.leaderless(one)
            for part in await asyncio.gather(
                *(self._from_broker(broker, some, ask) for broker, some in by_broker.items())
            ):
                found.update(part)
            return found

        return await self._each(partitions, attempt, LEADER_RETRIES, timeout_ms, what)

    async def _from_broker(
        self,
        broker_id: int,
        keys: list[K],
        ask: Callable[[BrokerConnection, list[K]], Awaitable[Mapping[K, V | KafkaError]]],
    ) -> Mapping[K, V | KafkaError]:
        try:
            return await ask(await self.cluster.connection_to(broker_id), keys)
        except ClientError as error:
            return dict.fromkeys(keys, error)

    async def _through_coordinators(
        self,
        keys: Iterable[str],
        kind: CoordinatorType,
        ask: Callable[[BrokerConnection, list[str]], Awaitable[Mapping[str, V | KafkaError]]],
        timeout_ms: int | None,
        what: str,
    ) -> Outcomes[str, V]:
        """One request to each coordinator of some of the keys."""

        async def attempt(left: list[str]) -> Mapping[str, V | KafkaError]:
            found: Found[str, V] = {}
            by_node: dict[Node, list[str]] = {}
            for key, node in (await self.cluster.coordinators(left, kind)).items():
                if isinstance(node, Node):
                    by_node.setdefault(node, []).append(key)
                else:
                    found[key] = node if isinstance(node, KafkaError) else error_for(-1, str(node))
            for part in await asyncio.gather(
                *(self._from_coordinator(node, some, ask) for node, some in by_node.items())
            ):
                found.update(part)
            for key, value in found.items():
                if _is_one_of(value, COORDINATOR_MOVED):
                    self.cluster.forget_coordinator(key, kind)
            return found

        return await self._each(keys, attempt, COORDINATOR_RETRIES, timeout_ms, what)

    async def _from_coordinator(
        self,
        node: Node,
        keys: list[str],
        ask: Callable[[BrokerConnection, list[str]], Awaitable[Mapping[str, V | KafkaError]]],
    ) -> Mapping[str, V | KafkaError]:
        try:
            return await ask(await self.cluster.pool.connection(node), keys)
        except ClientError as error:
            return dict.fromkeys(keys, error)


class _Final(Exception):
    """Carries an error past those who would try again."""

    def __init__(self, error: ClientError) -> None:
        super().__init__(str(error))
        self.error = error


def _is_one_of(value: object, codes: frozenset[ErrorCode]) -> bool:
    return isinstance(value, KafkaError) and value.code in codes


def outcome(code: int, message: str | None, value: V) -> V | KafkaError:
    """The value, or the error of its code."""
    return error_for(code, message) if code else value


def operations(bits: int) -> Sequence[int] | None:
    """The numbers in a bit field of allowed operations (KIP-430); None if nobody asked for it."""
    if bits == -(2**31):
        return None
    return [bit for bit in range(31) if bits >> bit & 1]
