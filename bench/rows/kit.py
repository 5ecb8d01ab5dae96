"""The test kit: brokers in the process of a test, started and stopped, beside Apache Kafka and kfake.

kfake answers without disks, replication and controllers.

Also a fresh topic for each of 200 tests, and a cluster that goes back to a snapshot; three brokers of Apache
Kafka go back by SIGKILL, a copy of their folders, and a start.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.shared import Kafka
from barnabas.testing.kit.topics.topics import ElsewhereTopics, Topics
from bench import topics
from bench.apache import APACHE, ORACLE
from bench.clusters import CONTROLLERS, Node, apache_cluster
from bench.clusters import Cluster as Processes
from bench.kfake import kfake
from bench.registry import OURS, Contender, Workbench, row
from bench.rows.start import TOPIC, is_acknowledged
from bench.servers import HOUSEKEEPING, Server, make_servers

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
    contenders: dict[str, Contender] = {OURS: partial(start_and_stop, 3)}
    apache = of_apache(bench)
    if apache is not None:
        contenders[APACHE] = partial(start_and_stop_processes, apache)
    return {**contenders, **kfake(bench.scratch, bench.stack, lambda go: partial(go.start_and_stop, 3))}


def of_apache(bench: Workbench) -> Processes | None:
    """Three brokers of Apache Kafka and a controller, as the kit has, stopped; None without the oracle."""
    if not ORACLE.exists():
        return None
    home = bench.scratch / "apache"
    processes = apache_cluster(home, HOUSEKEEPING, apart=True, controllers=CONTROLLERS[:1])
    bench.stack.callback(processes.end)
    processes.start()
    with processes.connect() as connection:
        request = topics.create_request([TOPIC], 1)
        connection.ask(request, topics.CREATE_VERSION, CreateTopicsResponse)
    stop(processes)
    return processes


def stop(processes: Processes) -> None:
    """All brokers at once, and then the controller: they ask it whether they may stop."""
    with ThreadPoolExecutor() as pool:
        for nodes in (processes.brokers, processes.controllers):
            list(pool.map(Node.stop, nodes.values()))


def start_and_stop_processes(processes: Processes) -> dict[str, float]:
    began = time.perf_counter()
    processes.start()
    started = time.perf_counter()
    stop(processes)
    return {
        "start": MS_PER_S * (started - began),
        "stop": MS_PER_S * (time.perf_counter() - started),
    }


@ROW("test-kit-topics", f"{TESTS} tests with a fresh topic each", own_goal=5_000, own_floor=10_000)
def topics_of_tests(bench: Workbench) -> Mapping[str, Contender]:
    contenders: dict[str, Contender] = {OURS: partial(tests, bench.stack.enter_context(Cluster(1)))}
    apache = make_servers(bench.scratch, bench.stack).get(APACHE)
    if apache is not None:
        apache.start()
        elsewhere = ElsewhereTopics("{}:{}".format(*apache.address))
        bench.stack.callback(elsewhere.close_clients)
        contenders[APACHE] = partial(tests, elsewhere)
    return {**contenders, **kfake(bench.scratch, bench.stack, lambda go: go.topics)}


def tests(cluster: Topics) -> float:
    """With the kit's fixture, wherever the broker is."""
    began = time.perf_counter()
    for _ in range(TESTS):
        kafka = Kafka(cluster)
        kafka.topic("orders").send("a")
        kafka.clean()
    return MS_PER_S * (time.perf_counter() - began)


@ROW("test-kit-restore", "Three brokers go back to a snapshot", own_goal=300, own_floor=600)
def restore(bench: Workbench) -> Mapping[str, Contender]:
    cluster = bench.stack.enter_context(Cluster(3))
    cluster.topic("orders").send("a")
    snapshot = cluster.snapshot()

    def go_back() -> float:
        began = time.perf_counter()
        cluster.restore(snapshot)
        return MS_PER_S * (time.perf_counter() - began)

    apache = of_apache(bench)
    return {OURS: go_back} | ({APACHE: partial(go_back_by_copies, apache)} if apache is not None else {})


def go_back_by_copies(processes: Processes) -> float:
    """Once a copy is made, a running cluster gets its files again."""
    nodes = processes.nodes.values()
    if not processes.brokers[1].is_running:
        for node in nodes:
            shutil.copytree(node.data, node.home / "kept", dirs_exist_ok=True)
        processes.start()
    began = time.perf_counter()
    for node in nodes:
        node.kill()
        shutil.rmtree(node.data)
        shutil.copytree(node.home / "kept", node.data)
    processes.start()
    return MS_PER_S * (time.perf_counter() - began)
