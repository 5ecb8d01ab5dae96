"""Sends hostile frames to a broker over real sockets while it serves a healthy client: `make fuzz`.

    python -m tools.fuzz --rounds 1000000 [--seed 0]

Before that it plays mutated logins and TLS handshakes, without a network (`--logins`).

A seed determines each frame; the first is `--seed`.  The broker must not exit, log errors or grow, and must
respond to the healthy client all the time.  If not, the last frames are printed in hex with their seeds, and
the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.base.ids import ZERO_UUID
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.cli.secure.certificates import Authority
from barnabas.cli.server.dev import settings
from barnabas.config.node.node import read_node
from barnabas.config.option import Mode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.tls.context import Tls, TlsOptions
from barnabas.runtime.tls.stores import KeyMaterial
from barnabas.testing.hostile.fuzz import FrameMaker, Hostile
from barnabas.testing.hostile.mutated_handshakes import play_handshake
from barnabas.testing.hostile.mutated_logins import Logins
from tools import stall
from tools.raw_broker import BrokerProcess, RawConnection

# Frames are sent on this many connections, one each, before the outcomes are read.
VOLLEY = 64
# Requests in between: once they are answered, the broker has accepted, read and served the frames.
PROBES = 4
# The pause between requests of the healthy client, and its timeout.
HEALTHY_PAUSE_S = 0.02
PATIENCE_S = 1.0
SEND_PATIENCE_S = 10.0
# How often topics are cleaned up and the log is checked.  Memory is compared with that after the first time,
# when all code is loaded and caches are filled.
HOUSEKEEPING_ROUNDS = 20_000
MAX_GROWTH_BYTES = 64 << 20
HEALTHY_TOPIC = "healthy"
# The topic that hostile requests name.
TARGET_TOPIC = "alpha"
OUTCOMES = ("answered", "closed", "waiting")
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Report:
    """The results of a campaign."""

    rounds: int = 0
    # By kind of frame and outcome.
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    healthy_answers: int = 0
    longest_wait_s: float = 0.0
    growth_bytes: int = 0
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = [f"{'':14}" + "".join(f"{outcome:>12}" for outcome in OUTCOMES)]
        for kind in sorted({kind for kind, _ in self.outcomes}):
            counts = (self.outcomes[kind, outcome] for outcome in OUTCOMES)
            rows.append(f"{kind:14}" + "".join(f"{count:12}" for count in counts))
        rows.append(
            f"{self.rounds} frames, {self.healthy_answers} healthy responses, three of them within"
            f" {1000 * self.longest_wait_s:.0f} ms at most, {self.growth_bytes >> 20} MiB grown,"
            f" {len(self.faults)} faults"
        )
        return "\n".join(rows)


def routes() -> list[Route]:
    """The routes of a broker's client listener."""
    node = read_node(settings(0, "data"))
    return list(routes_for(Mode.KRAFT, Role.INTER_BROKER, node.settings, Metrics()).values())


class HealthyClient(threading.Thread):
    """Produces and fetches on its own connection until stopped; records the first fault."""

    def __init__(self, broker: BrokerProcess, patience_s: float) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._patience_s = patience_s
        self._done = threading.Event()
        self.answers = 0
        self.longest_wait_s = 0.0
        self.fault: str | None = None

    def run(self) -> None:
        try:
            with RawConnection(self._broker.address, self._patience_s) as connection:
                while not self._done.wait(HEALTHY_PAUSE_S):
                    self._ask(connection)
            # New connections are accepted, too.
            with RawConnection(self._broker.address, self._patience_s) as connection:
                self._ask(connection)
        except (OSError, AssertionError) as error:
            self.fault = f"the healthy client was not served: {error!r}"

    def stop(self) -> None:
        self._done.set()
        self.join()

    def _ask(self, connection: RawConnection) -> None:
        started = time.monotonic()
        assert connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
        produced = connection.ask(write_request(), 9, ProduceResponse).responses[0].partition_responses[0]
        assert produced.error_code == 0, produced
        read = connection.ask(fetch_request(produced.base_offset), 11, FetchResponse)
        fetched = read.responses[0].partitions[0]
        assert fetched.error_code == 0, fetched
        assert fetched.records, "the written record was not read"
        self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - started)
        self.answers += 3


def write_request() -> ProduceRequest:
    batch = bytes(build([Record(0, time.time_ns() // 1_000_000, b"k", b"healthy")]))
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
    topics = [ProduceRequest.TopicProduceData(name=HEALTHY_TOPIC, partition_data=[partition])]
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)


def fetch_request(offset: int) -> FetchRequest:
    partition = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic=HEALTHY_TOPIC, partitions=[partition])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)


def create(connection: RawConnection, names: Iterable[str]) -> None:
    """Creates the topics that do not exist."""
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    ]
    connection.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7, CreateTopicsResponse)


