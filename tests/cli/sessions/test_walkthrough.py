"""The commands of a book, typed unchanged, with the scripts of `barnabas aliases`.

One node by the book, KRaft as far as one node shows it, and groups.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from barnabas.client.sync import Admin
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.book import PATIENCE_S, Book, Running, wait_until
from tests.ensemble import why_no_zookeeper

PACKAGE = "org.apache.kafka.clients.consumer."


def started(folder: Path, config: str) -> Book:
    book = Book(folder)
    cluster_id = book.types("bin/kafka-storage.sh random-uuid").strip()
    book.types(f"bin/kafka-storage.sh format -t {cluster_id} -c {config}")
    book.types(f"bin/kafka-server-start.sh -daemon {config}")
    return book


def started_on_zookeeper(folder: Path) -> Book:
    book = Book(folder)
    book.on_zookeeper = True
    book.types("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    book.types("bin/kafka-server-start.sh -daemon config/server.properties")
    return book


@pytest.fixture(
    scope="module",
    params=[
        "kraft",
        pytest.param(
            "zookeeper",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
            ],
        ),
    ],
)
def book(request: pytest.FixtureRequest) -> Iterator[Book]:
    """The whole chapter, in each mode."""
    with quick_folder() as folder:
        if request.param == "kraft":
            book = started(folder, "config/kraft/server.properties")
            yield book
            book.types("bin/kafka-server-stop.sh")
            return
        book = started_on_zookeeper(folder)
        yield book
        book.types("bin/kafka-server-stop.sh")
        book.types("bin/zookeeper-server-stop.sh")


@pytest.fixture(scope="module")
def admin(book: Book) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": book.server}) as admin:
        yield admin


def shares(admin: Admin, group: str) -> dict[str, list[int]]:
    """Partitions by client id, sorted by client id; empty while the group is rebalancing."""
    described = admin.describe_consumer_groups([group])
    error = described.error_of(group)
    if error is not None or described[group].state != "Stable":
        return {}
    members = sorted(described[group].members, key=lambda member: member.client_id)
    return {member.client_id: sorted(one.partition for one in member.assignment) for member in members}


def wait_for_members(admin: Admin, group: str, count: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}

    def settled() -> bool:
        found.clear()
        found.update(shares(admin, group))
        return len(found) == count

    wait_until(settled, f"{count} members of {group}, not {found}")
    return found


# 1 One node, by the book ------------------------------------------------------------------------------------


def test_a_topic_and_its_description(book: Book) -> None:
    created = book.types("bin/kafka-topics.sh --create --topic test --bootstrap-server SERVER")
    assert created == "Created topic test.\n"
    # Older books write one dash.
    shown = book.types("bin/kafka-topics.sh -describe -topic test -bootstrap-server SERVER")
    assert re.match(r"Topic: test\tTopicId: \S{22}\tPartitionCount: 1\tReplicationFactor: 1\t", shown)
    node, eligible = (0, "\tElr: N/A\tLastKnownElr: N/A\n") if book.on_zookeeper else (1, "\tElr: ")
    own = f"\tTopic: test\tPartition: 0\tLeader: {node}\tReplicas: {node}\tIsr: {node}"
    assert own + eligible in shown
    assert book.types("bin/kafka-topics.sh", code=2).startswith("usage: barnabas topics")


def test_producing_at_a_terminal_until_ctrl_c(book: Book) -> None:
    book.types("bin/kafka-topics.sh --create --topic typed --bootstrap-server SERVER")
    terminal = book.at_terminal("bin/kafka-console-producer.sh --broker-list SERVER --topic typed")

    def prompted(times: int) -> bool:
        return terminal.seen.count(">") >= times

    for number, line in enumerate(("first", "second"), 1):
        wait_until(partial(prompted, number), f"prompt {number}")
        terminal.key(f"{line}\n")
    wait_until(partial(prompted, 3), "the last prompt")
    terminal.key("\x03")
    assert terminal.result() == 130
    assert "--broker-list is the old name of --bootstrap-server" in terminal.seen
    assert "Traceback" not in terminal.seen
    read = "bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic typed --from-beginning --max-messages 2"
    assert book.types(read) == "first\nsecond\nProcessed a total of 2 messages\n"


def test_consuming_only_what_is_new_from_the_beginning_and_from_an_offset(book: Book, admin: Admin) -> None:
    topic, produce = "reading", "bin/kafka-console-producer.sh --bootstrap-server SERVER --topic reading"
    book.types(f"bin/kafka-topics.sh --create --topic {topic} --bootstrap-server SERVER")
    book.types(produce, stdin="old\n")
    consume = f"bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic {topic}"
    groups = {one.group_id for one in admin.list_groups().groups}
    consumer = book.starts(consume)
    wait_until(lambda: {one.group_id for one in admin.list_groups().groups} - groups, "a new group")
    (group,) = {one.group_id for one in admin.list_groups().groups} - groups
    wait_for_members(admin, group, 1)
    # It has a position only after it has looked up the end: records are sent until it sees one.
    deadline = time.monotonic() + PATIENCE_S
    while not consumer.lines and time.monotonic() < deadline:
        book.types(produce, stdin="new\n")
    assert consumer.ends() == 130
    assert set(consumer.lines) == {"new"}

    topic_two = "five"
    book.types(produce.replace("reading", topic_two), stdin="1\n2\n3\n4\n5\n")
    whole = book.starts(consume.replace("reading", topic_two) + " --from-beginning")
    whole.prints("1", "2", "3", "4", "5")
    assert whole.ends() == 130
    assert whole.errors == ["Processed a total of 5 messages"]
    last = book.starts(consume.replace("reading", topic_two) + " --partition 0 --offset 4")
    last.prints("5")
    assert last.ends(signal.SIGTERM) == 143
    assert last.errors == ["Processed a total of 1 messages"]


def test_two_members_share_a_topic_that_another_group_reads_completely(book: Book, admin: Admin) -> None:
    book.types("bin/kafka-topics.sh --create --topic shared --bootstrap-server SERVER")
    line = "bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic shared --from-beginning"
    line += " --consumer-property group.id="
    two = [book.starts(line + "testGroup") for _ in range(2)]
    third = book.starts(line + "testGroup2")
    wait_until(lambda: _members(admin, "testGroup") == 2 and _members(admin, "testGroup2") == 1, "members")
    sent = [str(number) for number in range(5)]
    produce = "bin/kafka-console-producer.sh --broker-list SERVER --topic shared"
    book.types(produce, stdin="".join(f"{line}\n" for line in sent))
    third.prints(*sent)
    wait_until(lambda: len(two[0].lines + two[1].lines) >= len(sent), "all records in the group")
    assert sorted(two[0].lines + two[1].lines) == sent
    for consumer in (*two, third):
        assert consumer.ends() == 130

    shown = book.types("bin/kafka-consumer-groups.sh --bootstrap-server SERVER --describe --group testGroup")
    assert "Consumer group 'testGroup' has no active members." in shown
    header, row = shown.strip().splitlines()[-2:]
    columns = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert header.split() == columns.split()
    assert row.split() == ["testGroup", "shared", "0", "5", "5", "0", "-", "-", "-"]


def _members(admin: Admin, group: str) -> int:
    described = admin.describe_consumer_groups([group])
    settled = described.error_of(group) is None and described[group].state == "Stable"
    return len(described[group].members) if settled else 0


def test_producing_to_a_topic_that_does_not_exist_warns_and_arrives(book: Book) -> None:
    produce = "bin/kafka-console-producer.sh --bootstrap-server SERVER --topic unheard-of"
    warning = "LEADER_NOT_AVAILABLE" if book.on_zookeeper else "topic unheard-of does not exist"
    assert warning in book.types(produce, stdin="here\n")
    consume = "bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic unheard-of --from-beginning"
    assert book.types(consume + " --max-messages 1") == "here\nProcessed a total of 1 messages\n"


# 7 Groups ---------------------------------------------------------------------------------------------------


def member(book: Book, group: str, name: str, strategy: str) -> Running:
    return book.starts(
        f"bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic {group} --group {group} "
        f"--consumer-property client.id={name} --consumer-property session.timeout.ms=6000 "
        "--consumer-property heartbeat.interval.ms=200 --consumer-property metadata.max.age.ms=500 "
        f"--consumer-property partition.assignment.strategy={PACKAGE}{strategy}"
    )


def create(book: Book, topic: str) -> None:
    book.types(f"bin/kafka-topics.sh --create --topic {topic} --partitions 4 --bootstrap-server SERVER")


@pytest.mark.parametrize(
    ("strategy", "first", "second"),
    [("RangeAssignor", [0, 1], [2, 3]), ("RoundRobinAssignor", [0, 2], [1, 3])],
)
def test_range_and_round_robin_split_four_partitions(
    book: Book, admin: Admin, strategy: str, first: list[int], second: list[int]
) -> None:
    group = strategy.lower()
    create(book, group)
    members = [member(book, group, name, strategy) for name in ("a", "b")]
    assert wait_for_members(admin, group, 2) == {"a": first, "b": second}
    shown = book.types(
        f"bin/kafka-consumer-groups.sh --bootstrap-server SERVER --describe --group {group} --members --verbose"
    )
    for name, share in (("a", first), ("b", second)):
        row = next(line for line in shown.splitlines() if f" {name} " in line)
        assert f"{group}:{','.join(map(str, share))}" in row
    for one in members:
        assert one.ends() == 130


def test_members_join_idle_and_die_and_partitions_are_added(book: Book, admin: Admin) -> None:
    group, strategy = "sticky", "StickyAssignor"
    create(book, group)
    members = {name: member(book, group, name, strategy) for name in ("a", "b")}
    before = wait_for_members(admin, group, 2)
    assert sorted(map(len, before.values())) == [2, 2]

    # More members than partitions: one idles, and no partition moves unnecessarily.
    members.update({name: member(book, group, name, strategy) for name in ("c", "d", "e")})
    crowded = wait_for_members(admin, group, 5)
    assert sorted(map(len, crowded.values())) == [0, 1, 1, 1, 1]
    assert crowded["a"][0] in before["a"]
    assert crowded["b"][0] in before["b"]

    # One is killed: its partition moves when its session times out.
    busy = next(name for name, share in crowded.items() if share)
    members.pop(busy).ends(signal.SIGKILL)
    left = wait_for_members(admin, group, 4)
    assert sorted(chain(*left.values())) == [0, 1, 2, 3]

    book.types(f"bin/kafka-topics.sh --alter --topic {group} --partitions 5 --bootstrap-server SERVER")
    wait_until(lambda: sorted(chain(*shares(admin, group).values())) == [0, 1, 2, 3, 4], "the new partition")
    for one in members.values():
        assert one.ends() == 130
    assert wait_for_empty(admin, group)


def wait_for_empty(admin: Admin, group: str) -> bool:
    wait_until(lambda: admin.describe_consumer_groups([group])[group].state == "Empty", "an empty group")
    return True


# 5 KRaft, as far as one node shows it -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def kraft() -> Iterator[Book]:
    with quick_folder() as folder:
        kraft = started(folder, "config/kraft/server.properties")
        yield kraft
        kraft.types("bin/kafka-server-stop.sh")


def test_kraft_and_its_metadata_like_a_file_tree(kraft: Book) -> None:
    """M-C9, on a node that runs."""
    create = "bin/kafka-topics.sh --create --topic kafka_test --partitions 3 --replication-factor 1"
    kraft.types(f"{create} --bootstrap-server SERVER")
    kraft.types("bin/kafka-console-producer.sh --bootstrap-server SERVER --topic kafka_test", stdin="hello\n")
    consume = "bin/kafka-console-consumer.sh --bootstrap-server SERVER --topic kafka_test --from-beginning"
    assert kraft.types(f"{consume} --max-messages 1").startswith("hello\n")

    log = "data/kraft-combined-logs/__cluster_metadata-0/00000000000000000000"
    dumped = kraft.types(
        "bin/kafka-dump-log.sh --cluster-metadata-decoder --skip-record-metadata "
        f"--files {log}.index,{log}.log"
    )
    assert f"Dumping {log}.index" in dumped
    assert '"type":"TOPIC_RECORD","version":0,"data":{"name":"kafka_test"' in dumped
    assert dumped.count('"type":"PARTITION_RECORD"') >= 3

    shell = f"bin/kafka-metadata-shell.sh --snapshot {log}.log"
    assert "kafka_test" in kraft.types(f"{shell} ls /image/topics/byName").split()
    assert "kafka_test" in kraft.types(f"{shell} find /image/topics")
    assert "kafka_test" in kraft.types(f"{shell} tree /image/topics")
    typed = "cd /image/topics/byName\nls\ncat kafka_test/name\nexit\n"
    assert "kafka_test" in kraft.types(shell, stdin=typed)


@pytest.mark.parametrize("config", ["config/kraft/server.properties", "config/kraft/controller.properties"])
def test_a_sample_configuration_starts_unchanged(config: str) -> None:
    with quick_folder() as folder:
        book = started(folder, config)
        book.types("bin/kafka-server-stop.sh")
