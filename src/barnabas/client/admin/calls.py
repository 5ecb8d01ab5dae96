"""How the admin client sends requests: to the controller, the leaders, the coordinators or any broker.

Contains routing and retries; the individual APIs belong in the other modules of this package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import Cluster, CoordinatorType
from barnabas.client.errors.base import ClientError, InvalidMetadataError, RetriableError, error_for
from barnabas.client.model import Node, TopicPartition
from barnabas.client.outcomes import Outcomes
from barnabas.client.retries import Deadline
from barnabas.config.settings import Settings
from barnabas.protocol.schema import Message

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R", bound=Message)

# Per-item errors that are retried, possibly with another broker.
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
    """Shared base of the admin client's areas."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self.settings = settings
        self.cluster = cluster

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        return Deadline(self.settings["default.api.timeout.ms"] if timeout_ms is None else timeout_ms)

    # --------------------------------------------------------------------------------------- single responses

    async def _send_to_any(
        self, request: Message, response_type: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send a request that any broker can serve."""
        name = request.schema.name
        return await self.cluster.retries.until(
            self._deadline(timeout_ms), name, lambda: self.cluster.send_to_any(request, response_type)
        )

    async def _send_to_controller(
        self,
        request: Message,
        response_type: type[R],
        timeout_ms: int | None = None,
        check_response: Callable[[R], None] | None = None,
    ) -> R:
        """Send to the controller; `check_response` raises the response's error, so that a retriable one is
        retried."""

        async def attempt() -> R:
            try:
                connection = await self.cluster.controller()
                response = await connection.send(request, response_type)
                if check_response is not None:
                    check_response(response)
            except InvalidMetadataError:
                self.cluster.metadata.expire()
                raise
            except RetriableError as error:
                if error.code in (ErrorCode.NOT_CONTROLLER, ErrorCode.NETWORK_EXCEPTION):
                    self.cluster.metadata.expire()
                    raise
                if error.code in CONTROLLER_RETRIES:
                    raise
                # A retry would only hide the controller's error message.
                raise _Final(error) from error
            return response

        try:
            return await self.cluster.retries.until(self._deadline(timeout_ms), request.schema.name, attempt)
        except _Final as final:
            raise final.error from None

    async def _send_to_broker(
        self, broker_id: int, request: Message, response_type: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send to the broker with this id."""

        async def attempt() -> R:
            return await (await self.cluster.connection_to(broker_id)).send(request, response_type)

        return await self.cluster.retries.until(self._deadline(timeout_ms), request.schema.name, attempt)

    async def reach(self, *, timeout_ms: int | None = None) -> None:
        """Wait until a broker responds with the cluster's metadata."""
        await self.cluster.retries.until(self._deadline(timeout_ms), "Metadata", self.cluster.update)

    async def _brokers(self, timeout_ms: int | None) -> list[Node]:
        """Return all live brokers, by fresh metadata."""
        await self.reach(timeout_ms=timeout_ms)
        return sorted(self.cluster.metadata.brokers.values(), key=lambda node: node.id)

    # -------------------------------------------------------------------------------- responses for many keys

    async def _each(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        retried: frozenset[ErrorCode],
        timeout_ms: int | None,
        api_name: str,
    ) -> Outcomes[K, V]:
        """Send for all keys, then again for those whose error is in `retried`."""
        deadline = self._deadline(timeout_ms)
        left = list(dict.fromkeys(keys))
        results: dict[K, V | KafkaError] = {}
        failures = 0
        while left:
            results.update(await self._attempt(left, attempt, deadline, api_name))
            left = [key for key in left if _is_one_of(results[key], retried)]
            if not left:
                break
            self.cluster.metadata.expire()
            pause_s = self.cluster.retries.pause_s(failures)
            if pause_s >= deadline.left_s:
                break
            failures += 1
            await asyncio.sleep(pause_s)
        return Outcomes(results)

    async def _attempt(
        self,
        keys: list[K],
        attempt: Callable[[list[K]], Awaitable[Mapping[K, V | KafkaError]]],
        deadline: Deadline,
        api_name: str,
    ) -> Found[K, V]:
        responses = await self.cluster.retries.until(deadline, api_name, lambda: attempt(keys))
        missing = error_for(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response to {api_name} does not name it"
        )
        return {key: responses.get(key, missing) for key in keys}

    async def _through_controller(
        self,
        keys: Iterable[K],
        request: Callable[[list[K]], Message],
        response_type: type[R],
        read: Callable[[R, list[K]], Mapping[K, V | KafkaError]],
        timeout_ms: int | None,
    ) -> Outcomes[K, V]:
        """Send one request about many keys to the controller."""

        async def attempt(left: list[K]) -> Mapping[K, V | KafkaError]:
            try:
                connection = await self.cluster.controller()
                return read(await connection.send(request(left), response_type), left)
            except RetriableError:
                self.cluster.metadata.expire()
                raise

        return await self._each(keys, attempt, CONTROLLER_RETRIES, timeout_ms, response_type.__name__)

    async def send_to_leaders(
        self,
        partitions: Iterable[TopicPartition],
        send: Callable[
            [BrokerConnection, list[TopicPartition]], Awaitable[Mapping[TopicPartition, V | KafkaError]]
        ],
        timeout_ms: int | None,
        api_name: str,
    ) -> Outcomes[TopicPartition, V]:
        """Send one request to each broker that leads some of the partitions."""

        async def attempt(left: list[TopicPartition]) -> Mapping[TopicPartition, V | KafkaError]:
            leaders = await self.cluster.leaders(left)
            results: Found[TopicPartition, V] = {}
            by_broker: dict[int, list[TopicPartition]] = {}
            for partition in left:
                if partition in leaders:
                    by_broker.setdefault(leaders[partition].leader, []).append(partition)
                else:
                    results[partition] = self.cluster.leaderless(partition)
            for part in await asyncio.gather(
                *(self._from_broker(broker, requested, send) for broker, requested in by_broker.items())
            ):
                results.update(part)
            return results

        return await self._each(partitions, attempt, LEADER_RETRIES, timeout_ms, api_name)

    async def _from_broker(
        self,
        broker_id: int,
        keys: list[K],
        send: Callable[[BrokerConnection, list[K]], Awaitable[Mapping[K, V | KafkaError]]],
    ) -> Mapping[K, V | KafkaError]:
        try:
            return await send(await self.cluster.connection_to(broker_id), keys)
        except ClientError as error:
            return dict.fromkeys(keys, error)

    async def _through_coordinators(
        self,
        keys: Iterable[str],
        kind: CoordinatorType,
        send: Callable[[BrokerConnection, list[str]], Awaitable[Mapping[str, V | KafkaError]]],
        timeout_ms: int | None,
        api_name: str,
    ) -> Outcomes[str, V]:
        """Send one request to each coordinator of some of the keys."""

        async def attempt(left: list[str]) -> Mapping[str, V | KafkaError]:
            results: Found[str, V] = {}
            by_node: dict[Node, list[str]] = {}
            for key, node in (await self.cluster.coordinators(left, kind)).items():
                if isinstance(node, Node):
                    by_node.setdefault(node, []).append(key)
                else:
                    results[key] = node if isinstance(node, KafkaError) else error_for(-1, str(node))
            for part in await asyncio.gather(
                *(self._from_coordinator(node, requested, send) for node, requested in by_node.items())
            ):
                results.update(part)
            for key, value in results.items():
                if isinstance(value, KafkaError):
                    self.cluster.coordinator_failed(key, kind, value)
            return results

        return await self._each(keys, attempt, COORDINATOR_RETRIES, timeout_ms, api_name)

    async def _from_coordinator(
        self,
        node: Node,
        keys: list[str],
        send: Callable[[BrokerConnection, list[str]], Awaitable[Mapping[str, V | KafkaError]]],
    ) -> Mapping[str, V | KafkaError]:
        try:
            return await send(await self.cluster.pool.connection(node), keys)
        except ClientError as error:
            return dict.fromkeys(keys, error)


class _Final(Exception):
    """Carries an error through the retry loop."""

    def __init__(self, error: ClientError) -> None:
        super().__init__(str(error))
        self.error = error


def _is_one_of(value: object, codes: frozenset[ErrorCode]) -> bool:
    return isinstance(value, KafkaError) and value.code in codes


def outcome(code: int, message: str | None, value: V) -> V | KafkaError:
    """Return the value, or the error for the code."""
    return error_for(code, message) if code else value


def operations(bits: int) -> Sequence[int] | None:
    """Return the operations of a KIP-430 bit field; None if they were not requested."""
    if bits == -(2**31):
        return None
    return [bit for bit in range(31) if bits >> bit & 1]
