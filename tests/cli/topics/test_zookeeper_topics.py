"""`barnabas topics --zookeeper` writes znodes, and the controller acts on them, as with tools of Kafka 2."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.topics.zookeeper_topics import NOTICE
from barnabas.runtime.zookeeper.blocking import BlockingZooKeeper
from tests.broker.worlds.zookeeper_world import ZooKeeperBrokers
from tests.cli.conftest import Call, CommandResult


@pytest.fixture
def cluster(zookeeper_connect: str) -> Iterator[ZooKeeperBrokers]:
    with ZooKeeperBrokers(zookeeper_connect, 2) as cluster:
        yield cluster


@pytest.fixture
def topics(cluster: ZooKeeperBrokers, barnabas: Call) -> Call:
    """`topics --zookeeper` with further arguments, which says once what it does."""

    def call(*arguments: str) -> CommandResult:
        result = barnabas("topics", "--zookeeper", cluster.connect, *arguments)
        assert result.err.startswith(NOTICE + "\n")
        return CommandResult(result.code, result.out, result.err.removeprefix(NOTICE + "\n"))

    return call


@pytest.fixture
def znode(cluster: ZooKeeperBrokers) -> Iterator[Callable[[str], object]]:
    """The JSON of a znode; None if it is missing."""
    with BlockingZooKeeper(cluster.connect, 60_000) as zookeeper:

        def read(path: str) -> object:
            found = zookeeper.run(partial(zookeeper.client.get, path))
            return None if found is None else json.loads(found.data or b"null")

        yield read


def described(topics: Call, topic: str) -> list[str]:
    result = topics("--describe", "--topic", topic)
    assert result.code == 0, result.err
    return [line for line in result.out.splitlines() if line.startswith("\t")]


def test_a_topic_from_creation_to_deletion(  # M-B6
    cluster: ZooKeeperBrokers, topics: Call, znode: Callable[[str], object]
) -> None:
    created = topics(
        *("--create", "--topic", "old", "--partitions", "2", "--replication-factor", "2"),
        *("--config", "retention.ms=1000"),
    )
    assert (created.code, created.out, created.err) == (0, "Created topic old.\n", "")
    assert znode("/config/topics/old") == {"version": 1, "config": {"retention.ms": "1000"}}
    # The controller elects leaders, and gives the topic its id.
    cluster.until(lambda: all("Leader: none" not in line for line in described(topics, "old")))
    cluster.until(lambda: "topic_id" in str(znode("/brokers/topics/old")))
    assert topics("--list").out == "old\n"
    first, *lines = topics("--describe").out.splitlines()
    assert first.startswith("Topic: old\tTopicId: ")
    assert first.endswith("\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: retention.ms=1000")
    assert [line.split("\tLeader")[0] for line in lines] == [
        "\tTopic: old\tPartition: 0",
        "\tTopic: old\tPartition: 1",
    ]
    grown = topics("--alter", "--topic", "old", "--partitions", "3")
    assert (grown.code, grown.out) == (0, "Adding partitions succeeded!\n")
    assert grown.err.startswith("WARNING: If partitions are increased for a topic that has a key")
    cluster.until(lambda: znode("/brokers/topics/old/partitions/2/state") is not None)
    altered = topics("--alter", "--topic", "old", "--config", "retention.ms=2000", "--delete-config", "x")
    assert altered.out == "Updated config for topic old.\n"
    assert znode("/config/topics/old") == {"version": 1, "config": {"retention.ms": "2000"}}
    deleted = topics("--delete", "--topic", "old")
    assert deleted.out == (
        "Topic old is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n"
    )
    cluster.until(lambda: znode("/brokers/topics/old") is None)
    assert topics("--list").out == ""


def test_what_it_refuses(topics: Call, znode: Callable[[str], object]) -> None:
    assert topics("--create", "--topic", "t", "--replica-assignment", "1,2").code == 0
    for arguments, error in (
        (
            ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1"),
            "Topic 't' already exists.",
        ),
        (
            ("--create", "--topic", "wide", "--partitions", "1", "--replication-factor", "3"),
            "Replication factor: 3 larger than available brokers: 2.",
        ),
        (
            ("--alter", "--topic", "t", "--partitions", "2"),
            (
                "The number of partitions for a topic can only be increased. Topic t currently has 2 partitions, "
                "2 would not be an increase."
            ),
        ),
        (("--delete", "--topic", "none"), "Topic 'none' does not exist as expected"),
        (("--describe", "--topic", "none"), "Topic 'none' does not exist as expected"),
        (
            ("--create", "--topic", "a b", "--partitions", "1", "--replication-factor", "1"),
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'"
            ),
        ),
    ):
        result = topics(*arguments)
        assert result.code in (Exit.FAILED, Exit.NOT_FOUND), arguments
        assert f"Error while executing topic command : {error}\n" in result.err
    again = ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1", "--if-not-exists")
    assert topics(*again).code == 0
    assert topics("--delete", "--topic", "none", "--if-exists").code == 0
    assert znode("/brokers/topics/wide") is None
    assert znode("/config/topics/wide") is None


def test_a_malformed_znode_is_reported_and_left_alone(  # M-B6
    topics: Call, cluster: ZooKeeperBrokers
) -> None:
    with BlockingZooKeeper(cluster.connect, 60_000) as zookeeper:
        zookeeper.run(partial(zookeeper.client.create, "/brokers/topics/odd", b"{no json"))
        result = topics("--describe", "--topic", "odd")
        assert result.code == Exit.FAILED
        assert result.err.count("\n") == 1
        assert "the znode /brokers/topics/odd cannot be read: " in result.err
        found = zookeeper.run(partial(zookeeper.client.get, "/brokers/topics/odd"))
        assert found is not None
        assert (found.data, found.stat.version) == (b"{no json", 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--create", "--topic", "t"),
        ("--create", "--topic", "t", "--partitions", "1"),
        ("--alter", "--topic", "t"),
        ("--describe", "--under-min-isr-partitions"),
        ("--describe", "--topic-id", "x"),
    ],
)
def test_flags_that_do_not_fit(zookeeper_connect: str, barnabas: Call, arguments: tuple[str, ...]) -> None:
    result = barnabas("topics", "--zookeeper", zookeeper_connect, *arguments)
    assert result.code == Exit.USAGE
    assert result.err.count("\n") == 1