def tidy(connection: RawConnection) -> None:
    """Deletes topics that hostile frames created, and recreates the one they may have deleted."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    known = [topic.name for topic in connection.ask(request, 12, MetadataResponse).topics]
    topics = [
        DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=ZERO_UUID)
        for name in known
        if name is not None and name != HEALTHY_TOPIC
    ]
    connection.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6, DeleteTopicsResponse)
    create(connection, [TARGET_TOPIC])


def outcome(sock: socket.socket) -> str:
    """What a client sees so far; `waiting` is a long poll or an incomplete request."""
    sock.setblocking(False)
    try:
        return "answered" if sock.recv(1 << 16) else "closed"
    except BlockingIOError:
        return "waiting"
    except ConnectionError:
        return "closed"


class Campaign:
    """A campaign against one broker."""

    def __init__(self, broker: BrokerProcess, first_seed: int, *, patience_s: float = PATIENCE_S) -> None:
        self._broker = broker
        self._seed = first_seed
        self._maker = FrameMaker(routes())
        self._healthy = HealthyClient(broker, patience_s)
        self._report = Report()
        self._warm_rss = 0

    def run(self, rounds: int) -> Report:
        report = self._report
        with RawConnection(self._broker.address) as connection:
            create(connection, [HEALTHY_TOPIC, TARGET_TOPIC])
            self._healthy.start()
            while report.rounds < rounds and not self._has_failed():
                try:
                    self._send_volley(connection, min(VOLLEY, rounds - report.rounds))
                    self._keep_house(connection)
                except OSError as error:
                    report.faults.append(f"the broker no longer responds: {error!r}")
        self._healthy.stop()
        return self._finish()

    def _send_volley(self, connection: RawConnection, count: int) -> None:
        """Sends one volley and records the outcomes."""
        first = self._seed + self._report.rounds
        self._report.rounds += count
        with contextlib.ExitStack() as stack:
            sent = []
            for seed in range(first, first + count):
                hostile = self._maker.make(seed)
                sock = socket.create_connection(self._broker.address, timeout=SEND_PATIENCE_S)
                stack.enter_context(sock)
                # Reset, so that a million connections leave no half-closed sockets.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # The broker may close the connection after the first bytes.
                with contextlib.suppress(ConnectionError):
                    sock.sendall(hostile.data)
                sent.append((hostile, sock))
            for _ in range(PROBES):
                connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            for hostile, sock in sent:
                self._report.outcomes[hostile.kind.value, outcome(sock)] += 1

    def _has_failed(self) -> bool:
        if not self._broker.is_running:
            self._report.faults.append("the broker has ended")
        if self._healthy.fault is not None:
            self._report.faults.append(self._healthy.fault)
        return bool(self._report.faults)

    def _keep_house(self, connection: RawConnection) -> None:
        """Every HOUSEKEEPING_ROUNDS rounds."""
        rounds = self._report.rounds
        if rounds % HOUSEKEEPING_ROUNDS >= VOLLEY:
            return
        tidy(connection)
        self._warm_rss = self._warm_rss or self._broker.rss_bytes
        self._report.faults += self._broker.faults
        print(f"{rounds} frames, {len(self._report.faults)} faults", flush=True)

    def _finish(self) -> Report:
        report = self._report
        report.healthy_answers = self._healthy.answers
        report.longest_wait_s = self._healthy.longest_wait_s
        if self._warm_rss:
            report.growth_bytes = self._broker.rss_bytes - self._warm_rss
        if report.growth_bytes > MAX_GROWTH_BYTES:
            report.faults.append(f"the broker has grown by {report.growth_bytes >> 20} MiB")
        report.faults += [line for line in self._broker.faults if line not in report.faults]
        if self._healthy.fault is not None and self._healthy.fault not in report.faults:
            report.faults.append(self._healthy.fault)
        return report

    def last_frames(self) -> list[tuple[int, Hostile]]:
        """The frames of the last volley, newest first."""
        last = self._seed + self._report.rounds
        return [(seed, self._maker.make(seed)) for seed in range(last - 1, last - 1 - VOLLEY, -1)]


def play_logins(first_seed: int, count: int) -> None:
    """Plays mutated logins and handshakes; raises what must not happen, with its seed."""
    if not count:
        return
    logins = Logins()
    kinds = Counter(logins.play(seed) for seed in range(first_seed, first_seed + count))
    for (kind, mechanism), number in sorted(kinds.items()):
        print(f"{mechanism:14} {kind:10} {number:10}")
    authority = Authority(SystemClock())
    node = authority.issue("node", ("localhost",), 1)
    trusted = (authority.pem.certificate,)
    server = Tls(TlsOptions(KeyMaterial(node.key, (node.certificate,)), trusted), server=True)
    client = Tls(TlsOptions(None, trusted), server=False)
    ends = Counter(
        play_handshake(server, client, seed) for seed in range(first_seed, first_seed + count // 10)
    )
    print(f"TLS handshakes {dict(ends)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description="Send hostile frames.")
    parser.add_argument("--rounds", type=int, default=1_000_000, help="number of frames (default 1000000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first frame (default 0)")
    parser.add_argument("--stall", action="store_true", help="also run the stall attack (tools.stall)")
    parser.add_argument(
        "--kafka", action="store_true", help="compare the stall attack with Apache Kafka (BARNABAS_ORACLE)"
    )
    parser.add_argument(
        "--logins", type=int, default=0, help="mutated logins, and a tenth as many TLS handshakes (default 0)"
    )
    options = parser.parse_args()
    try:
        play_logins(options.seed, options.logins)
    except Exception as error:
        print(f"fault: {error!r}")
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as folder,
        BrokerProcess(Path(folder)) as broker,
    ):
        campaign = Campaign(broker, options.seed)
        report = campaign.run(options.rounds)
        if broker.is_running and broker.stop() != 0:
            report.faults.append("the broker did not stop cleanly")
    print(report)
    for fault in report.faults:
        print(f"fault: {fault}")
    if report.faults:
        for seed, hostile in campaign.last_frames():
            print(f"seed {seed}, {hostile.kind.value}: {hostile.data.hex()}")
    has_stalled = options.stall and stall.main(["--kafka"] if options.kafka else [])
    return 1 if report.faults or has_stalled else 0


if __name__ == "__main__":
    sys.exit(main())
