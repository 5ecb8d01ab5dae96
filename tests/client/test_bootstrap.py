"""Bootstrap servers and rebootstrapping: client.dns.lookup and metadata.recovery.*."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import errors as client_errors
from barnabas.client.bootstrap import Bootstrap
from barnabas.client.cluster import Cluster
from barnabas.client.options import admin_options
from barnabas.client.pool import Pool
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.network.asyncio_network import AsyncioNetwork
from barnabas.runtime.random import SeededRandom
from tests.client.live.work import until
from tests.client.scripted import TOPIC, ScriptedBroker, scripted

Run = Callable[[Any], Any]
QUICK = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "retry_backoff_max_ms": 20}
CANONICAL = "resolve_canonical_bootstrap_servers_only"


class FakeResolver:
    """Resolves only configured names."""

    def __init__(self, addresses: dict[str, list[str]], names: dict[str, list[str]] | None = None) -> None:
        self.known_addresses = addresses
        self.known_names = names or {}
        self.requests: list[str] = []

    async def addresses(self, host: str) -> list[str]:
        self.requests.append(host)
        if host not in self.known_addresses:
            raise OSError(f"{host} is not known")
        return self.known_addresses[host]

    async def canonical_names(self, host: str) -> list[str]:
        self.requests.append(host)
        if host not in self.known_names:
            raise OSError(f"{host} is not known")
        return self.known_names[host]


def opened(servers: Any, resolver: FakeResolver | None = None, **options: Any) -> Cluster:
    settings = admin_options(None, {"bootstrap_servers": servers, **QUICK, **options})
    random = SeededRandom(1)
    found = resolver or FakeResolver({"127.0.0.1": ["127.0.0.1"]})
    return Cluster(
        settings, random=random, resolver=found, pool=Pool(settings, AsyncioNetwork(found), random)
    )


def described(names: list[str], resolver: FakeResolver, lookup: str) -> Bootstrap:
    settings = admin_options(None, {"bootstrap_servers": names, "client_dns_lookup": lookup})
    return Bootstrap(settings, settings["bootstrap.servers"], resolver)


# client.dns.lookup ------------------------------------------------------------------------------------------


def test_canonical_names_become_servers_of_their_own(run: Run) -> None:
    """KIP-235: one name for many brokers, each of which must be called by its own."""

    async def work() -> None:
        resolver = FakeResolver({}, {"vip": ["a.example", "b.example"], "other": ["b.example"]})
        bootstrap = described(["vip:9092", "lost:9092", "other:9092"], resolver, CANONICAL)
        nodes = await bootstrap.nodes()
        assert [(node.id, node.host, node.port) for node in nodes] == [
            (-1, "a.example", 9092),
            (-2, "b.example", 9092),
        ]
        assert await bootstrap.nodes() is nodes, "resolved once"
        resolver.known_names["vip"] = ["c.example"]
        bootstrap.forget()
        assert [node.host for node in await bootstrap.nodes()] == ["c.example", "b.example"]

    run(work())


def test_names_stay_as_they_are_otherwise(run: Run) -> None:
    async def work() -> None:
        resolver = FakeResolver({}, {"vip": ["a.example"]})
        bootstrap = described(["vip:9092"], resolver, "use_all_dns_ips")
        assert [node.host for node in await bootstrap.nodes()] == ["vip"]
        bootstrap.forget()
        assert [node.host for node in await bootstrap.nodes()] == ["vip"]
        assert resolver.requests == []

    run(work())


def test_no_name_can_be_resolved(run: Run) -> None:
    async def work() -> None:
        bootstrap = described(["lost:9092"], FakeResolver({}), CANONICAL)
        with pytest.raises(client_errors.NoBrokersError, match="lost is not known"):
            await bootstrap.nodes()

    run(work())


def test_every_address_of_a_host_is_tried(run: Run) -> None:
    """The first address swallows everything: the whole time-out went to it, attempt after attempt."""

    async def work() -> None:
        async with scripted() as broker:
            # A listener with a full queue does not respond, like a host behind a firewall.
            with socket.socket() as deaf:
                deaf.bind(("127.0.0.2", broker.port))
                deaf.listen(0)
                fillers = [socket.socket() for _ in range(8)]
                for filler in fillers:
                    filler.setblocking(False)
                    filler.connect_ex(("127.0.0.2", broker.port))
                resolver = FakeResolver({"vip": ["127.0.0.2", "127.0.0.1"], "127.0.0.1": ["127.0.0.1"]})
                cluster = opened(
                    f"vip:{broker.port}",
                    resolver,
                    socket_connection_setup_timeout_ms=200,
                    socket_connection_setup_timeout_max_ms=200,
                )
                await cluster.update()
                assert list(cluster.metadata.brokers) == [1]
                await cluster.close()
                for filler in fillers:
                    filler.close()

    run(work())


# metadata.recovery.* ----------------------------------------------------------------------------------------


async def known_and_unknown(
    cluster: Cluster, *brokers: ScriptedBroker
) -> tuple[ScriptedBroker, ScriptedBroker]:
    """The one of two brokers, each a cluster of its own, that the client has found, and the other."""
    await cluster.update()
    (port,) = {node.port for node in cluster.metadata.brokers.values()}
    first, second = brokers
    return (first, second) if first.port == port else (second, first)


@pytest.mark.parametrize("strategy", ["none", "NONE"])
def test_without_recovery_the_bootstrap_servers_are_used_only_once(run: Run, strategy: str) -> None:
    """metadata.recovery.strategy was never read."""

    async def work() -> None:
        async with scripted() as first, scripted() as second:
            cluster = opened([first.bootstrap, second.bootstrap], metadata_recovery_strategy=strategy)
            known, other = await known_and_unknown(cluster, first, second)
            assert [node.port for node in await cluster.nodes()] == [known.port]
            connections = other.connections
            await known.stop()
            with pytest.raises(client_errors.RetriableError):
                await cluster.update()
            assert other.connections == connections
            await known.start()
            await cluster.retries.until(Deadline(60_000), "metadata", cluster.update)
            # REBOOTSTRAP_REQUIRED is ignored.
            refusal = MetadataResponse(brokers=[], topics=[], error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            known.once(MetadataRequest, lambda *_: refusal)
            with pytest.raises(client_errors.RebootstrapRequiredError):
                await cluster.update()
            assert [value.port for value in cluster.metadata.brokers.values()] == [known.port]
            await cluster.close()

    run(work())


def test_with_recovery_another_bootstrap_server_is_found(run: Run) -> None:
    async def work() -> None:
        async with scripted() as first, scripted() as second:
            cluster = opened([first.bootstrap, second.bootstrap])
            known, other = await known_and_unknown(cluster, first, second)
            await known.stop()
            await cluster.retries.until(Deadline(60_000), "metadata", cluster.update)
            assert [value.port for value in cluster.metadata.brokers.values()] == [other.port]
            await known.start()
            await cluster.close()

    run(work())


def test_a_broker_that_is_silent_for_too_long_is_left_for_the_bootstrap_servers(run: Run) -> None:
    """KIP-1102: it accepts connections and returns no metadata."""

    async def work() -> None:
        async with scripted() as first, scripted() as second:
            cluster = opened(
                [first.bootstrap, second.bootstrap],
                metadata_recovery_rebootstrap_trigger_ms=100,
                request_timeout_ms=600_000,
                default_api_timeout_ms=600_000,
            )
            known, other = await known_and_unknown(cluster, first, second)
            connection = await cluster.connection_to(1)
            known.handlers[MetadataRequest] = lambda *_: None
            # The bootstrap servers include the silent one: it must not be chosen again.
            known_port = known.port
            cluster.bootstrap = Bootstrap(
                cluster.settings, [other.bootstrap], FakeResolver({"127.0.0.1": ["127.0.0.1"]})
            )
            await cluster.update()
            assert [value.port for value in cluster.metadata.brokers.values()] == [other.port] != [known_port]
            await until(lambda: connection.is_closed)
            await cluster.close()

    run(work())


def test_a_broker_that_only_refuses_is_left_after_the_trigger(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            cluster = opened(broker.bootstrap, metadata_recovery_rebootstrap_trigger_ms=100)
            await cluster.update()
            refusal = MetadataResponse(brokers=[], topics=[], error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            usual = broker.handlers[MetadataRequest]
            broker.handlers[MetadataRequest] = lambda *asked: (
                refusal if cluster.metadata.brokers else usual(*asked)
            )
            with pytest.raises(client_errors.UnknownServerError):
                await cluster.update()

            async def has_metadata() -> bool:
                with contextlib.suppress(client_errors.UnknownServerError):
                    await cluster.update()
                    return True
                return False

            await until(has_metadata)
            assert TOPIC in cluster.metadata.topics
            await cluster.close()

    run(work())


def test_a_new_beginning_forgets_coordinators(run: Run) -> None:
    from barnabas.client.cluster import CoordinatorType
    from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest

    async def work() -> None:
        async with scripted() as broker:
            cluster = opened(broker.bootstrap)
            await cluster.update()
            await cluster.coordinator("g", CoordinatorType.GROUP)
            cluster.rebootstrap("a test wants it")
            assert cluster.metadata.is_expired
            await cluster.update()
            await cluster.coordinator("g", CoordinatorType.GROUP)
            assert broker.count(FindCoordinatorRequest) == 2
            await cluster.close()

    run(work())
