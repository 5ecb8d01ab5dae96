"""See it work: a broker, services that write their logs to it, and a live view of what arrives.

    make demo

On a terminal it runs until Ctrl+C; without one, for twenty seconds.  Everything is in one process, on one
thread: the broker, the writers and the reader share one reactor and talk over real sockets.
"""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.batch.view import batches
from barnabas.broker.server import Broker
from barnabas.cli.dev import format_data, settings
from barnabas.config.node import read_node
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import record_view
from barnabas.protocol.schema import Message
from barnabas.runtime.chance import Random, SystemRandom
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.folder_disk import FolderDisk
from barnabas.runtime.network import Address
from barnabas.runtime.reactor import Reactor
from barnabas.runtime.tcp import TcpNetwork
from barnabas.runtime.workers import LoopWorkers, ThreadWorkers
from examples.tiny_client import TinyClient

TOPIC = "service-logs"
PARTITIONS = 3
SERVICES = ("checkout", "search", "login", "images")
WRITE_EVERY_MS = 50
SHOW_EVERY_MS = 500
SECONDS_WITHOUT_TERMINAL = 20
LINES_SHOWN = 8
CREATE_VERSION, METADATA_VERSION, PRODUCE_VERSION, FETCH_VERSION = 7, 9, 11, 11
_MS = 1_000_000

_LEVELS = ("INFO",) * 16 + ("WARN",) * 3 + ("ERROR",)
_TEXTS = ("request served in {} ms", "cache hit for user {}", "retrying after {} ms", "queue length {}")


class Writer:
    """One service: every now and then some lines of log, as one batch, to one partition."""

    def __init__(self, service: str, client: TinyClient, reactor: Reactor, random: Random) -> None:
        self.service = service
        self.acknowledged = 0
        self._client = client
        self._reactor = reactor
        self._random = random
        self._partition = SERVICES.index(service) % PARTITIONS
        self._pace = random.integer(5, 60)

    def write(self) -> None:
        # The load goes up and down, as it does.
        self._pace = min(120, max(1, self._pace + self._random.integer(-6, 6)))
        now_ms = self._reactor.clock.wall_ms()
        lines = [self._line() for _ in range(self._pace)]
        records = [
            Record(number, now_ms, self.service.encode(), line.encode(), ())
            for number, line in enumerate(lines)
        ]
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=TOPIC,
                    partition_data=[
                        ProduceRequest.PartitionProduceData(index=self._partition, records=build(records))
                    ],
                )
            ],
        )
        answer = self._client.ask(request, PRODUCE_VERSION)
        answer.then(partial(self._acknowledged, len(lines)), _give_up)
        self._reactor.timers.set(self, self._reactor.clock.monotonic_ns() + WRITE_EVERY_MS * _MS, self.write)

    def _line(self) -> str:
        level = _LEVELS[self._random.integer(0, len(_LEVELS) - 1)]
        text = _TEXTS[self._random.integer(0, len(_TEXTS) - 1)].format(self._random.integer(1, 900))
        return f"{level:5} {self.service:8} {text}"

    def _acknowledged(self, count: int, response: Message) -> None:
        assert isinstance(response, ProduceResponse)
        if not any(one.error_code for topic in response.responses for one in topic.partition_responses):
            self.acknowledged += count


class Reader:
    """Long polls over all partitions, from the start; counts what comes."""

    def __init__(self, client: TinyClient) -> None:
        self.messages = 0
        self.bytes = 0
        self.by_service: Counter[str] = Counter()
        self.errors = 0
        self.last: deque[str] = deque(maxlen=LINES_SHOWN)
        self._client = client
        self._offsets = dict.fromkeys(range(PARTITIONS), 0)

    def poll(self) -> None:
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchRequest.Topic(
                    topic=TOPIC,
                    partitions=[
                        FetchRequest.Partition(
                            partition=number, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                        for number, offset in self._offsets.items()
                    ],
                )
            ],
            forgotten_topics_data=[],
        )
        self._client.ask(request, FETCH_VERSION).then(self._fetched, _give_up)

    def _fetched(self, response: Message) -> None:
        assert isinstance(response, FetchResponse)
        for topic in response.responses:
            for one in topic.partitions:
                for batch in batches(record_view(one.records)):
                    self._offsets[one.partition_index] = batch.next_offset
                    self.bytes += batch.size
                    for record in batch.records():
                        self._take(record)
        self.poll()

    def _take(self, record: Record) -> None:
        self.messages += 1
        line = (record.value or b"").decode()
        self.by_service[(record.key or b"").decode()] += 1
        self.errors += line.startswith("ERROR")
        self.last.append(line)


