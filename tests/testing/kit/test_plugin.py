"""The pytest plugin, in a pytest of its own, as in a project that has the package installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from barnabas.testing import Cluster

TESTS = """
import pytest

names = []

@pytest.mark.parametrize("number", [1, 2])
def test_orders(kafka, number):
    topic = kafka.topic("orders", partitions=3)
    names.append(topic.name)
    topic.send({"id": number}, key="a")
    assert topic.records(n=1, timeout=30)[0].json == {"id": number}

def test_names_are_fresh_and_topics_are_gone(kafka):
    from barnabas.client.sync import Admin

    assert len(set(names)) == 2
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert not set(names) & set(admin.list_topics())

def test_a_test_may_delete_its_topic_itself(kafka):
    from barnabas.client.sync import Admin

    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_topics([kafka.topic("orders").name]).raise_first()
"""
REST_TESTS = """
import pytest
from confluent_kafka import Consumer, Producer

def test_what_an_application_makes_is_gone(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("made-by-the-application", b"1")
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "application",
                         "auto.offset.reset": "earliest"})
    consumer.subscribe(["made-by-the-application"])
    assert consumer.poll(60).value() == b"1"
    consumer.close()
    kafka.group("application").wait_caught_up(timeout=60)

def test_nothing_is_left(kafka):
    assert kafka.topics.topic_names() == set()
    assert kafka.topics.group_ids() == set()

def test_a_name_may_be_exact(kafka):
    assert kafka.topic("orders", exact=True).name == "orders"

def test_time_and_faults_are_not_for_a_shared_broker(kafka):
    from barnabas.testing import KitError

    with pytest.raises(KitError, match="shared by all tests.*fixtures cluster and clock"):
        kafka.clock
    with pytest.raises(KitError, match="use the fixture cluster for faults"):
        kafka.faults

def test_coroutines(async_kafka):
    import asyncio

    async def work():
        topic = await async_kafka.topic("orders")
        await topic.send({"id": 1})
        assert (await topic.records(1, timeout=60))[0].json == {"id": 1}
        group = async_kafka.group("nobody")
        with pytest.raises(AssertionError, match="there is no group nobody"):
            await group.wait_caught_up(timeout=0.01)

    asyncio.run(work())

def test_coroutines_on_a_cluster(async_cluster):
    import asyncio

    async def work():
        topic = await async_cluster.topic("orders")
        await topic.send("a")
        assert len(await topic.records(1, timeout=60)) == 1

    asyncio.run(work())
"""
FAILING = """
def test_it(kafka):
    topic = kafka.topic("orders")
    topic.send("the only one")
    assert len(topic.records(2, timeout=0.1)) == 2
"""
WORKERS = """
import os
import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(kafka, number, tmp_path_factory):
    place = tmp_path_factory.getbasetemp().parent / os.environ["PYTEST_XDIST_WORKER"]
    place.write_text(kafka.bootstrap_servers)
    others = {path.read_text() for path in place.parent.glob("gw*") if path != place}
    assert kafka.bootstrap_servers not in others
"""
CLUSTER_TESTS = """
import pytest

@pytest.mark.barnabas(brokers=3)
def test_three(cluster):
    assert len(cluster.bootstrap_servers.split(",")) == 3

def test_one(cluster):
    assert len(cluster.bootstrap_servers.split(",")) == 1

@pytest.mark.barnabas(brokers=2, mode="zookeeper")
def test_two_on_zookeeper(cluster):
    assert len(cluster.brokers) == 2
    assert cluster.controller in cluster.brokers
"""
IDLE = """
import sys

def test_no_broker_is_imported_unless_one_is_wanted():
    assert "barnabas.testing.kit.plugin" in sys.modules
    assert not {"barnabas.broker", "barnabas.client", "barnabas.testing.kit.cluster"} & set(sys.modules)
"""
BOOTSTRAP = """
def test_it_is_the_given_cluster(kafka, request):
    assert kafka.bootstrap_servers == request.config.getoption("--barnabas-bootstrap")
    topic = kafka.topic("orders")
    topic.send("here")
    assert topic.records()[0].value == b"here"
"""


def outcome_of(folder: Path, text: str, *options: str) -> str:
    """The last lines of a run of pytest."""
    (folder / "test_it.py").write_text(text, "utf-8")
    # This test may run in a worker of xdist; the run that it starts does not.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--rootdir", str(folder)]
    command += ["-p", "barnabas.testing.kit.plugin", *options, "test_it.py"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def test_the_session_broker_has_fresh_topics_for_every_test(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, TESTS)
    assert "4 passed" in result and "error" not in result, result


def test_the_marker_says_how_many_brokers(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, CLUSTER_TESTS)
    assert "3 passed" in result, result


def test_everything_is_gone_after_a_test(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, REST_TESTS)
    assert "6 passed" in result and "error" not in result, result


def test_the_report_of_a_failure_shows_topics_and_timeline(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, FAILING)
    assert "1 failed" in result, result
    assert "WaitTimeoutError: the topic orders-" in result and "no more were written" in result, result
    assert "b'the only one'" in result.partition("- barnabas -")[2], result
    assert "broker-registered broker 1" in result, result


def test_each_worker_has_a_broker_of_its_own(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, WORKERS, "-p", "xdist", "-n", "2")
    assert "4 passed" in result, result


def test_topics_and_files_are_kept_if_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    result = outcome_of(tmp_path, FAILING, "--barnabas-keep", str(folder))
    assert "1 failed" in result, result
    logs = list(folder.glob("main/session/1/orders-*/*.log"))
    assert [b"the only one" in log.read_bytes() for log in logs] == [True]


def test_it_costs_nothing_unless_used(tmp_path: Path) -> None:
    result = outcome_of(tmp_path, IDLE)
    assert "1 passed" in result, result


def test_the_same_tests_run_on_another_cluster(tmp_path: Path) -> None:
    with Cluster() as cluster:
        result = outcome_of(tmp_path, BOOTSTRAP, "--barnabas-bootstrap", cluster.bootstrap_servers)
        assert "1 passed" in result, result
        assert "orders" not in str(list(cluster.admin.list_topics()))
