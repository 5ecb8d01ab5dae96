"""Walk-through 3: a broker stops, comes back, and leads again; each step as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.walkthrough.nodes import eventually
from tests.walkthrough.typed.workers import SERVERS, Workers, three_workers

TOPIC = "secondTopic"


def create(workers: Workers) -> int:
    """Creates the topic on three brokers; returns a partition that broker 0 leads."""
    created = workers[1].type(
        f"bin/kafka-topics.sh --create --topic {TOPIC} --partitions 4 --replication-factor 3 "
        f"-bootstrap-server {SERVERS}"
    )
    assert created == f"Created topic {TOPIC}.\n"
    first = workers.described(TOPIC)
    assert sorted(first) == [0, 1, 2, 3]
    for leader, replicas, isr in first.values():
        assert leader == replicas[0]
        assert sorted(replicas.split(",")) == ["0", "1", "2"]
        assert isr == replicas
    return next(partition for partition, (leader, _, _) in first.items() if leader == "0")


def test_a_broker_stops_and_leads_again(tmp_path: Path) -> None:
    # M-D3 M-D4 M-D7
    with three_workers(tmp_path) as workers:
        partition = create(workers)
        _, replicas, _ = workers.described(TOPIC)[partition]
        _, second, third = replicas.split(",")

        workers[1].type("bin/kafka-server-stop.sh")
        without = workers.described(TOPIC)
        assert all("0" not in isr.split(",") for _, _, isr in without.values())
        assert without[partition] == (second, replicas, f"{second},{third}")
        assert without.keys() == workers.described(TOPIC, "--under-replicated-partitions").keys()
        assert workers.described(TOPIC, "--unavailable-partitions") == {}

        workers[1].start()
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
        # It is written a moment after the change.
        eventually(lambda: workers[1].type(cat) == "0\n1\n2 0\n", "leader epoch 2 is not in the checkpoint")


@pytest.mark.slow
def test_the_automatic_balance_moves_leaders_back(tmp_path: Path) -> None:
    # M-D4
    with three_workers(tmp_path, {"leader.imbalance.check.interval.seconds": "1"}) as workers:
        partition = create(workers)
        workers[1].type("bin/kafka-server-stop.sh")
        assert workers.described(TOPIC)[partition][0] != "0"
        workers[1].start()
        eventually(lambda: workers.described(TOPIC)[partition][0] == "0", "broker 0 does not lead again")
