"""Runs the stall attack against a broker over real sockets, with a second client: part of `make fuzz`.

    python -m tools.stall [--kafka] [--sizes 100000 1000000] [--edges] [--only Metadata]

For each API, version and kind of payload it measures how long the request took, how long a second client,
which sends ApiVersions requests all the time, waited at most, and how much memory the broker used.  With
`--kafka` it starts Apache Kafka by the oracle (`BARNABAS_ORACLE`) afterwards and sends it the slowest attacks
too: no request may take much longer here than there.  It fails if a limit is broken (tools/stall_record.py).

An interrupted run (Ctrl+C, or SIGTERM as from `timeout`) is resumed as long as the commit is the same.  A run
of all APIs with `--kafka` writes docs/stall.md.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from barnabas.base.ids import ZERO_UUID
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.cli.framework.exits import Exit
from barnabas.cli.server.dev import settings
from barnabas.config.node.node import read_node
from barnabas.config.option import Mode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.testing.hostile.stall_attack import Existing, StallAttack, attacks
from bench.apache import APACHE, ApacheServer
from tools.raw_broker import BrokerProcess, RawConnection
from tools.stall_record import NO_ANSWER, PAGE, PROGRESS, Outcome, Progress, Report, commit, page

SIZES = (100_000, 1_000_000)
TOPICS = 200
GROUPS = 50
COORDINATOR_PATIENCE_S = 60.0
# The second client's pause between two requests.
PROBE_PAUSE_S = 0.002
PATIENCE_S = 300.0
# Compared requests are sent this often to each broker, and before that to warm up: Apache Kafka's code is
# compiled while it runs.
ROUNDS = 5
WARM_UP_ROUNDS = 5
# Apache Kafka does not answer some requests at all.
KAFKA_PATIENCE_S = 30.0
# Requests that Apache Kafka is slow at are sent less often: until they took this long together, but twice.
KAFKA_BUDGET_S = 15.0
# An attack may keep Apache Kafka busy after its response: the next one waits until it uses less than this
# share of a core, and it is restarted if it does not.
IDLE_SHARE = 0.3
IDLE_CHECK_S = 0.5
IDLE_PATIENCE_S = 30.0


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
            commit_offset(connection, name)
    return Existing(names, [topic.topic_id for topic in response.topics], 1)


def commit_offset(connection: RawConnection, name: str) -> None:
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


def strike(address: tuple[str, int], frame: bytes, patience_s: float = PATIENCE_S) -> tuple[float, str]:
    """Sends one attack; returns its duration and outcome."""
    with RawConnection(address, patience_s) as connection:
        began = time.monotonic()
        try:
            connection.send(frame)
            response = connection.frame()
        except ConnectionError:
            response = None
        except TimeoutError:
            return time.monotonic() - began, NO_ANSWER
        took_s = time.monotonic() - began
    return took_s, "closed" if response is None else f"{len(response) // 1000} kB"


class StallCampaign:
    """A campaign against one broker."""

    def __init__(self, broker: BrokerProcess, progress: Progress) -> None:
        self._broker = broker
        self._progress = progress
        self._existing = Existing()

    def run(self, chosen: Sequence[StallAttack], report_line: Callable[[str], None]) -> Report:
        """Sends all attacks that have no outcome yet."""
        self._existing = prepare(self._broker.address)
        known = self._progress.load()
        report = Report([known[attack.name] for attack in chosen if attack.name in known])
        self._progress.start(report.outcomes)
        second = SecondClient(self._broker.address, lambda: self._broker.rss_bytes)
        second.start()
        for attack in chosen:
            if attack.name in known:
                continue
            outcome = self._strike(attack, second)
            report.outcomes.append(outcome)
            self._progress.add(outcome)
            report_line(str(outcome))
            if second.fault is not None:
                report.other_faults.append(second.fault)
                break
        second.stop()
        return report

    def median(self, attack: StallAttack) -> float:
        """How long the attack takes, without a second client."""
        frame = attack.frame(self._existing)
        return statistics.median(strike(self._broker.address, frame)[0] for _ in range(ROUNDS))

    def _strike(self, attack: StallAttack, second: SecondClient) -> Outcome:
        frame = attack.frame(self._existing)
        second.take()
        took_s, response = strike(self._broker.address, frame)
        # Wait for one more response to the second client.
        time.sleep(2 * PROBE_PAUSE_S)
        waited_s, rss = second.take()
        return Outcome(attack.name, attack.route.api.name, took_s, waited_s, rss, response)


class ApacheKafka:
    """Apache Kafka as it is shipped, on this machine."""

    def __init__(self, folder: Path) -> None:
        self._server = ApacheServer(folder, {})
        self._existing = Existing()

    def __enter__(self) -> ApacheKafka:
        try:
            self._server.start()
            self._existing = prepare(self._server.address)
        except BaseException:
            self._server.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._server.end()

    def median(self, attack: StallAttack) -> tuple[float, str]:
        """How long the attack takes once the code is compiled, and its outcome."""
        frame = attack.frame(self._existing)
        times: list[float] = []
        response = ""
        for _ in range(WARM_UP_ROUNDS + ROUNDS):
            self._await_idle()
            took_s, response = strike(self._server.address, frame, KAFKA_PATIENCE_S)
            times.append(took_s)
            if response == NO_ANSWER:
                self._restart()
                return took_s, response
            if sum(times) > KAFKA_BUDGET_S and len(times) > 1:
                break
        # The later half, at most ROUNDS.
        return statistics.median(times[len(times) // 2 :]), response

    def _await_idle(self) -> None:
        until = time.monotonic() + IDLE_PATIENCE_S
        while time.monotonic() < until:
            before_s = self._server.cpu_seconds
            time.sleep(IDLE_CHECK_S)
            if self._server.cpu_seconds - before_s < IDLE_SHARE * IDLE_CHECK_S:
                return
        self._restart()

    def _restart(self) -> None:
        self._server.kill()
        self._server.start()
        self._existing = prepare(self._server.address)


def compare(
    report: Report,
    chosen: Sequence[StallAttack],
    ours: StallCampaign,
    kafka: ApacheKafka,
    progress: Progress,
    report_line: Callable[[str], None],
) -> None:
    """Sends the slowest attacks to both brokers again, several times."""
    by_name = {attack.name: attack for attack in chosen}
    while (outcome := report.next_to_compare()) is not None:
        attack = by_name[outcome.name]
        kafka_s, kafka_response = kafka.median(attack)
        compared = replace(
            outcome, took_s=ours.median(attack), kafka_s=kafka_s, kafka_response=kafka_response
        )
        report.outcomes[report.outcomes.index(outcome)] = compared
        progress.add(compared)
        report_line(str(compared))


def campaign(
    chosen: Sequence[StallAttack],
    progress: Progress,
    report_line: Callable[[str], None],
    *,
    with_kafka: bool,
) -> Report:
    """Runs against a new broker in a separate process, and compares it with Apache Kafka."""
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-stall-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        ours = StallCampaign(broker, progress)
        report = ours.run(chosen, report_line)
        if with_kafka:
            with ApacheKafka(Path(folder) / "kafka") as kafka:
                compare(report, chosen, ours, kafka, progress, report_line)
        report.other_faults += broker.faults
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.stall", description="Run the stall attack.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sizes of requests in bytes")
    parser.add_argument("--edges", action="store_true", help="only the lowest and highest version of an API")
    parser.add_argument("--only", nargs="+", help="names of APIs")
    parser.add_argument("--kafka", action="store_true", help="start Apache Kafka, and compare the slowest")
    options = parser.parse_args(arguments)
    # Like Ctrl+C: the brokers end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.TERMINATED))
    served = [route for route in routes() if not options.only or route.api.name in options.only]
    chosen = list(attacks(served, options.sizes, every_version=not options.edges))
    of_commit = commit()

    def report_line(line: str) -> None:
        print(line, flush=True)

    report = campaign(chosen, Progress(PROGRESS, of_commit), report_line, with_kafka=options.kafka)
    print(report)
    if options.kafka and not options.only:
        text = page(report, of_commit, APACHE, options.sizes, every_version=not options.edges)
        PAGE.write_text(text, "utf-8")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
