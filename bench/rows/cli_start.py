"""The time of a start: of a command (its help, a list of topics), and of a program that imports a client."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import topics
from bench.apache import APACHE, VERSION
from bench.registry import OURS, Contender, Workbench, row
from bench.servers import make_servers

TOPICS = 20
CACHE = Path(os.environ.get("BARNABAS_ORACLE_CACHE", Path.home() / ".cache" / "barnabas-oracle"))
# The options of kafka-topics.sh and kafka-run-class.sh.
AS_SHIPPED = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


@row(
    "cli-help",
    "barnabas --help",
    unit="ms",
    higher_is_better=False,
    own_goal=150,
    own_floor=300,
)
def cli_help(_bench: Workbench) -> Mapping[str, Contender]:
    return {
        OURS: partial(milliseconds, [sys.executable, "-m", "barnabas", "--help"]),
        "Python alone": partial(milliseconds, [sys.executable, "-c", "pass"]),
    }


IMPORTS = {
    OURS: "from barnabas.client import Consumer, Producer",
    "confluent-kafka": "from confluent_kafka import Consumer, Producer",
    "kafka-python": "from kafka import KafkaConsumer, KafkaProducer",
    "aiokafka": "from aiokafka import AIOKafkaConsumer, AIOKafkaProducer",
    "Python alone": "pass",
}


@row(
    "client-import",
    "A program imports a producer and a consumer, and ends",
    unit="ms",
    higher_is_better=False,
    goal=1,
    floor=2,
    against="kafka-python",
)
def client_import(_bench: Workbench) -> Mapping[str, Contender]:
    return {name: partial(milliseconds, [sys.executable, "-c", line]) for name, line in IMPORTS.items()}


@row(
    "cli-topics-list",
    f"topics --list, of {TOPICS} topics, beside the command of Apache Kafka's script",
    unit="ms",
    higher_is_better=False,
    goal=0.2,
    floor=0.5,
    against=APACHE,
)
def cli_topics_list(bench: Workbench) -> Mapping[str, Contender]:
    servers = make_servers(bench.scratch, bench.stack)
    contenders: dict[str, Contender] = {}
    for name, server in servers.items():
        server.start()
        for number in range(TOPICS):
            topics.create(server, f"topic-{number}", 1)
        host, port = server.address
        flags = ("--bootstrap-server", f"{host}:{port}", "--list")
        contenders[name] = partial(milliseconds, [*command(name), *flags])
    return contenders


def command(name: str) -> Sequence[str]:
    if name == OURS:
        return sys.executable, "-m", "barnabas", "topics"
    return "java", *AS_SHIPPED, "-cp", f"{CACHE / f'libs-{VERSION}'}/*", "org.apache.kafka.tools.TopicCommand"


def milliseconds(command: Sequence[str]) -> float:
    environment = dict(os.environ)
    # As on a user's machine, where the first start leaves compiled files.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.monotonic_ns()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, check=True)
    return (time.monotonic_ns() - start) / 1e6
