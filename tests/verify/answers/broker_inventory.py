"""All that clients can see of a node's topics, records, options and features: to check that nothing is lost.

The requests go over plain sockets; the responses become one plain value.
"""

from __future__ import annotations

import time
from typing import Any

from barnabas.base.errors import ErrorCode
from tests.verify.answers.broker_ask import Plain, RawClient

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
EARLIEST, LATEST, NEWEST_RECORD = -2, -1, -3
READ_COMMITTED = 1
EPOCHS_ASKED = 12
FETCH_BYTES = 50_000_000
READS_MAX = 10_000
START_PATIENCE_S = 30
# Sources of values that the file, the defaults and the features do not give.
SET_BY_REQUEST = (1, 2, 3, 7, 8)

Inventory = dict[str, Plain]


def inventory(
    raw_client: RawClient, times: tuple[int, ...], groups: tuple[str, ...], metrics: tuple[str, ...]
) -> Inventory:
    """`times` are looked up in every partition; groups and metrics are named because nobody lists them all."""
    topics = {topic["name"]: topic for topic in raw_client.one("Metadata", 12, topics=None)["topics"]}
    partitions = [
        (name, one["partition_index"])
        for name, topic in sorted(topics.items())
        for one in topic["partitions"]
    ]
    for where in partitions:
        await_leader(raw_client, *where)
    return {
        "topics": {
            name: {key: topic[key] for key in ("error_code", "topic_id", "is_internal")}
            for name, topic in topics.items()
        },
        "partitions": {
            (name, one["partition_index"]): {
                key: one[key] for key in ("error_code", "leader_id", "isr_nodes")
            }
            for name, topic in topics.items()
            for one in topic["partitions"]
        },
        "leader epochs": {
            (name, one["partition_index"]): one["leader_epoch"]
            for name, topic in topics.items()
            for one in topic["partitions"]
        },
        "options": {name: options(raw_client, TOPIC, name) for name in topics},
        "broker options": {name: set_options(raw_client, BROKER, name) for name in ("", "1")},
        "group options": {name: set_options(raw_client, GROUP, name) for name in groups},
        "client metrics": {name: set_options(raw_client, METRICS, name) for name in metrics},
        "offsets": {where: offsets(raw_client, *where, times) for where in partitions},
        "epoch ends": {where: epoch_ends(raw_client, *where) for where in partitions},
        "producers": {where: producers(raw_client, *where) for where in partitions},
        "records": {where: records(raw_client, *where) for where in partitions},
        "sizes": sizes(raw_client),
        "features": features(raw_client),
    }


def await_leader(raw_client: RawClient, topic: str, partition: int) -> None:
    """Apache Kafka's broker says that it has started before it leads all of its partitions."""
    limit = time.monotonic() + START_PATIENCE_S
    while offsets(raw_client, topic, partition, ())[LATEST][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        assert time.monotonic() < limit, f"nobody leads {topic}-{partition}"
        time.sleep(0.1)


def options(raw_client: RawClient, kind: int, name: str) -> dict[str, tuple[str | None, int]]:
    """Each with its value and where that comes from."""
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    (result,) = raw_client.one("DescribeConfigs", 4, resources=[resource])["results"]
    assert result["error_code"] == 0, (name, result["error_message"])
    return {one["name"]: (one["value"], one["config_source"]) for one in result["configs"]}


def set_options(raw_client: RawClient, kind: int, name: str) -> dict[str, str | None]:
    found = options(raw_client, kind, name).items()
    return {option: value for option, (value, source) in found if source in SET_BY_REQUEST}


def offsets(
    raw_client: RawClient, topic: str, partition: int, times: tuple[int, ...]
) -> dict[int, tuple[int, ...]]:
    """Of the special times and of these; the epochs of a log's ends are left out, they may grow with each start."""
    found = {}
    for asked in (EARLIEST, LATEST, NEWEST_RECORD, *times):
        rows = [{"partition_index": partition, "timestamp": asked}]
        answer = raw_client.one("ListOffsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": rows}])
        (one,) = answer["topics"][0]["partitions"]
        epoch = () if asked in (EARLIEST, LATEST) else (one["leader_epoch"],)
        found[asked] = (one["error_code"], one["offset"], one["timestamp"], *epoch)
    return found


def epoch_ends(raw_client: RawClient, topic: str, partition: int) -> list[tuple[int, int]]:
    """Where each leader epoch ends that is over."""
    found = []
    for epoch in range(EPOCHS_ASKED):
        rows = [{"partition": partition, "current_leader_epoch": -1, "leader_epoch": epoch}]
        answer = raw_client.one("OffsetForLeaderEpoch", 4, topics=[{"topic": topic, "partitions": rows}])
        (one,) = answer["topics"][0]["partitions"]
        if one["leader_epoch"] == epoch:
            found.append((epoch, one["end_offset"]))
    return found[:-1]


def producers(raw_client: RawClient, topic: str, partition: int) -> list[Plain]:
    answer = raw_client.one(
        "DescribeProducers", 0, topics=[{"name": topic, "partition_indexes": [partition]}]
    )
    found: list[dict[str, Any]] = answer["topics"][0]["partitions"][0]["active_producers"]
    return sorted(found, key=lambda one: int(one["producer_id"]))


def records(raw_client: RawClient, topic: str, partition: int) -> list[Plain]:
    """Every batch that can be read, and the aborted transactions among them."""
    (_, position, *_), (_, end, *_) = (
        offsets(raw_client, topic, partition, ())[time] for time in (EARLIEST, LATEST)
    )
    found: list[Plain] = []
    for _ in range(READS_MAX):
        if position >= end:
            return found
        wanted = {"partition": partition, "fetch_offset": position, "partition_max_bytes": FETCH_BYTES}
        answer = raw_client.one(
            "Fetch",
            12,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=READ_COMMITTED,
            topics=[{"topic": topic, "partitions": [wanted]}],
        )
        (one,) = answer["responses"][0]["partitions"]
        assert one["error_code"] == 0, (topic, partition, position, one["error_code"])
        found += [("aborted", *pair.values()) for pair in one["aborted_transactions"] or ()]
        found += one["records"]
        last = one["records"][-1]
        position = last["base_offset"] + last["last_offset_delta"] + 1
    raise AssertionError(f"{topic}-{partition} does not end")


def sizes(raw_client: RawClient) -> dict[tuple[str, int], int]:
    (folder,) = raw_client.one("DescribeLogDirs", 4, topics=None)["results"]
    return {
        (topic["name"], one["partition_index"]): one["partition_size"]
        for topic in folder["topics"]
        for one in topic["partitions"]
    }


def features(raw_client: RawClient) -> dict[str, int]:
    answer = raw_client.one("ApiVersions", 4, client_software_name="judge", client_software_version="1")
    return {one["name"]: one["max_version_level"] for one in answer["finalized_features"]}
