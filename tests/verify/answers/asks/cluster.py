"""Requests about the cluster: versions, nodes, quorum, features, producers' ids; and what is no request."""

from __future__ import annotations

from typing import Any

from tests.verify.answers.broker_ask import Ask, Raw, ask, raw_request


def quorum(*topics: tuple[str, list[int]]) -> list[dict[str, Any]]:
    return [
        {"topic_name": name, "partitions": [{"partition_index": index} for index in indexes]}
        for name, indexes in topics
    ]


def feature(name: str, level: int, **more: Any) -> dict[str, Any]:
    return {"feature": name, "max_version_level": level, **more}


UPGRADE, SAFE, UNSAFE = 1, 2, 3

# fmt: off
FIRST: list[Ask | Raw] = [
    ask("versions", "ApiVersions", "0 1 2"),
    ask("versions, of a named client", "ApiVersions", "3 4", client_software_name="judge", client_software_version="1.0"),
    ask("versions, of a client without a name", "ApiVersions", "3", client_software_name="", client_software_version="1.0"),
    ask("versions, of a client with an odd name", "ApiVersions", "3 4", client_software_name="no good!", client_software_version="1.0"),
    ask("versions, of a client with an odd version", "ApiVersions", "4", client_software_name="judge", client_software_version="-1"),
    Raw("versions of the future", raw_request(18, 5, b"\0\0\0", flexible=True), "ApiVersions", 0),
    Raw("versions far in the future", raw_request(18, 999), "ApiVersions", 0),
    Raw("versions before the first", raw_request(18, -1)),
    Raw("an unknown API", raw_request(999, 0)),
    Raw("a negative API", raw_request(-1, 0)),
    Raw("metadata of the future", raw_request(3, 14, b"\0\0\0\0\0", flexible=True)),
    Raw("produce of the past", raw_request(0, 2, b"\0\1\0\0\x10\0\0\0\0\0")),
    Raw("fetch of the past", raw_request(1, 3)),
    Raw("an API for controllers", raw_request(52, 0, flexible=True)),
    Raw("an API between brokers and controllers", raw_request(63, 1, flexible=True)),
    Raw("an envelope", raw_request(58, 0, flexible=True)),
    Raw("an API of ZooKeeper mode", raw_request(4, 5)),
    Raw("a request cut off", raw_request(3, 1, b"\0\0\0\5")),
    Raw("a request with bytes behind it", raw_request(3, 1, b"\0\0\0\0" + b"left over"), "Metadata", 1),
    Raw("an array without end", raw_request(3, 1, b"\x7f\xff\xff\xff")),
    Raw("a frame of nothing", b"\0\0\0\0"),
    Raw("a frame of negative size", b"\xff\xff\xff\xff"),
    Raw("a frame of every size", b"\x7f\xff\xff\xff"),
    ask("a login where none is wanted", "SaslHandshake", "0 1", mechanism="PLAIN"),
    ask("an authentication where none is wanted", "SaslAuthenticate", "0 2", auth_bytes=b"x"),
    # DescribeCluster.
    ask("the cluster", "DescribeCluster", "0 1 2", include_cluster_authorized_operations=True),
    ask("the cluster, no operations", "DescribeCluster", "0 2"),
    ask("the cluster with fenced brokers", "DescribeCluster", "2", include_fenced_brokers=True),
    ask("the cluster's controllers", "DescribeCluster", "1 2", endpoint_type=2),
    ask("the cluster's something", "DescribeCluster", "1", endpoint_type=3),
    # DescribeQuorum.
    ask("the quorum", "DescribeQuorum", "0 1 2", topics=quorum(("__cluster_metadata", [0]))),
    ask("the quorum of another topic", "DescribeQuorum", "1 2", topics=quorum(("orders", [0]))),
    ask("the quorum of another partition", "DescribeQuorum", "1 2", topics=quorum(("__cluster_metadata", [1]))),
    ask("the quorum of two", "DescribeQuorum", "2", topics=quorum(("__cluster_metadata", [0, 1]))),
    ask("the quorum of nothing", "DescribeQuorum", "2", topics=[]),
    # InitProducerId.
    ask("a producer's id", "InitProducerId", "0 2 5", transactional_id=None, transaction_timeout_ms=60_000),
    ask("a producer's id without a timeout", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=0),
    ask("a producer's id and an epoch without one", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=1, producer_id=5),
    ask("a producer's epoch without an id", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=1, producer_epoch=5),
    ask("a producer's id again", "InitProducerId", "4", transactional_id=None, transaction_timeout_ms=1, producer_id=0, producer_epoch=0),
    ask("an empty transactional id", "InitProducerId", "4", transactional_id="", transaction_timeout_ms=60_000),
]

