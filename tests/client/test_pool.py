"""The connections of a client: pauses between attempts, and what is closed when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import errors as client_errors
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.model import Node
from barnabas.client.options import admin_options
from barnabas.client.pool import Pool, Purpose
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.network.asyncio_network import AsyncioNetwork
from barnabas.runtime.random import SeededRandom
from tests.client.live.work import until
from tests.client.scripted import NODE_ID, ScriptedBroker, scripted

Run = Callable[[Any], Any]


def pool_of(**options: Any) -> Pool:
    given = {"bootstrap_servers": "a:1", "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 20, **options}
    return Pool(admin_options(None, given), AsyncioNetwork(), SeededRandom(1))


def node_of(broker: ScriptedBroker) -> Node:
    return Node(NODE_ID, "127.0.0.1", broker.port)


ASK_ALL = MetadataRequest(topics=None, allow_auto_topic_creation=False)


def test_a_connection_that_comes_about_ends_the_growing_of_pauses(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            pool, node = pool_of(), node_of(broker)
            await broker.stop()
            for failures in range(1, 4):
                with pytest.raises(client_errors.NetworkError):
                    await pool.connection(node)
                assert list(pool._failures.values()) == [failures]
            await broker.start()
            await pool.connection(node)
            assert pool._failures == {}
            pool.close()

    run(work())


def test_after_a_failure_the_next_attempt_waits(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            pool, node = (
                pool_of(reconnect_backoff_ms=600_000, reconnect_backoff_max_ms=600_000),
                node_of(broker),
            )
            await broker.stop()
            with pytest.raises(client_errors.NetworkError):
                await pool.connection(node)
            assert pool.is_backing_off(node)
            assert not pool.is_backing_off(node, Purpose.FETCHES), "of another connection nothing is known"
            await broker.start()
            again = asyncio.ensure_future(pool.connection(node))
            await pool.connection(node, Purpose.FETCHES)
            assert not again.done()
            again.cancel()
            pool.close()

    run(work())


def test_a_connection_with_a_request_in_flight_is_not_idle(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            pool, node = pool_of(connections_max_idle_ms=600_000), node_of(broker)
            busy, idle = await pool.connection(node), await pool.connection(node, Purpose.FETCHES)
            broker.handlers[MetadataRequest] = lambda *_: None
            asking = asyncio.ensure_future(busy.send(ASK_ALL, MetadataResponse))
            await until(lambda: broker.count(MetadataRequest) == 1)
            for connection in (busy, idle):
                connection.used_at = -1e9
            pool._sweep()
            assert pool.ready(node) is busy
            assert pool.ready(node, Purpose.FETCHES) is None
            assert pool._failures == {}, "to close what is idle is no failure"
            asking.cancel()
            pool.close()

    run(work())


def test_a_request_waits_for_the_throttle_time(run: Run) -> None:
    """KIP-219: also for requests that are sent and awaited one by one."""

    async def work() -> None:
        async with scripted() as broker:
            pool = pool_of()
            connection: BrokerConnection = await pool.connection(node_of(broker))
            throttled = MetadataResponse(throttle_time_ms=600_000, brokers=[], topics=[])
            broker.once(MetadataRequest, lambda *_: throttled)
            await connection.send(ASK_ALL, MetadataResponse)
            assert connection.throttled_s > 60
            asking = asyncio.ensure_future(connection.send(ASK_ALL, MetadataResponse))
            await asyncio.sleep(0)
            assert connection.in_flight == 0
            assert not asking.done()
            asking.cancel()
            pool.close()

    run(work())


def test_all_connections_of_a_node_are_closed_and_no_others(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, scripted() as other:
            pool = pool_of()
            connections = [await pool.connection(node_of(broker), purpose) for purpose in Purpose]
            kept = await pool.connection(node_of(other))
            pool.disconnect(node_of(broker))
            await until(lambda: all(connection.is_closed for connection in connections))
            assert pool.ready(node_of(other)) is kept
            pool.close()

    run(work())
