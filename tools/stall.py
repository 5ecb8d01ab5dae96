"""Run the stall attack against a broker over real sockets, while a second client asks: part of `make fuzz`.

    python -m tools.stall [--sizes 100000 1000000] [--edges] [--only Metadata] [--address host:port]

For each API, version and kind of filling it measures how long the request took, how long a second client,
which asks for ApiVersions all the time, waited at most, and how much memory the broker had.  It fails if
somebody waited longer than MAX_WAIT_S or the broker had more than MAX_RSS_BYTES.  With `--kafka` the worst
are also sent to Apache Kafka (the address of a running one): no request may take much longer here than there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.base.ids import ZERO_UUID
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.cli.server.dev import settings
from barnabas.config.node.node import read_node
from barnabas.config.option import Mode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.testing.hostile.stall_attack import Existing, StallAttack, attacks
from tools.raw_broker import BrokerProcess, RawConnection

SIZES = (100_000, 1_000_000)
TOPICS = 200
GROUPS = 50
COORDINATOR_PATIENCE_S = 60.0
# The second client's pause between two questions.
PROBE_PAUSE_S = 0.002
# What is asked of the broker.
MAX_WAIT_S = 0.5
MAX_RSS_BYTES = 300 << 20
WORST = 10
# Against Apache Kafka: no attack takes longer than this many times its time, and a little.
TIMES_KAFKA = 2.0
GRACE_S = 0.1
PATIENCE_S = 300.0


@dataclass
class Outcome:
    """What one attack did."""

    attack: StallAttack
    took_s: float
    waited_s: float
    rss_bytes: int
    answer: str
    kafka_s: float | None = None

    def __str__(self) -> str:
        kafka = "" if self.kafka_s is None else f"  Apache Kafka {self.kafka_s:7.3f} s"
        return (
            f"{self.took_s:8.3f} s  others {1000 * self.waited_s:7.0f} ms  {self.rss_bytes >> 20:5} MiB"
            f"{kafka}  {self.answer:9}  {self.attack.name}"
        )


@dataclass
class Report:
    """How it went."""

    outcomes: list[Outcome] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def worst(self, key: Callable[[Outcome], float], count: int = WORST) -> list[Outcome]:
        return sorted(self.outcomes, key=key, reverse=True)[:count]

    def __str__(self) -> str:
        lines = [f"{len(self.outcomes)} stall attacks; the second client waited longest during"]
        lines += [f"  {one}" for one in self.worst(lambda one: one.waited_s)]
        lines.append("the longest attacks were")
        lines += [f"  {one}" for one in self.worst(lambda one: one.took_s)]
        lines += [f"fault: {fault}" for fault in self.faults]
        return "\n".join(lines)


def routes() -> list[Route]:
    """What a broker's listener for clients serves."""
    node = read_node(settings(0, "data"))
    return list(routes_for(Mode.KRAFT, Role.INTER_BROKER, node.settings, Metrics()).values())


class SecondClient(threading.Thread):
    """Asks for ApiVersions all the time and keeps the longest wait since it was last asked for it."""

    def __init__(self, address: tuple[str, int], rss_bytes: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._address = address
        self._rss_bytes = rss_bytes
        self._done = threading.Event()
        self._longest_s = 0.0
        self._rss = 0
        self.fault: str | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._address, PATIENCE_S) as connection:
                while not self._done.wait(PROBE_PAUSE_S):
                    began = time.monotonic()
                    connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
                    self._longest_s = max(self._longest_s, time.monotonic() - began)
                    self._rss = max(self._rss, self._rss_bytes())
        except Exception as error:
            self.fault = f"the second client was not served: {error!r}"

    def take(self) -> tuple[float, int]:
        """The longest wait and the most memory since the last call."""
        taken = self._longest_s, self._rss
        self._longest_s, self._rss = 0.0, 0
        return taken

    def stop(self) -> None:
        self._done.set()
        self.join()


def prepare(address: tuple[str, int]) -> Existing:
    """Make the topics that attacks name."""
    names = [f"stall-{number}" for number in range(TOPICS)]
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    with RawConnection(address) as connection:
        connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5, CreateTopicsResponse)
        asked = [MetadataRequest.Topic(name=name, topic_id=ZERO_UUID) for name in names]
        answer = connection.ask(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12, MetadataResponse
        )
        for name in names[:GROUPS]:
            commit(connection, name)
    return Existing(names, [topic.topic_id for topic in answer.topics], 1)


