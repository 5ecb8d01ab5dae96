"""Failover: the longest time without an acknowledged record, as golden/timelines was measured.

Three brokers and three controllers apart, six partitions with three replicas, min.insync.replicas=2; a
producer sends a record to each partition every 20 ms, acks=all.  The sessions are those of the defaults, 9 s.
The value is that of the worst partition.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

from confluent_kafka import KafkaError, Message

from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from bench import topics
from bench.apache import APACHE
from bench.cluster_load import ReplicatedLoad, create, is_whole, producer_of, wait_for
from bench.clusters import BROKERS, PATIENCE_S, Cluster, Node, make_clusters
from bench.registry import Contender, Workbench, row

TOPIC = "load"
LOAD = ReplicatedLoad(record_bytes=100)
EVERY_S = 0.02
# Before the event, and after all partitions take records again.
QUIET_S = 1.0
ELECT_VERSION = 2
CREATE_TIMEOUT_MS = 500


class Acknowledgements:
    """A producer in a thread, and the time of each acknowledgement by partition."""

    def __init__(self, cluster: Cluster) -> None:
        self.times: list[list[float]] = [[] for _ in range(LOAD.partitions)]
        self.error: KafkaError | None = None
        # When the last acknowledged record of each partition was sent.
        self._latest_sent = [0.0] * LOAD.partitions
        self._producer = producer_of(cluster, LOAD, {"linger.ms": 0})
        self._is_over = False
        self._thread = threading.Thread(target=self._send)

    def __enter__(self) -> Acknowledgements:
        self._thread.start()
        self.await_all(time.perf_counter())
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    def _send(self) -> None:
        due = time.perf_counter()
        while not self._is_over:
            for partition in range(LOAD.partitions):
                report = partial(self._report, partition, time.perf_counter())
                self._producer.produce(
                    TOPIC, b"x" * LOAD.record_bytes, partition=partition, on_delivery=report
                )
            due += EVERY_S
            while (left := due - time.perf_counter()) > 0:
                self._producer.poll(left)
        assert self._producer.flush(PATIENCE_S) == 0, "not everything was acknowledged"

    def _report(self, partition: int, sent: float, error: KafkaError | None, _: Message) -> None:
        self.error = self.error or error
        self.times[partition].append(time.perf_counter())
        self._latest_sent[partition] = sent

    def await_all(self, since: float) -> None:
        """Waits until every partition has acknowledged a record that was sent after this time."""
        wait_for(
            lambda: min(self._latest_sent) > since,
            "a partition takes no records",
        )

    def longest_gap(self, since: float) -> float:
        assert self.error is None, self.error
        gaps = []
        for times in self.times:
            seen = [one for one in times if one >= since]
            gaps += [later - earlier for earlier, later in pairwise(seen)]
        return max(gaps)


def run(cluster: Cluster, victim: Callable[[Any], Node], strike: Callable[[Node], None]) -> float:
    """The gap that the event leaves; afterwards all nodes run again."""
    restore(cluster)
    node = victim(cluster)
    with Acknowledgements(cluster) as acknowledged:
        time.sleep(QUIET_S)
        since = time.perf_counter() - QUIET_S / 2
        strike(node)
        # A record that was sent before the event may be acknowledged by the partition's old leader.
        acknowledged.await_all(time.perf_counter())
        time.sleep(QUIET_S)
    gap = acknowledged.longest_gap(since)
    node.launch()
    return gap


def restore(cluster: Cluster) -> None:
    """All replicas are in sync, and the preferred ones lead."""
    cluster.await_brokers(BROKERS)
    wait_for(cluster.is_caught_up, "a controller is behind")
    wait_for(lambda: is_whole(cluster, [TOPIC]), f"{TOPIC} is not in sync")
    with cluster.connect() as connection:
        response = connection.ask(
            ElectLeadersRequest(topic_partitions=None, timeout_ms=PATIENCE_S * 1000),
            ELECT_VERSION,
            ElectLeadersResponse,
        )
    assert not response.error_code, response
    wait_for(lambda: all(led_by(cluster, broker_id) for broker_id in BROKERS), "a broker leads nothing")


def led_by(cluster: Cluster, broker_id: int) -> int:
    [found] = cluster.metadata([TOPIC]).topics
    return sum(partition.leader_id == broker_id for partition in found.partitions)


def leader(cluster: Cluster) -> Node:
    """A broker that leads, and is not the active controller."""
    active = cluster.active_controller()
    return next(node for node in cluster.brokers.values() if node is not active and led_by(cluster, node.id))


def start(bench: Workbench, *, apart: bool) -> dict[str, Cluster]:
    def make() -> dict[str, Cluster]:
        clusters = make_clusters(bench.context.folder(), bench.context.stack, apart=apart)
        for cluster in clusters.values():
            create(cluster, [TOPIC], LOAD.partitions, {"min.insync.replicas": "2"})
        return clusters

    return bench.context.shared(("failover", apart), make)


def contenders(
    bench: Workbench, victim: Callable[[Cluster], Node], strike: Callable[[Node], None], *, apart: bool = True
) -> Mapping[str, Contender]:
    clusters = start(bench, apart=apart)
    return {name: partial(run, cluster, victim, strike) for name, cluster in clusters.items()}


ROW = partial(row, unit="s", higher_is_better=False, against=APACHE, warm_up=False)
KILLED = partial(ROW, goal=1.05, allowance=0.3)


@KILLED("failover-leader", "kill -9 of a leader, session 9 s: longest time without an acknowledged record")
def leader_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, leader, Node.kill)


@KILLED(
    "failover-controller", "kill -9 of the active controller: longest time without an acknowledged record"
)
def controller_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Cluster.active_controller, Node.kill)


@KILLED(
    "failover-combined",
    "kill -9 of the active controller that is a broker too: longest time without an acknowledged record",
)
def combined_killed(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, Cluster.active_controller, Node.kill, apart=False)


@ROW(
    "failover-graceful",
    "Graceful stop of a leader: longest time without an acknowledged record",
    goal=0.6,
)
def leader_stopped(bench: Workbench) -> Mapping[str, Contender]:
    return contenders(bench, leader, Node.stop)


# Topics meanwhile -------------------------------------------------------------------------------------------


class Creations:
    """Creates topics one after the other in a thread, through a broker; the time of each success."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.times: list[float] = []
        self._cluster = cluster
        self._prefix = prefix
        self._is_over = False
        self._thread = threading.Thread(target=self._create)

    def _create(self) -> None:
        number = 0
        with self._cluster.connect() as connection:
            while not self._is_over:
                request = topics.create_request([f"{self._prefix}-{number}"], 1)
                request.topics[0].replication_factor = 3
                request.timeout_ms = CREATE_TIMEOUT_MS
                response = connection.ask(request, topics.CREATE_VERSION, CreateTopicsResponse)
                if not response.topics[0].error_code:
                    self.times.append(time.perf_counter())
                number += 1
                time.sleep(EVERY_S)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over = True
            self._thread.join()

    def await_success(self, since: float) -> None:
        wait_for(lambda: bool(self.times) and self.times[-1] > since, "no topic can be created")


def run_creating(cluster: Cluster) -> float:
    cluster.await_brokers(BROKERS)
    wait_for(cluster.is_caught_up, "a controller is behind")
    node = cluster.active_controller()
    creations = Creations(cluster, f"made-{time.time_ns()}")
    with creations.running():
        creations.await_success(0)
        time.sleep(QUIET_S)
        since = time.perf_counter()
        node.kill()
        creations.await_success(time.perf_counter())
        time.sleep(QUIET_S)
    node.launch()
    times = [one for one in creations.times if one >= since - QUIET_S]
    return max(later - earlier for earlier, later in pairwise(times))


@KILLED("failover-creating", "kill -9 of the active controller: longest time without a created topic")
def controller_killed_while_creating(bench: Workbench) -> Mapping[str, Contender]:
    clusters = start(bench, apart=True)
    return {name: partial(run_creating, cluster) for name, cluster in clusters.items()}
