"""Runs the stall attack against a broker over real sockets, with a second client: part of `make fuzz`.

    python -m tools.stall [--sizes 100000 1000000] [--edges] [--only Metadata] [--address host:port]

For each API, version and kind of payload it measures how long the request took, how long a second client,
which sends ApiVersions requests all the time, waited at most, and how much memory the broker used.  It fails
if a client waited longer than MAX_WAIT_S or the broker used more than MAX_RSS_BYTES.  With `--kafka` the
worst attacks are also sent to a running Apache Kafka: no request may take much longer here than there.
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
# The second client's pause between two requests.
PROBE_PAUSE_S = 0.002
# The requirements of the broker.
MAX_WAIT_S = 0.5
MAX_RSS_BYTES = 300 << 20
WORST = 10
# Compared with Apache Kafka: the allowed factor, plus a constant.
TIMES_KAFKA = 2.0
GRACE_S = 0.1
PATIENCE_S = 300.0


@dataclass
class Outcome:
    """The effect of one attack."""

    attack: StallAttack
    took_s: float
    waited_s: float
    rss_bytes: int
    response: str
    kafka_s: float | None = None

    def __str__(self) -> str:
        kafka = "" if self.kafka_s is None else f"  Apache Kafka {self.kafka_s:7.3f} s"
        return (
            f"{self.took_s:8.3f} s  others {1000 * self.waited_s:7.0f} ms  {self.rss_bytes >> 20:5} MiB"
            f"{kafka}  {self.response:9}  {self.attack.name}"
        )


@dataclass
class Report:
    """The results of a campaign."""

    outcomes: list[Outcome] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def worst(self, key: Callable[[Outcome], float], count: int = WORST) -> list[Outcome]:
        return sorted(self.outcomes, key=key, reverse=True)[:count]

    def __str__(self) -> str:
        lines = [f"{len(self.outcomes)} stall attacks; the second client waited longest during"]
        lines += [f"  {outcome}" for outcome in self.worst(lambda outcome: outcome.waited_s)]
        lines.append("the longest attacks were")
        lines += [f"  {outcome}" for outcome in self.worst(lambda outcome: outcome.took_s)]
        lines += [f"fault: {fault}" for fault in self.faults]
        return "\n".join(lines)


def routes() -> list[Route]:
    """The routes of a broker's client listener."""
    node = read_node(settings(0, "data"))
    return list(routes_for(Mode.KRAFT, Role.INTER_BROKER, node.settings, Metrics()).values())


class SecondClient(threading.Thread):
    """Sends ApiVersions requests all the time and records the longest wait since the last `take`."""

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
        """The longest wait and the maximum memory since the last call."""
        taken = self._longest_s, self._rss
        self._longest_s, self._rss = 0.0, 0
        return taken

    def stop(self) -> None:
        self._done.set()
        self.join()


def prepare(address: tuple[str, int]) -> Existing:
    """Creates the topics and groups that attacks name."""
    names = [f"stall-{number}" for number in range(TOPICS)]
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    with RawConnection(address) as connection:
        connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 5, CreateTopicsResponse)
        requested = [MetadataRequest.Topic(name=name, topic_id=ZERO_UUID) for name in names]
        response = connection.ask(
            MetadataRequest(topics=requested, allow_auto_topic_creation=False), 12, MetadataResponse
        )
        for name in names[:GROUPS]:
            commit(connection, name)
    return Existing(names, [topic.topic_id for topic in response.topics], 1)


def commit(connection: RawConnection, name: str) -> None:
    """Commits an offset of the topic and group of this name; the coordinator may still be loading."""
    partition = OffsetCommitRequest.Partition(partition_index=0, committed_offset=0, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=name, member_id="", topics=[OffsetCommitRequest.Topic(name=name, partitions=[partition])]
    )
    until = time.monotonic() + COORDINATOR_PATIENCE_S
    while time.monotonic() < until:
        coordinator = connection.ask(
            FindCoordinatorRequest(coordinator_keys=[name]), 4, FindCoordinatorResponse
        )
        response = connection.ask(request, 8, OffsetCommitResponse)
        if not coordinator.coordinators[0].error_code and not response.topics[0].partitions[0].error_code:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the group {name} could not be created")