def commit(connection: RawConnection, name: str) -> None:
    """Make a group of this name, which has read the topic of this name; its coordinator may have to load."""
    partition = OffsetCommitRequest.Partition(partition_index=0, committed_offset=0, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=name, member_id="", topics=[OffsetCommitRequest.Topic(name=name, partitions=[partition])]
    )
    until = time.monotonic() + COORDINATOR_PATIENCE_S
    while time.monotonic() < until:
        found = connection.ask(FindCoordinatorRequest(coordinator_keys=[name]), 4, FindCoordinatorResponse)
        answer = connection.ask(request, 8, OffsetCommitResponse)
        if not found.coordinators[0].error_code and not answer.topics[0].partitions[0].error_code:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the group {name} could not be made")


def strike(address: tuple[str, int], frame: bytes) -> tuple[float, str]:
    """Send one attack; how long it took and what came of it."""
    with RawConnection(address, PATIENCE_S) as connection:
        began = time.monotonic()
        try:
            connection.send(frame)
            answer = connection.frame()
        except ConnectionError:
            answer = None
        except TimeoutError:
            return time.monotonic() - began, "no answer"
        took_s = time.monotonic() - began
    return took_s, "closed" if answer is None else f"{len(answer) // 1000} kB"


class StallCampaign:
    """One broker under attack."""

    def __init__(
        self, address: tuple[str, int], rss_bytes: Callable[[], int], chosen: Iterable[StallAttack]
    ) -> None:
        self._address = address
        self._chosen = chosen
        self._second = SecondClient(address, rss_bytes)
        self._is_warm: set[tuple[str, int]] = set()

    def run(self, tell: Callable[[str], None] = lambda line: None) -> Report:
        report = Report()
        existing = prepare(self._address)
        self._second.start()
        for attack in self._chosen:
            outcome = self._strike(attack, existing)
            report.outcomes.append(outcome)
            tell(str(outcome))
            self._judge(outcome, report)
            if self._second.fault is not None:
                report.faults.append(self._second.fault)
                break
        self._second.stop()
        return report

    def _strike(self, attack: StallAttack, existing: Existing) -> Outcome:
        frame = attack.frame(existing)
        self._second.take()
        took_s, answer = strike(self._address, frame)
        # One more question has been answered by then.
        time.sleep(2 * PROBE_PAUSE_S)
        waited_s, rss = self._second.take()
        return Outcome(attack, took_s, max(waited_s, 0.0), rss, answer)

    @staticmethod
    def _judge(outcome: Outcome, report: Report) -> None:
        if outcome.waited_s > MAX_WAIT_S:
            report.faults.append(f"others waited {outcome.waited_s:.2f} s: {outcome.attack.name}")
        if outcome.rss_bytes > MAX_RSS_BYTES:
            report.faults.append(f"{outcome.rss_bytes >> 20} MiB: {outcome.attack.name}")
        if outcome.answer == "no answer":
            report.faults.append(f"no answer: {outcome.attack.name}")


def compare(report: Report, kafka: tuple[str, int]) -> None:
    """Send the worst to Apache Kafka too; the second time counts there, when its code is compiled."""
    existing = prepare(kafka)
    for outcome in report.worst(lambda one: one.took_s):
        frame = outcome.attack.frame(existing)
        strike(kafka, frame)
        outcome.kafka_s = strike(kafka, frame)[0]
        if outcome.took_s > TIMES_KAFKA * outcome.kafka_s + GRACE_S:
            report.faults.append(
                f"{outcome.took_s:.2f} s, Apache Kafka {outcome.kafka_s:.2f} s: {outcome.attack.name}"
            )


def campaign(
    chosen: Iterable[StallAttack], kafka: tuple[str, int] | None, tell: Callable[[str], None]
) -> Report:
    """Against a broker of our own in a process of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-stall-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        report = StallCampaign(broker.address, lambda: broker.rss_bytes, chosen).run(tell)
        report.faults += broker.faults
        if kafka is not None:
            compare(report, kafka)
    return report


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stall", description="Run the stall attack.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of requests, in bytes")
    parser.add_argument("--edges", action="store_true", help="only the lowest and highest version of an API")
    parser.add_argument("--only", nargs="+", help="names of APIs")
    parser.add_argument("--address", type=_address, help="of a running broker to attack instead of our own")
    parser.add_argument("--kafka", type=_address, help="of an Apache Kafka to hold the worst against")
    options = parser.parse_args(arguments)
    served = [one for one in routes() if not options.only or one.api.name in options.only]
    chosen = attacks(served, options.sizes, every_version=not options.edges)

    def tell(line: str) -> None:
        print(line, flush=True)

    if options.address is not None:
        report = StallCampaign(options.address, lambda: 0, chosen).run(tell)
    else:
        report = campaign(chosen, options.kafka, tell)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
