"""Replicas of both kinds in one cluster: leaders are killed under load, and the logs are the same bytes.

M-D2, M-D5, M-D6; cluster.md 1 and 2 with Apache Kafka as the judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.view import BatchView, batches
from tests.verify.quorum.metadata_files import epoch_starts
from tests.verify.quorum.mixed_cluster import APACHE, OURS, MixedCluster, mixed_cluster, wait_for
from tests.verify.replication.confluent_load import ConfluentLoad, read_all

PARTITIONS = 6
TOPIC = "replicated"
BROKERS = (1, 2, 3)
KINDS = {
    # Two of its brokers and one of ours, and the other way round, in either quorum.
    "one-of-ours": {101: APACHE, 1: APACHE, 2: OURS, 3: APACHE},
    "one-of-its": {101: OURS, 1: OURS, 2: APACHE, 3: OURS},
}
RECORDS = 2_000


@pytest.mark.parametrize("kinds", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("version", ["4.1.0", "4.3.1"])
def test_leaders_of_both_kinds_are_killed_under_load(
    oracle: Callable[..., Any], tmp_path: Path, version: str, kinds: dict[int, str]
) -> None:
    home = tmp_path / "cluster"
    with mixed_cluster(oracle, version, home, kinds, is_dynamic=True, settings={}) as cluster:
        bootstrap = ",".join(cluster.members[number].bootstrap for number in BROKERS)
        _create(cluster)
        load = ConfluentLoad(bootstrap, TOPIC)
        try:
            for victim in BROKERS:
                load.wait_for_more(RECORDS)
                cluster.kill(victim)
                load.wait_for_more(RECORDS)
                cluster.start(victim)
                wait_for(f"the ISR is full after {victim} was killed", lambda: _isr_is_full(cluster))
        finally:
            load.stop()
        assert load.failed == []
        found = read_all(bootstrap, TOPIC, PARTITIONS)
        wrong = {place: value for place, value in load.acknowledged.items() if found.get(place) != value}
        assert wrong == {}
        assert len(set(found.values())) == len(found), "a record is there twice"
        wait_for("all logs are equal", lambda: all(len(each) == 1 for each in _contents(cluster)))
        for number in BROKERS:
            cluster.stop(number)
        for partition in range(PARTITIONS):
            folders = [_folder(cluster, number, partition) for number in BROKERS]
            assert len({_written_epochs(folder) for folder in folders}) == 1
        assert cluster.faults() == []


def _create(cluster: MixedCluster) -> None:
    topics = [
        {
            "name": TOPIC,
            "num_partitions": PARTITIONS,
            "replication_factor": 3,
            "configs": [{"name": "min.insync.replicas", "value": "2"}],
        }
    ]

    def created() -> bool:
        answer = cluster.ask(cluster.members[1], "CreateTopics", 7, topics=topics, timeout_ms=30_000)
        return answer is not None and answer["topics"][0]["error_code"] in (0, 36)

    wait_for("the topic is created", created)
    wait_for("the ISR is full", lambda: _isr_is_full(cluster))


def _isr_is_full(cluster: MixedCluster) -> bool:
    for number in BROKERS:
        answer = cluster.ask(cluster.members[number], "Metadata", 9, topics=[{"name": TOPIC}])
        if answer is None or answer["topics"][0]["error_code"]:
            return False
        if any(len(each["isr_nodes"]) < len(BROKERS) for each in answer["topics"][0]["partitions"]):
            return False
    return True


def _folder(cluster: MixedCluster, number: int, partition: int) -> Path:
    return cluster.members[number].home / "data" / f"{TOPIC}-{partition}"


def _contents(cluster: MixedCluster) -> list[set[bytes]]:
    return [
        {_batches(_folder(cluster, number, partition)) for number in BROKERS}
        for partition in range(PARTITIONS)
    ]


def _written_epochs(folder: Path) -> tuple[tuple[int, int], ...]:
    """The epochs that have records: the last leaders, while all stopped one after another, wrote none."""
    end = max(batch.next_offset for batch in _views(folder))
    return tuple((epoch, start) for epoch, start in epoch_starts(folder).items() if start < end)


def _batches(folder: Path) -> bytes:
    """The batches of all segments; where a segment ends is each broker's own business."""
    return b"".join(bytes(memoryview(batch.buffer)[batch.start : batch.end]) for batch in _views(folder))


def _views(folder: Path) -> Iterator[BatchView]:
    for path in sorted(folder.glob("*.log")):
        yield from batches(path.read_bytes())
