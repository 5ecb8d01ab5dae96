"""A cluster of the kit as its user sees it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from barnabas.config.errors import ConfigError
from barnabas.testing import Cluster, WaitTimeoutError
from barnabas.testing.kit.cluster import ModeName


def test_records_come_back_with_all_that_was_sent() -> None:
    with Cluster() as cluster:
        topic = cluster.topic("orders")
        topic.send({"id": 1}, key="a", headers={"h": "x"})
        topic.send("text", key=b"b")
        topic.send(None, key="a")
        first, second, third = topic.records(3)
    assert (first.key, first.json, first.headers) == (b"a", {"id": 1}, [("h", b"x")])
    assert (second.key, second.value, second.headers) == (b"b", b"text", [])
    assert (third.value, third.json) == (None, None)


def test_records_of_all_partitions_are_found() -> None:
    with Cluster() as cluster:
        topic = cluster.topic("orders", partitions=3)
        for partition in range(3):
            topic.send(partition, partition=partition)
        assert {(each.partition, each.json) for each in topic.records(3)} == {(0, 0), (1, 1), (2, 2)}


def test_a_wait_in_vain_says_what_is_missing() -> None:
    with Cluster() as cluster:
        topic = cluster.topic("orders")
        topic.send("only")
        with pytest.raises(
            WaitTimeoutError, match=r"orders has 1 of 2 records after 0\.2 s: no more were written; .*only"
        ):
            topic.records(2, timeout=0.2)


def test_topics_of_three_brokers_have_three_replicas() -> None:
    with Cluster(3) as cluster:
        cluster.topic("orders")
        partition = cluster.admin.describe_topics(["orders"])["orders"].partitions[0]
        assert len(partition.replicas) == 3


@pytest.mark.parametrize("mode", ["kraft", "zookeeper"])
def test_ids_may_begin_with_0_as_in_many_containers(mode: ModeName) -> None:
    with Cluster(2, first_id=0, mode=mode) as cluster:
        assert cluster.brokers == [0, 1]
        topic = cluster.topic("orders", partitions=2)
        assert {cluster.leader("orders", 0), cluster.leader("orders", 1)} == {0, 1}
        with cluster.kill(0).wait_election():
            assert cluster.leader("orders", 0) == cluster.leader("orders", 1) == 1
            assert cluster.controller != 0
            topic.send("a", partition=0)
        assert cluster.topic_names() == {"orders"}


def test_a_folder_keeps_the_files_and_is_not_used_twice(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    with Cluster(folder=folder) as cluster:
        cluster.topic("orders").send("here")
    assert (tmp_path / "data" / "1" / "orders-0" / "00000000000000000000.log").read_bytes()
    with pytest.raises(ValueError, match="not empty"):
        Cluster(folder=folder).start()


def test_nothing_is_left_after_a_stop_or_a_start_that_failed() -> None:
    before = set(threading.enumerate())
    with Cluster(3) as cluster:
        cluster.topic("orders").send("here")
    with pytest.raises(RuntimeError, match="not running"):
        _ = cluster.bootstrap_servers
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Cluster(options={"num.partitions": "many"}).start()
    assert set(threading.enumerate()) <= before


def test_a_cluster_that_is_started_again_is_a_new_one() -> None:
    cluster = Cluster()
    for _ in range(2):
        with cluster:
            cluster.topic("orders")
            with pytest.raises(RuntimeError, match="running already"):
                cluster.start()


def test_a_cluster_without_brokers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Cluster(0)
