"""What is written straight into ZooKeeper, by old tools, other brokers and mistake, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.broker.modes.zookeeper.znodes import admin, configs, paths
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from tests.broker.modes.zookeeper.controller.nodes import Nodes
from tests.broker.modes.zookeeper.controller.steps import OPTIONS, Steps
from tests.runtime.zookeeper.drivers import RealDriver


@pytest.fixture
def steps(zookeeper_connect: str) -> Iterator[Steps]:
    driver = RealDriver(zookeeper_connect)
    nodes = Nodes(driver)
    try:
        yield Steps(nodes)
    finally:
        nodes.end()
        driver.end()


def content(steps: Steps, path: str) -> Any:
    """The JSON of a znode; None if it does not exist."""
    znode = steps.driver.run(lambda: steps.client.get(path))
    return None if znode is None or znode.data is None else json.loads(znode.data)


def wait_for(steps: Steps, path: str, **wanted: object) -> Any:
    """Once the znode has these values; without any, once it is gone."""
    for _ in range(2_000):
        found = content(steps, path)
        if found is None if not wanted else found is not None and wanted.items() <= found.items():
            return found
    raise AssertionError(f"{path} is {content(steps, path)}, not {wanted or 'gone'}")


def put(steps: Steps, path: str, data: bytes) -> None:
    steps.driver.run(lambda: steps.client.set_data(path, data))


def state(name: str, number: int = 0) -> str:
    return paths.partition_state(name, number)


def test_a_topic_of_an_old_tool_gets_an_id_and_leaders(steps: Steps) -> None:  # M-B6
    steps.start(1, 2)
    steps.write(paths.topic("old"), b'{"version":1,"partitions":{"0":[2,1],"1":[1,2]}}')
    wait_for(steps, state("old"), leader=2, isr=[2, 1], leader_epoch=0)
    wait_for(steps, state("old", 1), leader=1, isr=[1, 2])
    found = wait_for(steps, paths.topic("old"), version=3, partitions={"0": [2, 1], "1": [1, 2]})
    assert found["topic_id"] == str(steps.nodes.active().image.topic_ids["old"])


def test_a_topic_that_nobody_could_lead_is_led_once_a_replica_lives(steps: Steps) -> None:  # M-B6
    steps.start(1)
    steps.write(paths.topic("early"), b'{"version":2,"partitions":{"0":[2,3]}}')
    controller = steps.nodes.active()
    steps.driver.until(lambda: "early" in controller.image.topic_ids)
    assert content(steps, state("early")) is None
    steps.start(2)
    wait_for(steps, state("early"), leader=2, isr=[2], leader_epoch=0)


def test_partitions_that_were_added_by_hand(steps: Steps) -> None:  # M-B6
    steps.start(1, 2)
    steps.create("grows", [1, 2])
    grown = content(steps, paths.topic("grows"))
    grown["partitions"]["1"] = [2, 1]
    put(steps, paths.topic("grows"), json.dumps(grown).encode())
    wait_for(steps, state("grows", 1), leader=2, isr=[2, 1])


def test_a_znode_that_cannot_be_read_is_left_alone(steps: Steps, caplog: pytest.LogCaptureFixture) -> None:
    # M-B6
    steps.start(1)
    steps.write(paths.topic("broken"), b'{"partitions":{"0":"[1]"}')
    steps.write(paths.REASSIGN_PARTITIONS, b"tomorrow")
    steps.create("whole", [1])
    wait_for(steps, state("whole"), leader=1)
    steps.kill_and_start(1)
    steps.create("next", [1])
    wait_for(steps, state("next"), leader=1, controller_epoch=2)
    znode = steps.driver.run(lambda: steps.client.get(paths.topic("broken")))
    assert znode is not None
    assert znode.data == b'{"partitions":{"0":"[1]"}'
    assert steps.driver.run(lambda: steps.client.get(paths.REASSIGN_PARTITIONS)) is not None
    assert "/brokers/topics/broken cannot be read: it is no JSON" in caplog.text
    assert "/admin/reassign_partitions cannot be read: it is no JSON" in caplog.text


def test_requests_to_delete_topics(steps: Steps) -> None:  # M-B4 M-B6
    steps.start(1)
    steps.create("leaves", [1])
    steps.write(paths.delete_topic("never-was"), b"")
    steps.write(paths.delete_topic("leaves"), b"")
    wait_for(steps, paths.topic("leaves"))
    assert steps.driver.run(lambda: steps.client.children(paths.DELETE_TOPICS)) == []


def test_requests_to_delete_topics_where_that_is_disabled(steps: Steps) -> None:
    steps.nodes.start(1, options={**OPTIONS, "delete.topic.enable": "false"})
    steps.nodes.settle()
    steps.create("stays", [1])
    steps.write(paths.delete_topic("stays"), b"")
    for _ in range(2_000):
        if steps.driver.run(lambda: steps.client.children(paths.DELETE_TOPICS)) == []:
            break
    assert content(steps, paths.topic("stays")) is not None
    assert steps.driver.run(lambda: steps.client.children(paths.DELETE_TOPICS)) == []


def test_an_isr_that_an_old_broker_has_written(steps: Steps) -> None:  # M-B4
    steps.start(1, 2)
    steps.create("shrunk", [1, 2])
    wait_for(steps, state("shrunk"), leader=1)
    put(steps, state("shrunk"), b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}')
    notice = admin.encode_partitions([("shrunk", 0)])
    steps.write(f"{paths.ISR_CHANGES}/isr_change_0000000000", notice)
    controller = steps.nodes.active()

    def is_adopted() -> bool:
        topic = controller.image.topic_named("shrunk")
        return topic is not None and topic.partitions[0].isr == (1,)

    steps.driver.until(is_adopted)
    steps.driver.until(lambda: steps.nodes.brokers[2].known["shrunk", 0].isr == [1])
    # The controller goes on from there.
    steps.catch_up("shrunk", 0, [1, 2])
    wait_for(steps, state("shrunk"), isr=[1, 2], leader_epoch=0)


def test_replicas_in_a_log_directory_that_has_failed(steps: Steps) -> None:  # M-B4
    steps.start(1, 2)
    steps.create("moves", [1, 2])
    steps.create("alone", [1])
    wait_for(steps, state("alone"), leader=1)
    steps.nodes.brokers[1].lost |= {("moves", 0), ("alone", 0)}
    steps.write(f"{paths.LOG_DIR_EVENTS}/log_dir_event_0000000000", admin.encode_log_dir_event(1))
    wait_for(steps, state("moves"), leader=2, isr=[2], leader_epoch=1)
    # The last replica stays in the ISR.
    wait_for(steps, state("alone"), leader=-1, isr=[1], leader_epoch=1)
    steps.driver.until(lambda: steps.nodes.brokers[2].known["moves", 0].offline_replicas == [1])


def test_an_unclean_election_is_allowed_by_an_option(steps: Steps) -> None:  # M-D3
    steps.start(1, 2)
    assert steps.nodes.active().controller_id == 1
    steps.create("gap", [2, 1])
    # Broker 1 leaves the ISR, then the last member dies.
    put(steps, state("gap"), b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2]}')
    notice = admin.encode_partitions([("gap", 0)])
    steps.write(f"{paths.ISR_CHANGES}/isr_change_0000000000", notice)
    steps.driver.until(lambda: steps.nodes.brokers[1].known["gap", 0].isr == [2])
    steps.kill(2)
    wait_for(steps, state("gap"), leader=-1, isr=[2])
    options = configs.encode_configs({"unclean.leader.election.enable": "true"})
    put(steps, paths.topic_config("gap"), options)
    steps.write(f"{paths.CONFIG_CHANGES}/config_change_0000000000", configs.encode_change("topics/gap"))
    wait_for(steps, state("gap"), leader=1, isr=[1], leader_epoch=2, leader_recovery_state=1)


def test_the_controller_is_removed_by_hand(steps: Steps) -> None:  # M-B3
    steps.start(1, 2)
    steps.create("kept", [1, 2])
    before = steps.nodes.active().active_epoch
    assert before == 1
    steps.driver.run(lambda: steps.client.delete(paths.CONTROLLER))
    steps.driver.until(
        lambda: any(each.active_epoch == before + 1 for each in steps.nodes.controllers.values())
    )
    steps.nodes.settle()
    steps.create("later", [1, 2])
    wait_for(steps, state("later"), controller_epoch=2)


def test_an_election_whose_answer_is_lost(steps: Steps) -> None:  # M-B3
    """The winner takes over, in the epoch that it has won (KAFKA-13407)."""
    # cluster.md 25
    steps.start(1)
    client, controller = steps.nodes.clients[1], steps.nodes.active()
    steps.driver.run(lambda: steps.client.delete(paths.CONTROLLER))
    steps.driver.lose_next_answer(client)
    steps.driver.until(lambda: (controller.active_epoch or 0) >= 2)
    steps.create("after", [1])
    wait_for(steps, state("after"), controller_epoch=controller.active_epoch, leader=1)
    steps.driver.until(lambda: controller.store.epoch is not None)
    assert int(content(steps, paths.CONTROLLER_EPOCH)) == controller.active_epoch


def test_more_replicas_than_brokers(steps: Steps) -> None:
    steps.start(1, 2)
    topic = CreateTopicsRequest.CreatableTopic(
        name="wide", num_partitions=1, replication_factor=3, assignments=[], configs=[]
    )
    response = steps.nodes.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    found = response.topics[0]  # type: ignore[attr-defined]
    assert found.error_message == "Replication factor: 3 larger than available brokers: 2."
