"""Brokers of both kinds beside a controller of either: partitions move between them and each is killed, under load.

M-D2, M-D5, M-D6; cluster.md 1 and 2 with Apache Kafka as the judge.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.verify.quorum.mixed_cluster import APACHE, OURS, VERSIONS, mixed_cluster
from tests.verify.replication.brokers import Brokers, await_none
from tests.verify.replication.recorded_load import PARTITIONS, TOPICS, RecordedLoad
from tests.verify.replication.replica_files import differences

BROKERS = (1, 2, 3)
KINDS = {
    # Two of its brokers and one of ours, and the other way round, in either quorum.
    "one-of-ours": {101: APACHE, 1: APACHE, 2: OURS, 3: APACHE},
    "one-of-its": {101: OURS, 1: OURS, 2: APACHE, 3: OURS},
}
# Each broker loses its replicas, and gets them from others.
MOVES = [(1, 2), (2, 3), (3, 1), BROKERS]
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "5000",
    "broker.heartbeat.interval.ms": "1000",
    "auto.create.topics.enable": "false",
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_move_and_leaders_are_killed_under_load(
    oracle: Callable[..., Any], tmp_path: Path, version: str, kinds: dict[int, str]
) -> None:
    home = tmp_path / "cluster"
    with mixed_cluster(oracle, version, home, kinds, is_dynamic=True, settings=SETTINGS) as cluster:
        brokers = Brokers({number: ("localhost", cluster.members[number].port) for number in BROKERS})
        brokers.create(TOPICS)
        folders = [cluster.members[number].home / "data" for number in BROKERS]
        load = RecordedLoad(brokers.bootstrap)
        try:
            for replicas in MOVES:
                load.await_step(f"before the move to {replicas}")
                brokers.move(TOPICS, replicas)
            for victim in BROKERS:
                step = f"({cluster.kind_of(victim)} {victim} is killed)"
                load.await_step_led_by(brokers, victim, f"before {step}")
                cluster.kill(victim)
                load.await_step(f"during {step}")
                cluster.start(victim)
                brokers.await_whole(f"after {step}")
            anomalies = load.finish(folders)
        finally:
            load.stop()
        assert anomalies == []
        await_none("the replicas are equal", lambda: differences(folders, PARTITIONS))
        assert cluster.faults() == []