LAST: list[Ask | Raw] = [
    # UpdateFeatures.
    ask("features as they are", "UpdateFeatures", "1 2", feature_updates=[feature("metadata.version", 27, upgrade_type=UPGRADE)]),
    ask("no features", "UpdateFeatures", "0 1 2", feature_updates=[]),
    ask("an unknown feature", "UpdateFeatures", "0", feature_updates=[feature("no.such", 1)]),
    ask("an unknown feature", "UpdateFeatures", "1 2", feature_updates=[feature("no.such", 1, upgrade_type=UPGRADE)]),
    ask("an empty feature", "UpdateFeatures", "1", feature_updates=[feature("", 1, upgrade_type=UPGRADE)]),
    ask("a level too high", "UpdateFeatures", "1 2", feature_updates=[feature("metadata.version", 99, upgrade_type=UPGRADE)]),
    ask("a negative level", "UpdateFeatures", "1", feature_updates=[feature("metadata.version", -1, upgrade_type=UPGRADE)]),
    ask("a downgrade that is not said to be one", "UpdateFeatures", "1 2", feature_updates=[feature("metadata.version", 20, upgrade_type=UPGRADE)]),
    ask("a downgrade that may lose", "UpdateFeatures", "1 2", feature_updates=[feature("metadata.version", 7, upgrade_type=SAFE)], validate_only=True),
    ask("a downgrade that loses", "UpdateFeatures", "1", feature_updates=[feature("metadata.version", 7, upgrade_type=UNSAFE)], validate_only=True),
    ask("a feature to nothing", "UpdateFeatures", "1", feature_updates=[feature("metadata.version", 0, upgrade_type=SAFE)]),
    ask("a strange kind of change", "UpdateFeatures", "1", feature_updates=[feature("metadata.version", 27, upgrade_type=9)]),
    ask("a feature twice", "UpdateFeatures", "1", feature_updates=[feature("group.version", 1, upgrade_type=UPGRADE), feature("group.version", 0, upgrade_type=UNSAFE)]),
    ask("share groups, only looked at", "UpdateFeatures", "1 2", feature_updates=[feature("share.version", 1, upgrade_type=UPGRADE)], validate_only=True),
    ask("transactions back, only looked at", "UpdateFeatures", "1", feature_updates=[feature("transaction.version", 1, upgrade_type=SAFE)], validate_only=True),
    ask("transactions back", "UpdateFeatures", "2", feature_updates=[feature("transaction.version", 1, upgrade_type=SAFE)]),
    ask("good and bad together", "UpdateFeatures", "1 2", feature_updates=[feature("transaction.version", 2, upgrade_type=UPGRADE), feature("no.such", 1, upgrade_type=UPGRADE)]),
    ask("versions after features changed", "ApiVersions", "4", client_software_name="judge", client_software_version="1.0"),
    # UnregisterBroker.
    ask("forget an unknown broker", "UnregisterBroker", "0", broker_id=77),
    ask("forget a negative broker", "UnregisterBroker", "0", broker_id=-1),
    ask("the quorum's feature", "UpdateFeatures", "2", feature_updates=[feature("kraft.version", 1, upgrade_type=UPGRADE)]),
]
# fmt: on
