"""Every znode that Apache Kafka 3.9.1 wrote is read, and written again byte for byte."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.modes.zookeeper.znodes import acls, admin, broker_ids, cluster, configs, paths, topics

RECORDED = Path(__file__).parents[4] / "data" / "zookeeper" / "apache-kafka-3.9.1.tar.gz"


def recorded_znodes() -> Iterator[tuple[str, bytes]]:
    """Each different pair of path and data in the recorded trees."""
    seen: dict[tuple[str, bytes], None] = {}
    with tarfile.open(RECORDED) as recorded:
        for member in recorded:
            if member.name.endswith(".json"):
                content = recorded.extractfile(member)
                assert content is not None
                for path, znode in json.load(content).items():
                    if znode["data"]:
                        seen[path, znode["data"].encode()] = None
    yield from seen


def rewritten(path: str, data: bytes) -> bytes:
    for start, rewrite in REWRITERS.items():
        if path.startswith(start):
            return rewrite(path, data)
    raise AssertionError(f"nothing reads {path}")


def _state_or_topic(path: str, data: bytes) -> bytes:
    decode: Callable[[str, bytes], Any] = (
        topics.decode_state if path.endswith("/state") else topics.decode_topic
    )
    written: bytes = decode(path, data).encode()
    return written


REWRITERS: dict[str, Callable[[str, bytes], bytes]] = {
    paths.BROKER_IDS: lambda path, data: broker_ids.decode_broker(path, data).encode(),
    paths.TOPICS: _state_or_topic,
    paths.CLUSTER_ID: lambda path, data: cluster.encode_cluster_id(cluster.decode_cluster_id(path, data)),
    paths.CONTROLLER_EPOCH: lambda path, data: cluster.encode_controller_epoch(
        cluster.decode_controller_epoch(path, data)
    ),
    paths.CONTROLLER: lambda path, data: cluster.decode_controller(path, data).encode(),
    paths.FEATURE: lambda path, data: cluster.decode_features(path, data).encode(),
    paths.PRODUCER_IDS: lambda path, data: cluster.decode_producer_ids(path, data).encode(),
    paths.CONFIG_CHANGES: lambda path, data: configs.encode_change(configs.decode_change(path, data)),
    paths.CONFIG: lambda path, data: configs.encode_configs(configs.decode_configs(path, data)),
    paths.ACL_CHANGES: lambda path, data: acls.encode_acl_change(acls.decode_acl_change(path, data)),
    paths.EXTENDED_ACL_CHANGES: lambda path, data: acls.encode_acl_change(acls.decode_acl_change(path, data)),
    paths.ACLS: lambda path, data: acls.encode_acls(acls.decode_acls(path, data)),
}


@pytest.mark.parametrize(("path", "data"), list(recorded_znodes()))
def test_a_recorded_znode_is_written_as_it_was(path: str, data: bytes) -> None:  # M-B2
    assert rewritten(path, data) == data


# What the recorded administrator wrote by hand.
REASSIGNMENT = b'{"version":1,"partitions":[{"topic":"move","partition":0,"replicas":[1,2]}]}'
ELECTION = b'{"version":1,"partitions":[{"topic":"move","partition":0},{"topic":"orders","partition":1}]}'


def test_requests_of_administrators() -> None:  # M-B2
    targets = admin.decode_reassignment(paths.REASSIGN_PARTITIONS, REASSIGNMENT)
    assert targets == {("move", 0): (1, 2)}
    assert admin.encode_reassignment(targets) == REASSIGNMENT
    wanted = admin.decode_partitions(paths.PREFERRED_ELECTION, ELECTION)
    assert wanted == [("move", 0), ("orders", 1)]
    assert admin.encode_partitions(wanted) == ELECTION


def test_names_of_entities_in_paths() -> None:
    assert paths.sanitize("CN=a b,O=x*~") == "CN%3Da%20b%2CO%3Dx%2A%7E"
    assert paths.desanitize("CN%3Da%20b%2CO%3Dx%2A%7E") == "CN=a b,O=x*~"