class Show:
    """What is seen: a page that is drawn over itself on a terminal, a line now and then elsewhere."""

    def __init__(self, reactor: Reactor, place: str, writers: list[Writer], reader: Reader) -> None:
        self._reactor = reactor
        self._place = place
        self._writers = writers
        self._reader = reader
        self._started_ns = self._shown_ns = reactor.clock.monotonic_ns()
        self._messages_then = self._bytes_then = 0
        self._services_then: Counter[str] = Counter()
        self._on_terminal = sys.stdout.isatty()
        self._lines_drawn = 0

    def show(self) -> None:
        now_ns = self._reactor.clock.monotonic_ns()
        seconds = max(1e-3, (now_ns - self._shown_ns) / 1e9)
        rate = (self._reader.messages - self._messages_then) / seconds
        megabytes = (self._reader.bytes - self._bytes_then) / seconds / 1e6
        up = int((now_ns - self._started_ns) / 1e9)
        sent = sum(writer.acknowledged for writer in self._writers)
        so_far = f"{up:4} s  {sent:9,} acknowledged  {self._reader.messages:9,} read"
        now = f"{rate:8,.0f} messages/s  {megabytes:6.2f} MB/s  {self._reader.errors:6,} errors logged"
        if self._on_terminal:
            self._draw([so_far, now], seconds)
        else:
            sys.stdout.write(f"{so_far}  {now}\n")
        sys.stdout.flush()
        self._shown_ns = now_ns
        self._messages_then, self._bytes_then = self._reader.messages, self._reader.bytes
        self._services_then = Counter(self._reader.by_service)
        self._reactor.timers.set(self, now_ns + SHOW_EVERY_MS * _MS, self.show)

    def _draw(self, head: list[str], seconds: float) -> None:
        lines = [f"barnabas demo: {TOPIC} on {self._place}   (Ctrl+C stops it)", "", *head, ""]
        for service in SERVICES:
            rate = (self._reader.by_service[service] - self._services_then[service]) / seconds
            lines.append(f"  {service:10} {rate:7,.0f}/s  {'#' * min(60, int(rate / 40))}")
        lines += ["", *(f"  {line}" for line in self._reader.last)]
        # A line that the terminal breaks, or one above its top, could not be drawn over.
        size = shutil.get_terminal_size()
        lines = [line[: size.columns - 1] for line in lines[: size.lines - 1]]
        up = f"\x1b[{self._lines_drawn}A" if self._lines_drawn else ""
        sys.stdout.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        self._lines_drawn = len(lines)


class Demo:
    """All of it, from start to stop."""

    def __init__(self, folder: str) -> None:
        self._reactor = Reactor()
        self._random = SystemRandom()
        self._threads = ThreadWorkers()
        workers = LoopWorkers(self._threads, self._reactor.post)
        self._network = TcpNetwork(self._reactor, workers=workers)
        node = read_node(settings(0, folder))
        format_data(node, folder)
        self._broker = Broker(
            node,
            disk=FolderDisk(),
            clock=SystemClock(),
            random=self._random,
            loop=self._reactor,
            network=self._network,
            workers=workers,
            host_name=lambda: "127.0.0.1",
        )
        self._writers: list[Writer] = []
        self._reader: Reader | None = None
        self._is_over = False

    def run(self) -> int:
        signal.signal(signal.SIGINT, lambda *_: self._reactor.post(self._stop))
        signal.signal(signal.SIGTERM, lambda *_: self._reactor.post(self._stop))
        self._broker.start().then(lambda _: self._create_topic(), _give_up)
        while not self._is_over:
            self._reactor.serve(None)
        self._network.close()
        self._threads.close()
        self._reactor.close()
        sent = sum(writer.acknowledged for writer in self._writers)
        read = 0 if self._reader is None else self._reader.messages
        sys.stdout.write(f"{sent:,} messages acknowledged, {read:,} read\n")
        return 0 if sent and read else 1

    def _create_topic(self) -> None:
        self._server = self._broker.doors["PLAINTEXT"].address
        topic = CreateTopicsRequest.CreatableTopic(
            name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
        )
        admin = TinyClient(self._network, self._server, "demo-admin")
        admin.ask(CreateTopicsRequest(topics=[topic]), CREATE_VERSION).then(
            lambda _: self._look(admin), _give_up
        )

    def _look(self, admin: TinyClient) -> None:
        """Wait until the topic can be seen, as any client does."""
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)], allow_auto_topic_creation=False)
        admin.ask(request, METADATA_VERSION).then(partial(self._seen, admin), _give_up)

    def _seen(self, admin: TinyClient, response: Message) -> None:
        assert isinstance(response, MetadataResponse)
        if response.topics[0].error_code:
            self._after(10, partial(self._look, admin))
            return
        admin.close()
        self._go(self._server)

    def _go(self, server: Address) -> None:
        self._writers = [
            Writer(name, TinyClient(self._network, server, f"demo-{name}"), self._reactor, self._random)
            for name in SERVICES
        ]
        self._reader = Reader(TinyClient(self._network, server, "demo-reader"))
        for writer in self._writers:
            writer.write()
        self._reader.poll()
        Show(self._reactor, str(server), self._writers, self._reader).show()
        if not sys.stdout.isatty():
            self._after(SECONDS_WITHOUT_TERMINAL * 1_000, self._stop)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._reactor.timers.set((self, action), self._reactor.clock.monotonic_ns() + delay_ms * _MS, action)

    def _stop(self) -> None:
        for writer in self._writers:
            self._reactor.timers.cancel(writer)
        # What is on its way is still acknowledged and read.
        self._after(300, lambda: self._broker.stop().then(lambda _: self._end(), _give_up))

    def _end(self) -> None:
        self._is_over = True
        self._reactor.interrupt()


def _give_up(error: BaseException) -> None:
    """A connection that ended with the broker is no news; anything else is."""
    if not isinstance(error, OSError):
        sys.stderr.write(f"demo: {error}\n")
        raise SystemExit(1)


def main() -> int:
    logging.basicConfig(level=logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder:
        return Demo(folder).run()


if __name__ == "__main__":
    sys.exit(main())
