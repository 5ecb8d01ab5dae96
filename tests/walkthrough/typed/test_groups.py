"""Walk-through 7: members of a group come and go, die, and get more partitions; each is a console consumer."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.walkthrough.nodes import PATIENCE_S, eventually
from tests.walkthrough.typed.workers import SERVERS, Workers, three_workers

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("groups as typed")

JAVA = "org.apache.kafka.clients.consumer."
ASSIGNORS = {"range": "RangeAssignor", "roundrobin": "RoundRobinAssignor", "sticky": "StickyAssignor"}
# The splits that Apache Kafka's own assignors make (golden/vectors).
VECTORS = json.loads((Path(__file__).parents[2] / "data" / "vectors" / "assignors.json").read_text("utf-8"))
QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "metadata.max.age.ms": 1000}
# Those who start together join together, unless the machine is very busy: then they are started again.
JOIN_MS = 3000
MAX_STARTS = 5


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with three_workers(tmp_path_factory.mktemp("groups")) as running:
        yield running


class Group:
    """Console consumers of one group, by client id."""

    def __init__(self, workers: Workers, name: str, topics: str, assignor: str) -> None:
        self.name = name
        self._workers = workers
        self._topics = topics
        self._assignor = JAVA + ASSIGNORS[assignor]
        self._members: dict[str, subprocess.Popen[str]] = {}
        self._lines: list[str] = []

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._members.values():
            process.kill()
            process.communicate()

    def join(self, client_id: str, topics: str | None = None) -> None:
        worker = self._workers.workers[len(self._members) % len(self._workers.workers)]
        properties = {
            **QUICK,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": self._assignor,
        }
        given = " ".join(f"--consumer-property {name}={value}" for name, value in properties.items())
        self._members[client_id] = worker.begin(
            f"bin/kafka-console-consumer.sh --bootstrap-server {SERVERS} --group {self.name} "
            f"--include '{topics or self._topics}' {given}"
        )

    def leave(self, client_id: str) -> list[str]:
        """As by Ctrl+C; returns the lines that it printed."""
        return self._end(client_id, signal.SIGINT)

    def die(self, client_id: str) -> list[str]:
        return self._end(client_id, signal.SIGKILL)

    def _end(self, client_id: str, how: signal.Signals) -> list[str]:
        process = self._members.pop(client_id)
        process.send_signal(how)
        return process.communicate(timeout=PATIENCE_S)[0].splitlines()

    def split(self) -> dict[str, list[str]]:
        """The partitions of each member, as kafka-consumer-groups.sh prints them; none before one has joined."""
        done = self._workers.up.try_out(
            f"bin/kafka-consumer-groups.sh --bootstrap-server {SERVERS} --describe --group {self.name} "
            "--members --verbose"
        )
        assert done.returncode == 0 or f"Group {self.name} not found" in done.stderr, done.stderr
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith(self.name)]
        return {row[3]: _partitions(row[6]) if row[4] != "0" else [] for row in rows}

    def becomes(self, expected: Mapping[str, list[str]]) -> None:
        last: dict[str, list[str]] = {}

        def is_there() -> bool:
            last.clear()
            last.update(self.split())
            return last == expected

        try:
            eventually(is_there)
        except AssertionError:
            raise AssertionError(f"{last} did not become {expected}") from None


def _partitions(assignment: str) -> list[str]:
    """`a:0,1;b:2` is a-0, a-1, b-2."""
    topics = [each.rpartition(":") for each in assignment.split(";")]
    return sorted(f"{topic}-{number}" for topic, _, numbers in topics for number in numbers.split(","))


def create(workers: Workers, topic: str, partitions: int) -> None:
    workers.up.type(
        f"bin/kafka-topics.sh --create --topic {topic} --partitions {partitions} --replication-factor 2 "
        f"--bootstrap-server {SERVERS}"
    )


def named(topic: str, *numbers: int) -> list[str]:
    return [f"{topic}-{number}" for number in numbers]


def test_members_come_and_go(workers: Workers) -> None:
    # M-G2 M-G3
    topic = "fourParts"
    create(workers, topic, 4)
    with Group(workers, "comeAndGo", topic, "range") as group:
        group.join("m1")
        group.becomes({"m1": named(topic, 0, 1, 2, 3)})
        group.join("m2")
        group.becomes({"m1": named(topic, 0, 1), "m2": named(topic, 2, 3)})
        for more in ("m3", "m4", "m5"):
            group.join(more)
        each = {f"m{number + 1}": named(topic, number) for number in range(4)}
        group.becomes({**each, "m5": []})
        # Its partition moves when its session is over.
        lines = group.die("m1")
        group.becomes({f"m{number + 2}": named(topic, number) for number in range(4)})
        workers.up.type(
            f"bin/kafka-topics.sh --alter --topic {topic} --partitions 6 --bootstrap-server {SERVERS}"
        )
        group.becomes(
            {
                "m2": named(topic, 0, 1),
                "m3": named(topic, 2, 3),
                "m4": named(topic, 4),
                "m5": named(topic, 5),
            }
        )
        sent = [f"line {number}" for number in range(60)]
        workers.up.type(
            f"bin/kafka-console-producer.sh --bootstrap-server {SERVERS} --topic {topic} "
            "--producer-property partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner",
            given="\n".join(sent) + "\n",
        )
        eventually(lambda: _lag(workers, group) == 0, "not everything is read")
        for number in range(2, 6):
            lines += group.leave(f"m{number}")
        assert sorted(lines) == sorted(sent), "each message goes to one member"


def _lag(workers: Workers, group: Group) -> int | None:
    """What the group has yet to commit; None as long as it is not known of each partition."""
    printed = workers.up.type(
        f"bin/kafka-consumer-groups.sh --bootstrap-server {SERVERS} --describe --group {group.name}"
    )
    rows = [line.split() for line in printed.splitlines() if line.startswith(group.name)]
    lags = [row[5] for row in rows]
    return sum(map(int, lags)) if len(lags) == 6 and "-" not in lags else None


def test_a_sticky_group_keeps_what_it_can(workers: Workers) -> None:
    # M-G3
    topic = "stickyParts"
    create(workers, topic, 4)
    with Group(workers, "sticky", topic, "sticky") as group:
        group.join("m1")
        group.becomes({"m1": named(topic, 0, 1, 2, 3)})
        group.join("m2")
        two = eventually(lambda: _balanced(group, 2))
        group.join("m3")
        three = eventually(lambda: _balanced(group, 3))
        assert set(three["m1"]) <= set(two["m1"])
        assert set(three["m2"]) <= set(two["m2"])
        group.leave("m2")
        left = eventually(lambda: _balanced(group, 2))
        assert set(three["m1"]) <= set(left["m1"])
        assert set(three["m3"]) <= set(left["m3"])


def _balanced(group: Group, members: int) -> dict[str, list[str]] | None:
    """The split among this many members, once all four partitions have an owner and it is even.

    A member that has just joined owns nothing until others have given partitions up.
    """
    split = group.split()
    sizes = sorted(map(len, split.values()))
    if len(split) != members or sum(sizes) != 4 or sizes[-1] - sizes[0] > 1:
        return None
    return split


def _is_playable(row: Mapping[str, Any]) -> bool:
    """All its members can join together, and all their topics are there."""
    return row["assignor"] in ASSIGNORS and all(
        not member["owned"]
        and "group_instance_id" not in member
        and set(member["topics"]) <= set(row["partitions"])
        for member in row["members"].values()
    )


def _play(workers: Workers, row: Mapping[str, Any], name: str) -> dict[str, list[str]]:
    """The split of a case, with topics and a group of its own."""
    with Group(workers, name, "", row["assignor"]) as group:
        for client_id, member in row["members"].items():
            topics = "|".join(f"{name}_{topic}" for topic in member["topics"])
            group.join(client_id, topics)

        def complete() -> dict[str, list[str]] | None:
            split = group.split()
            owned = sum(map(len, split.values()))
            whole = len(split) == len(row["members"]) and owned == sum(row["partitions"].values())
            return split if whole else None

        split = eventually(complete)
    return {member: [each.removeprefix(f"{name}_") for each in mine] for member, mine in split.items()}


PLAYED = [row for row in VECTORS if _is_playable(row)]


@pytest.mark.slow
def test_the_splits_are_apache_kafkas(tmp_path: Path) -> None:
    # M-G3
    assert len(PLAYED) > 15
    with three_workers(tmp_path, {"group.initial.rebalance.delay.ms": str(JOIN_MS)}) as workers:
        for number, row in enumerate(PLAYED):
            expected = {member: sorted(mine) for member, mine in row["assignment"].items()}
            for start in range(MAX_STARTS):
                name = f"case{number}x{start}"
                for topic, partitions in row["partitions"].items():
                    create(workers, f"{name}_{topic}", partitions)
                split = _play(workers, row, name)
                # Only a sticky assignor remembers who was there before.
                if split == expected or row["assignor"] != "sticky":
                    break
            assert split == expected, f"{row['assignor']}: {row['case']}"
