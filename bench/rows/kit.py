"""The test kit: brokers in the process of a test, started and stopped, beside Apache Kafka and kfake.

kfake answers without disks, replication and controllers.

Also a fresh topic for each of 200 tests, and a cluster that goes back to a snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.shared import Kafka
from bench import topics
from bench.apache import APACHE
from bench.kfake import kfake
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.start import TOPIC, is_acknowledged
from bench.servers import Server, make_servers

TESTS = 200
MS_PER_S = 1_000
PATIENCE_S = 60
RETRY_S = 0.002

ROW = partial(row, unit="ms", higher_is_better=False)


def start_and_stop(brokers: int) -> dict[str, float]:
    """The modules are imported already, as in all but the first test of a session."""
    cluster = Cluster(brokers)
    began = time.perf_counter()
    cluster.start()
    started = time.perf_counter()
    cluster.stop()
    return {
        "start": MS_PER_S * (started - began),
        "stop": MS_PER_S * (time.perf_counter() - started),
    }


def start_and_stop_process(server: Server) -> dict[str, float]:
    began = time.perf_counter()
    server.launch()
    while not is_acknowledged(server):
        assert time.perf_counter() - began < PATIENCE_S, "the broker does not respond"
        time.sleep(RETRY_S)
    started = time.perf_counter()
    server.stop()
    return {
        "start": MS_PER_S * (started - began),
        "stop": MS_PER_S * (time.perf_counter() - started),
    }


@ROW("test-kit-start", "A broker for a test", own_goal=100, own_floor=300, value="start")
@ROW("test-kit-stop", "and its end", own_goal=50, own_floor=150, value="stop")
def one_broker(bench: Workbench) -> Mapping[str, Contender]:
    apache = make_servers(bench.scratch, bench.stack).get(APACHE)
    contenders: dict[str, Contender] = {OURS: partial(start_and_stop, 1)}
    if apache is not None:
        # Its folder is made, as that of the kit is by each start.
        apache.start()
        topics.create(apache, TOPIC, 1)
        apache.stop()
        contenders[APACHE] = partial(start_and_stop_process, apache)
    start_and_stop(1)
    return {**contenders, **kfake(bench.scratch, bench.stack, lambda go: partial(go.start_and_stop, 1))}


@ROW("test-kit-start-3", "Three brokers for a test", own_goal=300, own_floor=600, value="start")
@ROW("test-kit-stop-3", "and their end", own_goal=50, own_floor=150, value="stop")
def three_brokers(bench: Workbench) -> Mapping[str, Contender]:
    start_and_stop(3)
    beside = kfake(bench.scratch, bench.stack, lambda go: partial(go.start_and_stop, 3))
    return {OURS: partial(start_and_stop, 3), **beside}


@ROW("test-kit-topics", f"{TESTS} tests with a fresh topic each", own_goal=5_000, own_floor=10_000)
def topics_of_tests(bench: Workbench) -> Mapping[str, Contender]:
    cluster = bench.stack.enter_context(Cluster(1))

    def tests() -> float:
        began = time.perf_counter()
        for _ in range(TESTS):
            kafka = Kafka(cluster)
            kafka.topic("orders").send("a")
            kafka.clean()
        return MS_PER_S * (time.perf_counter() - began)

    return {OURS: tests, **kfake(bench.scratch, bench.stack, lambda go: go.topics)}


@ROW("test-kit-restore", "Three brokers go back to a snapshot", own_goal=300, own_floor=600)
def restore(bench: Workbench) -> Mapping[str, Contender]:
    cluster = bench.stack.enter_context(Cluster(3))
    cluster.topic("orders").send("a")
    snapshot = cluster.snapshot()

    def go_back() -> float:
        began = time.perf_counter()
        cluster.restore(snapshot)
        return MS_PER_S * (time.perf_counter() - began)

    return {OURS: go_back}