def strike(address: tuple[str, int], frame: bytes) -> tuple[float, str]:
    """Sends one attack; returns its duration and outcome."""
    with RawConnection(address, PATIENCE_S) as connection:
        began = time.monotonic()
        try:
            connection.send(frame)
            response = connection.frame()
        except ConnectionError:
            response = None
        except TimeoutError:
            return time.monotonic() - began, "no answer"
        took_s = time.monotonic() - began
    return took_s, "closed" if response is None else f"{len(response) // 1000} kB"


class StallCampaign:
    """A campaign against one broker."""

    def __init__(
        self, address: tuple[str, int], rss_bytes: Callable[[], int], chosen: Iterable[StallAttack]
    ) -> None:
        self._address = address
        self._chosen = chosen
        self._second = SecondClient(address, rss_bytes)
        self._is_warm: set[tuple[str, int]] = set()

    def run(self, report_line: Callable[[str], None] = lambda line: None) -> Report:
        report = Report()
        existing = prepare(self._address)
        self._second.start()
        for attack in self._chosen:
            outcome = self._strike(attack, existing)
            report.outcomes.append(outcome)
            report_line(str(outcome))
            self._check(outcome, report)
            if self._second.fault is not None:
                report.faults.append(self._second.fault)
                break
        self._second.stop()
        return report

    def _strike(self, attack: StallAttack, existing: Existing) -> Outcome:
        frame = attack.frame(existing)
        self._second.take()
        took_s, response = strike(self._address, frame)
        # Wait for one more response to the second client.
        time.sleep(2 * PROBE_PAUSE_S)
        waited_s, rss = self._second.take()
        return Outcome(attack, took_s, max(waited_s, 0.0), rss, response)

    @staticmethod
    def _check(outcome: Outcome, report: Report) -> None:
        if outcome.waited_s > MAX_WAIT_S:
            report.faults.append(f"others waited {outcome.waited_s:.2f} s: {outcome.attack.name}")
        if outcome.rss_bytes > MAX_RSS_BYTES:
            report.faults.append(f"{outcome.rss_bytes >> 20} MiB: {outcome.attack.name}")
        if outcome.response == "no answer":
            report.faults.append(f"no answer: {outcome.attack.name}")


def compare(report: Report, kafka: tuple[str, int]) -> None:
    """Sends the worst attacks to Apache Kafka too; the second time counts, when its code is compiled."""
    existing = prepare(kafka)
    for outcome in report.worst(lambda outcome: outcome.took_s):
        frame = outcome.attack.frame(existing)
        strike(kafka, frame)
        outcome.kafka_s = strike(kafka, frame)[0]
        if outcome.took_s > TIMES_KAFKA * outcome.kafka_s + GRACE_S:
            report.faults.append(
                f"{outcome.took_s:.2f} s, Apache Kafka {outcome.kafka_s:.2f} s: {outcome.attack.name}"
            )


def campaign(
    chosen: Iterable[StallAttack], kafka: tuple[str, int] | None, report_line: Callable[[str], None]
) -> Report:
    """Runs against a new broker in a separate process."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-stall-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        report = StallCampaign(broker.address, lambda: broker.rss_bytes, chosen).run(report_line)
        report.faults += broker.faults
        if kafka is not None:
            compare(report, kafka)
    return report


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stall", description="Run the stall attack.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sizes of requests in bytes")
    parser.add_argument("--edges", action="store_true", help="only the lowest and highest version of an API")
    parser.add_argument("--only", nargs="+", help="names of APIs")
    parser.add_argument(
        "--address", type=_address, help="address of a running broker to attack instead of a new one"
    )
    parser.add_argument(
        "--kafka", type=_address, help="address of an Apache Kafka to compare the worst attacks with"
    )
    options = parser.parse_args(arguments)
    served = [route for route in routes() if not options.only or route.api.name in options.only]
    chosen = attacks(served, options.sizes, every_version=not options.edges)

    def report_line(line: str) -> None:
        print(line, flush=True)

    if options.address is not None:
        report = StallCampaign(options.address, lambda: 0, chosen).run(report_line)
    else:
        report = campaign(chosen, options.kafka, report_line)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
