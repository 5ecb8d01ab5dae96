"""The client compared with others, each in a separate process, on one broker."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial

from bench import topics
from bench.apache import ORACLE, PROJECT, VERSION
from bench.client_load import BATCH_BYTES, BUFFER_BYTES, LINGER_MS
from bench.registry import OURS, Contender, RunContext, Workbench, row
from bench.servers import Server
from bench.shared import shared_servers

CONFLUENT, KAFKA_PYTHON, AIOKAFKA = "confluent-kafka", "kafka-python", "aiokafka"
JAVA = f"Apache Kafka {VERSION}, perf tool"
TIMEOUT_S = 300
SMALL, MEDIUM = 100, 1024
# Records per round: slower clients get fewer, because a rate is measured.
COUNTS = {
    SMALL: {OURS: 600_000, CONFLUENT: 600_000, KAFKA_PYTHON: 60_000, AIOKAFKA: 60_000, JAVA: 1_000_000},
    MEDIUM: {OURS: 200_000, CONFLUENT: 200_000, KAFKA_PYTHON: 40_000, AIOKAFKA: 40_000, JAVA: 300_000},
}
PACED_COUNT = 3_000
_PERF_RATE = re.compile(r"([\d.]+) records/sec")


def work(server: Server, client: str, action: str, topic: str, size: int, count: int) -> dict[str, float]:
    host, port = server.address
    arguments = [client, action, f"{host}:{port}", topic, str(size), str(count)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.client_load", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{client} could not {action}: {done.stderr[-3000:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def produce(server: Server, client: str, size: int) -> dict[str, float]:
    count = COUNTS[size][client]
    with topics.topic(server, 1) as topic:
        if client == JAVA:
            measured = java_produce(server, topic, size, count)
        else:
            measured = work(server, client, "produce", topic, size, count)
            # One more record opened the connection; nothing is lost or duplicated.
            assert topics.end_offsets(server, topic, 1) == [count + 1]
    return measured


def java_produce(server: Server, topic: str, size: int, count: int) -> dict[str, float]:
    host, port = server.address
    options = [
        f"bootstrap.servers={host}:{port}",
        f"batch.size={BATCH_BYTES}",
        f"linger.ms={LINGER_MS}",
        f"buffer.memory={BUFFER_BYTES}",
    ]
    arguments = [
        "--topic",
        topic,
        "--num-records",
        str(count),
        "--record-size",
        str(size),
        "--throughput",
        "-1",
    ]
    shown, cpu = tool("producer-perf-test", *arguments, "--producer-props", *options)
    return {"records": float(_PERF_RATE.findall(shown)[-1]), "cpu": cpu / count * 1e6}


def java_consume(server: Server, topic: str, size: int, count: int) -> dict[str, float]:
    host, port = server.address
    arguments = ["--bootstrap-server", f"{host}:{port}", "--topic", topic, "--messages", str(count)]
    shown, cpu = tool("consumer-perf-test", *arguments, "--timeout", "60000")
    lines = [line.split(", ") for line in shown.splitlines() if "," in line]
    figures = dict(zip(lines[0], lines[-1], strict=True))
    # Without the time of the group's rebalance.
    return {"records": float(figures["fetch.nMsg.sec"]), "cpu": cpu / count * 1e6}


def tool(name: str, *words: str) -> tuple[str, float]:
    """The output, and the CPU seconds, including the start of the JVM."""
    command = [str(ORACLE), "-k", VERSION, "tool", name, *words]
    before = children_cpu_seconds()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} failed: {done.stdout[-1000:]}{done.stderr[-3000:]}")
    return done.stdout, children_cpu_seconds() - before


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def filled(context: RunContext, server: Server, size: int) -> str:
    """A topic to read from, created once."""

    def make() -> str:
        topic = f"client-bench-{size}"
        topics.create(server, topic, 1)
        most = max(COUNTS[size].values()) + 10_000
        work(server, OURS, "fill", topic, size, most)
        return topic

    return context.shared(("client-topic", size), make)


def consume(server: Server, topic: str, client: str, size: int) -> dict[str, float]:
    count = COUNTS[size][client]
    if client == JAVA:
        return java_consume(server, topic, size, count)
    return work(server, client, "consume", topic, size, count)


def producers(bench: Workbench, size: int) -> Mapping[str, Contender]:
    server = shared_servers(bench.context)[OURS]
    return {client: partial(produce, server, client, size) for client in clients()}


def consumers(bench: Workbench, size: int) -> Mapping[str, Contender]:
    server = shared_servers(bench.context)[OURS]
    topic = filled(bench.context, server, size)
    return {client: partial(consume, server, topic, client, size) for client in clients()}


def clients() -> list[str]:
    names = [OURS, CONFLUENT, KAFKA_PYTHON, AIOKAFKA]
    return [*names, JAVA] if ORACLE.exists() else names


def rows(name: str, title: str) -> Callable[..., Callable[[Workbench], Mapping[str, Contender]]]:
    """The rows of one measurement: against each other client, and the cost."""

    def register(
        measure: Callable[[Workbench], Mapping[str, Contender]],
    ) -> Callable[[Workbench], Mapping[str, Contender]]:
        common = {"unit": "records/s", "value": "records", "rounds": 3}
        row(name, title, goal=5, floor=3, against=AIOKAFKA, **common)(measure)
        row(f"{name}-kafka-python", title, goal=5, floor=3, against=KAFKA_PYTHON, **common)(measure)
        row(f"{name}-librdkafka", title, goal=0.5, floor=0.3, against=CONFLUENT, **common)(measure)
        row(
            f"{name}-cpu",
            f"{title}: processor time of the client for a million records",
            unit="s",
            value="cpu",
            rounds=3,
            higher_is_better=False,
        )(measure)
        return measure

    return register


@rows("client-produce-100b", "A client sends records of 100 B, one by one")
def produce_small(bench: Workbench) -> Mapping[str, Contender]:
    return producers(bench, SMALL)


@rows("client-produce-1k", "A client sends records of 1 KiB, one by one")
def produce_medium(bench: Workbench) -> Mapping[str, Contender]:
    return producers(bench, MEDIUM)


@rows("client-consume-100b", "A client reads records of 100 B, one by one")
def consume_small(bench: Workbench) -> Mapping[str, Contender]:
    return consumers(bench, SMALL)


@rows("client-consume-1k", "A client reads records of 1 KiB, one by one")
def consume_medium(bench: Workbench) -> Mapping[str, Contender]:
    return consumers(bench, MEDIUM)


def arrow(bench: Workbench, size: int) -> Mapping[str, Contender]:
    server = shared_servers(bench.context)[OURS]
    topic = filled(bench.context, server, size)
    count = COUNTS[size][OURS]
    return {
        OURS: partial(work, server, OURS, "arrow", topic, size, count),
        CONFLUENT: partial(work, server, CONFLUENT, "consume", topic, size, count),
    }


@row(
    "client-arrow-100b",
    "A client reads records of 100 B as Arrow batches, librdkafka as messages",
    unit="records/s",
    goal=1.0,
    floor=0.7,
    against=CONFLUENT,
    value="records",
)
def arrow_small(bench: Workbench) -> Mapping[str, Contender]:
    return arrow(bench, SMALL)


@row(
    "client-arrow-1k",
    "A client reads records of 1 KiB as Arrow batches, librdkafka as messages",
    unit="records/s",
    goal=1.0,
    floor=0.7,
    against=CONFLUENT,
    value="records",
    why="At 1 KiB it is bytes that cost, not records.  Ours are copied three times, out of the kernel, out "
    "of the memory that answers are received in, and into Arrow's, by the one thread that also talks to the "
    "broker; librdkafka receives on a thread of its own, on the second core, and gives out what it got. "
    "Memory that is new to the kernel cost more than all the copies, so what is received is kept in memory "
    "that is used again.",
)
def arrow_medium(bench: Workbench) -> Mapping[str, Contender]:
    return arrow(bench, MEDIUM)


@row(
    "client-produce-p99",
    "From send() to the answer at 1,000 records of 100 B a second, 99th percentile",
    unit="ms",
    higher_is_better=False,
    value="p99",
    rounds=3,
)
def produce_paced(bench: Workbench) -> Mapping[str, Contender]:
    server = shared_servers(bench.context)[OURS]
    return {client: partial(paced, server, client) for client in (OURS, CONFLUENT, AIOKAFKA)}


def paced(server: Server, client: str) -> dict[str, float]:
    with topics.topic(server, 1) as topic:
        return work(server, client, "paced", topic, SMALL, PACED_COUNT)
