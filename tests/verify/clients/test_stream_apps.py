"""Applications of stream libraries run on barnabas: Kafka Streams (Java) and Quix Streams (Python).

They live on groups, transactions, repartitioning topics and changelogs of compacted topics at once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.worlds.live_broker import live_broker
from tests.verify.stream_apps.environments import quix_python, streams_jars

HERE = Path(__file__).parents[1]
PATIENCE_S = 120
KEYS = 10
NUMBERS = 20_000
EVENTS = 2_000
LINES = ["the quick brown fox", "The lazy dog and the fox", "a fox, a dog; a quick dog"] * 50


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with live_broker() as broker:
        yield f"127.0.0.1:{broker.address[1]}"


def test_kafka_streams_counts_words(bootstrap: str, tmp_path: Path) -> None:
    make_topics(bootstrap, "lines", "counts")
    write(bootstrap, "lines", ((None, line) for line in LINES))
    words = "\n".join(LINES).lower().replace(",", "").replace(";", "").split()
    with streams_app("words", bootstrap, tmp_path):
        found = read(bootstrap, "counts", len(words))
    latest = {(one.key() or b"").decode(): int(one.value() or b"") for one in found}
    assert latest == Counter(words)


def test_kafka_streams_sums_exactly_once_though_it_is_killed(bootstrap: str, tmp_path: Path) -> None:
    make_topics(bootstrap, "numbers", "sums")
    write(bootstrap, "numbers", numbered(0, NUMBERS // 2))
    with streams_app("sums", bootstrap, tmp_path) as app:
        read(bootstrap, "sums", NUMBERS // 10)
        app.kill()
    write(bootstrap, "numbers", numbered(NUMBERS // 2, NUMBERS))
    with streams_app("sums", bootstrap, tmp_path):
        found = read(bootstrap, "sums", NUMBERS)
    lines: defaultdict[int, list[str]] = defaultdict(list)
    for one in found:
        lines[int(one.key() or b"")].append((one.value() or b"").decode())
    for key in range(KEYS):
        numbers = range(key, NUMBERS, KEYS)
        assert lines[key] == [f"{count}:{total}" for count, total in running_sums(numbers)]


def test_quix_streams_counts_exactly_once_and_recovers_from_its_changelog(
    bootstrap: str, tmp_path: Path
) -> None:
    app = HERE / "stream_apps" / "quix_counts.py"
    make_topics(bootstrap, "events", "event-counts")
    events = [(key, json.dumps({"number": int(number)})) for key, number in numbered(0, EVENTS)]
    for half in (events[: EVENTS // 2], events[EVENTS // 2 :]):
        # Without its folder it has to read back the changelog, whose end is a control record (trap 12).
        shutil.rmtree(tmp_path, ignore_errors=True)
        write(bootstrap, "events", half)
        done = subprocess.run(
            [str(quix_python()), str(app), bootstrap, str(tmp_path), str(len(half))],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={**os.environ, "PYTHONPATH": ""},
        )
        assert done.returncode == 0, done.stderr[-4000:]
    found = read(bootstrap, "event-counts", EVENTS)
    lines: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for one in found:
        state = json.loads(one.value() or b"")
        lines[int(one.key() or b"")].append((state["count"], state["number"]))
    for key in range(KEYS):
        assert lines[key] == list(enumerate(range(key, EVENTS, KEYS), start=1))


def numbered(first: int, last: int) -> Iterator[tuple[str, str]]:
    return ((str(number % KEYS), str(number)) for number in range(first, last))


def running_sums(numbers: range) -> Iterator[tuple[int, int]]:
    total = 0
    for count, number in enumerate(numbers, start=1):
        total += number
        yield count, total


def make_topics(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(30)


def write(
    bootstrap: str, topic: str, pairs: Iterator[tuple[str | None, str]] | list[tuple[str, str]]
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for key, value in pairs:
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, at_least: int) -> list[Message]:
    """What is committed, from the start, until there are so many and nothing more comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}-{at_least}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    found: list[Message] = []
    limit = time.monotonic() + PATIENCE_S
    try:
        while True:
            batch = consumer.consume(1_000, 1.0)
            found += batch
            if not batch and len(found) >= at_least:
                break
            assert time.monotonic() < limit, f"{topic} has {len(found)} of {at_least}"
    finally:
        consumer.close()
    assert all(one.error() is None for one in found)
    return found


@contextmanager
def streams_app(job: str, bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Running until the end of the block."""
    log = folder / f"{job}.log"
    folder.mkdir(exist_ok=True)
    command = ["java", "-Xmx256m", "-cp", f"{streams_jars()}/*", str(HERE / "java" / "StreamsLife.java")]
    with log.open("ab") as output:
        app = subprocess.Popen(
            [*command, job, bootstrap, str(folder / "state")], stdout=output, stderr=output
        )
    try:
        yield app
    except BaseException:
        print(log.read_text("utf-8")[-6_000:])
        raise
    finally:
        app.terminate()
        app.wait(60)
