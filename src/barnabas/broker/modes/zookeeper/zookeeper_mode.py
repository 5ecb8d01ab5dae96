"""Composes ZooKeeper mode: what `broker/server.py` gets instead of KRaft mode's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.broker.modes.metadata import OnFailure
from barnabas.broker.modes.zookeeper.zookeeper_lifecycle import ZooKeeperLifecycle
from barnabas.broker.modes.zookeeper.zookeeper_metadata import ZooKeeperMetadata
from barnabas.broker.modes.zookeeper.zookeeper_security import read_zookeeper_security
from barnabas.broker.peers.peer_connection import PeerSecurity
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.config.node.node import Node
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Network
from barnabas.runtime.network.web_call import java_property
from barnabas.runtime.random import Random
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions


class PostingLoop(Protocol):
    """A loop that takes actions of other threads."""

    @property
    def timers(self) -> TimerService: ...

    def post(self, action: Callable[[], None], /) -> None: ...


def real_client(node: Node, loop: PostingLoop, clock: Clock) -> ZooKeeperClient:
    settings = node.settings
    options = ZooKeeperOptions(
        connect=settings["zookeeper.connect"],
        session_timeout_ms=settings["zookeeper.session.timeout.ms"],
        connection_timeout_ms=settings["zookeeper.connection.timeout.ms"],
        max_in_flight=settings["zookeeper.max.in.flight.requests"],
        security=read_zookeeper_security(settings, java_property),
    )
    return KazooZooKeeperClient(options, post=loop.post, timers=loop.timers, clock=clock)


def zookeeper_mode(
    node: Node,
    client: ZooKeeperClient,
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
) -> tuple[ZooKeeperMetadata, ZooKeeperLifecycle]:
    """The metadata and the lifecycle of one broker, which know each other."""
    lifecycle = ZooKeeperLifecycle(node.settings, clock, timers)
    metadata = ZooKeeperMetadata(
        node,
        client,
        lifecycle,
        disk=disk,
        clock=clock,
        random=random,
        timers=timers,
        workers=workers,
        network=network,
        security=security,
        on_failure=on_failure,
        replicas=replicas,
    )
    return metadata, lifecycle
