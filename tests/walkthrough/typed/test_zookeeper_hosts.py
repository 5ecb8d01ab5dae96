"""Walk-through 2: three hosts with ZooKeeper and a broker each, as typed; and walk-through 3 on them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.ensemble import why_no_zookeeper
from tests.walkthrough.nodes import eventually
from tests.walkthrough.typed.test_elections import TOPIC, create
from tests.walkthrough.typed.workers import SERVERS, Worker
from tests.walkthrough.typed.zookeeper_workers import (
    CHROOT,
    ENSEMBLE,
    mode,
    three_workers_on_zookeeper,
    znode,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
]

CHECKPOINTS = {
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


def has_checkpoints(worker: Worker) -> bool:
    return set(worker.type("ls kafka-logs").split()) >= CHECKPOINTS


def test_three_hosts_on_zookeeper(tmp_path: Path) -> None:
    # M-B1 M-B2 M-B3 M-J2
    with three_workers_on_zookeeper(tmp_path) as workers:
        assert sorted(map(mode, workers)) == ["follower", "follower", "leader"]
        created = workers[1].type(
            "bin/kafka-topics.sh --create --topic disTopic --partitions 4 --replication-factor 2 "
            f"--bootstrap-server {SERVERS}"
        )
        assert created == "Created topic disTopic.\n"
        listed = workers[2].type(f"bin/kafka-topics.sh --list --bootstrap-server {SERVERS}")
        assert listed == "disTopic\n"
        described = workers.described("disTopic")
        assert sorted(described) == [0, 1, 2, 3]
        held: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
        for partition, (leader, replicas, isr) in described.items():
            assert replicas == isr
            assert leader == replicas.partition(",")[0]
            for broker in replicas.split(","):
                held[int(broker)].add(f"disTopic-{partition}")

        produce = f"bin/kafka-console-producer.sh --broker-list {SERVERS} --topic disTopic"
        workers[1].type(produce, given="one\ntwo\n")
        consume = f"bin/kafka-console-consumer.sh --bootstrap-server {SERVERS} --topic disTopic --group g"
        read = workers[3].type(f"{consume} --from-beginning --max-messages 2")
        assert sorted(read.splitlines()) == ["one", "two"]
        for worker in workers:
            folders = set(worker.type("ls kafka-logs").split())
            assert held[worker.node_id] == {name for name in folders if name.startswith("disTopic-")}
            assert any(name.startswith("__consumer_offsets-") for name in folders)
            eventually(partial(has_checkpoints, worker), "a checkpoint file is missing")

        ids = workers[1].type(f"bin/zookeeper-shell.sh {ENSEMBLE}{CHROOT} ls /brokers/ids")
        assert ids.endswith("\n[0, 1, 2]\n")
        assigned = json.loads(znode(workers, "/brokers/topics/disTopic"))
        assert assigned["version"] == 3
        assert {int(number): ",".join(map(str, each)) for number, each in assigned["partitions"].items()} == {
            partition: replicas for partition, (_, replicas, _) in described.items()
        }
        controller = json.loads(znode(workers, "/controller"))["brokerid"]
        epoch = int(znode(workers, "/controller_epoch"))
        workers[controller + 1].kill()
        eventually(
            lambda: int(znode(workers, "/controller_epoch")) == epoch + 1, "nobody has become controller"
        )
        assert json.loads(znode(workers, "/controller"))["brokerid"] != controller


def test_elections_in_zookeeper_mode(tmp_path: Path) -> None:
    # M-D3 M-D4 M-D7
    with three_workers_on_zookeeper(tmp_path) as workers:
        partition = create(workers)
        _, replicas, _ = workers.described(TOPIC)[partition]
        _, second, third = replicas.split(",")

        workers[1].type("bin/kafka-server-stop.sh")
        left = (second, replicas, f"{second},{third}")
        eventually(lambda: workers.described(TOPIC)[partition] == left, "broker 0 is still in the ISR")
        state = json.loads(znode(workers, f"/brokers/topics/{TOPIC}/partitions/{partition}/state"))
        assert (state["leader"], state["leader_epoch"]) == (int(second), 1)
        assert state["isr"] == [int(second), int(third)]

        said = workers[1].type("bin/kafka-server-start.sh -daemon config/server.properties")
        assert "the server listens" in said
        back = (second, replicas, f"{second},{third},0")
        eventually(lambda: workers.described(TOPIC)[partition] == back, "broker 0 did not rejoin the ISR")
        elected = workers[1].type(
            f"bin/kafka-leader-election.sh --election-type preferred --topic {TOPIC} --partition {partition} "
            f"--bootstrap-server {SERVERS}"
        )
        assert elected == (
            f"Successfully completed leader election (PREFERRED) for partitions {TOPIC}-{partition}\n"
        )
        assert workers.described(TOPIC)[partition] == ("0", *back[1:])
        cat = f"cat kafka-logs/{TOPIC}-{partition}/leader-epoch-checkpoint"
        eventually(lambda: workers[1].type(cat) == "0\n1\n2 0\n", "leader epoch 2 is not in the checkpoint")
