"""Rounds of a streaming query in which somebody is killed, and the count of what came out."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer
from tests.clients.conftest import start_dev

HERE = Path(__file__).parent
PARTITIONS = 3
LINES = 500
FILES_A_ROUND = 3
# The query is cut in another number of tasks in each round.
TASKS = (2, 5, 1, 4, 3)
ROUND_PATIENCE_S = 400
# A round in which the broker dies may end with an error; the query is then run again.
MOST_RUNS = 4


class Broker:
    """A barnabas broker that is started again, at the same place, when it dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._ending = False
        self._start()
        self._watch = threading.Thread(target=self._keep_alive, daemon=True)
        self._watch.start()

    def _start(self) -> None:
        self._process, self.bootstrap = start_dev(self._folder, "--port", str(self._port))

    def _keep_alive(self) -> None:
        while not self._ending:
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            if not self._ending:
                self._start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        self._ending = True
        self._process.terminate()
        self._process.wait(60)
        self._watch.join(60)


@contextmanager
def barnabas_broker(folder: Path) -> Iterator[Broker]:
    folder.mkdir()
    broker = Broker(folder)
    try:
        yield broker
    finally:
        broker.end()


class Rounds:
    """A query's life, in which it meets many deaths."""

    program = "spark_kills.py"

    def __init__(self, folder: Path, bootstrap: str, broker_pid: Callable[[], int]) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self._broker_pid = broker_pid
        self._lines = 0
        self._files = 0
        (folder / "in").mkdir()
        self.prepare()

    def prepare(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic("out", num_partitions=PARTITIONS)]).raise_first()

    def play(self, deaths: Sequence[tuple[str, str]]) -> None:
        for number, (victim, moment) in enumerate(deaths):
            self.feed()
            self.run(TASKS[number % len(TASKS)], victim, moment)
        # Whatever the last one left is finished in peace.
        self.run(2, "nobody", "never")
        assert self.seen() == Counter(range(self._lines))

    def feed(self) -> None:
        for _ in range(FILES_A_ROUND):
            lines = "\n".join(str(number) for number in range(self._lines, self._lines + LINES))
            # Written elsewhere and moved, so that nobody reads half of it.
            made = self.folder / "new"
            made.write_text(lines, "utf-8")
            made.rename(self.folder / "in" / f"{self._files:05}.txt")
            self._lines += LINES
            self._files += 1

    def run(self, tasks: int, victim: str, moment: str) -> None:
        """Run the query; the round is over when it has ended, or has died as it should."""
        (self.folder / "hits").unlink(missing_ok=True)
        (self.folder / "killed").unlink(missing_ok=True)
        for _ in range(MOST_RUNS):
            victims = {"task": "self", "broker": str(self._broker_pid()), "driver": "driver"}.get(victim, "0")
            code = self._query(tasks, moment, victims)
            killed = (self.folder / "killed").exists()
            if code == 0 or (victim == "driver" and killed):
                assert killed or victim == "nobody", f"nobody died at {moment}"
                return
        raise AssertionError(
            f"{victim} at {moment}: {(self.folder / 'query.txt').read_text('utf-8')[-3000:]}"
        )

    def _query(self, tasks: int, moment: str, victims: str) -> int:
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        command = [sys.executable, str(HERE / self.program), self.bootstrap, str(self.folder)]
        with (self.folder / "query.txt").open("w") as out:
            return subprocess.run(
                [*command, str(tasks), moment, victims],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=ROUND_PATIENCE_S,
                check=False,
            ).returncode

    def seen(self) -> Counter[int]:
        """What readers of committed records see."""
        parts = [TopicPartition("out", number) for number in range(PARTITIONS)]
        wanted: dict[TopicPartition, OffsetSpec | int] = dict.fromkeys(parts, OffsetSpec.LATEST)
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            ends = admin.list_offsets(wanted)
            stable = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
            while any(stable[part].offset < ends[part].offset for part in parts):
                stable = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        found: Counter[int] = Counter()
        settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        with Consumer(settings, bootstrap_servers=self.bootstrap) as consumer:
            consumer.assign(parts)
            while any(consumer.position(part) < ends[part].offset for part in parts):
                for one in consumer.poll(timeout_ms=100):
                    assert isinstance(one.value, bytes)
                    found[int(one.value)] += 1
        return found
