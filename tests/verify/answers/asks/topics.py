"""Requests about topics: made, described, enlarged, deleted."""

from __future__ import annotations

from typing import Any

from barnabas.base.ids import Uuid
from tests.verify.answers.broker_ask import Ask, TopicId, ask

NOBODY = Uuid(bytes(range(16)))
LONG_NAME = "x" * 249


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> dict[str, Any]:
    """A topic to make; options by their names with `_` for `.`."""
    pairs = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "configs": pairs}


def placed(
    name: str, places: dict[int, list[int]], partitions: int = -1, replicas: int = -1
) -> dict[str, Any]:
    """A topic to make with replicas chosen by hand."""
    rows = [{"partition_index": index, "broker_ids": ids} for index, ids in places.items()]
    return {**topic(name, partitions, replicas), "assignments": rows}


def names(*given: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in given]


# fmt: off
ASKS: list[Ask] = [
    # CreateTopics: what is taken.
    ask("make a topic", "CreateTopics", "7", topics=[topic("orders", 3)]),
    ask("make topics with the broker's numbers", "CreateTopics", "4", topics=[topic("defaults", -1, -1)]),
    ask("make a topic, oldest version", "CreateTopics", "2", topics=[topic("old", 2)]),
    ask("make a topic, options shown", "CreateTopics", "5", topics=[topic("compacted", 1, 1, cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.25")]),
    ask("make a topic with a null option", "CreateTopics", "7", topics=[topic("nulled", 1, 1, retention_ms=None)]),
    ask("make a topic by hand", "CreateTopics", "7", topics=[placed("placed", {0: [1], 1: [1]})]),
    ask("make a topic of broker times", "CreateTopics", "7", topics=[topic("stamped", 1, 1, message_timestamp_type="LogAppendTime")]),
    ask("make a topic for what is broken", "CreateTopics", "7", topics=[topic("spoiled", 1)]),
    ask("make a topic of small records", "CreateTopics", "7", topics=[topic("small", 1, 1, max_message_bytes="200")]),
    ask("make a topic of one codec", "CreateTopics", "7", topics=[topic("zipped", 1, 1, compression_type="gzip")]),
    ask("make a topic of strict times", "CreateTopics", "7", topics=[topic("strict", 1, 1, message_timestamp_before_max_ms="1000")]),
    ask("make a topic that wants two in sync", "CreateTopics", "7", topics=[topic("careful", 1, 1, min_insync_replicas="2")]),
    ask("make the longest name", "CreateTopics", "7", topics=[topic(LONG_NAME)]),
    ask("make several, one of them wrong", "CreateTopics", "7", topics=[topic("several-1"), topic("several/2"), topic("several-3", 0)]),
    ask("make every kind of option", "CreateTopics", "7", topics=[topic(
        "optioned", 1, 1, cleanup_policy="compact,delete", compression_type="zstd", compression_zstd_level="5", delete_retention_ms="1",
        file_delete_delay_ms="60000", flush_messages="10", flush_ms="1000", index_interval_bytes="0", max_compaction_lag_ms="100000",
        message_timestamp_after_max_ms="5", min_compaction_lag_ms="7", min_insync_replicas="1", preallocate="true", retention_bytes="-1",
        retention_ms="-1", segment_index_bytes="1024", segment_jitter_ms="3", segment_ms="100000", unclean_leader_election_enable="true",
    )]),
    # CreateTopics: only looked at.
    ask("validate a topic", "CreateTopics", "2 5 7", topics=[topic("never", 4)], validate_only=True),
    ask("validate a topic that exists", "CreateTopics", "7", topics=[topic("orders", 4)], validate_only=True),
    ask("validate a bad topic", "CreateTopics", "7", topics=[topic("never", 1, 1, retention_ms="soon")], validate_only=True),
    # CreateTopics: what is refused.
    ask("make a topic that exists", "CreateTopics", "2 7", topics=[topic("orders", 1)]),
    ask("make one topic twice", "CreateTopics", "7", topics=[topic("twin"), topic("twin", 2), topic("no-twin")]),
    ask("make no topic", "CreateTopics", "7", topics=[]),
    ask("make names that may not be", "CreateTopics", "7", topics=[topic("."), topic(".."), topic(""), topic("a/b"), topic("../../etc/passwd"),
        topic("with space"), topic("new\nline"), topic("null\0"), topic("ümlaut"), topic("x" * 250), topic("a,b"), topic("a:b")]),
    ask("make names that collide", "CreateTopics", "7", topics=[topic("under_score"), topic("dotted.name")]),
    ask("make names that collide with others", "CreateTopics", "7", topics=[topic("under.score"), topic("dotted_name")]),
    ask("make the metadata log", "CreateTopics", "7", topics=[topic("__cluster_metadata")]),
    ask("make an internal topic", "CreateTopics", "7", topics=[topic("__consumer_offsets", 1)]),
    ask("make no partitions", "CreateTopics", "7", topics=[topic("bad", 0)]),
    ask("make negative partitions", "CreateTopics", "4 7", topics=[topic("bad", -2)]),
    ask("make defaults before they were known", "CreateTopics", "2 3", topics=[topic("bad", -1, -1)]),
    ask("make too many partitions", "CreateTopics", "7", topics=[topic("bad", 1_000_000_000)]),
    ask("make too many partitions together", "CreateTopics", "7", topics=[topic("bad", 9_999), topic("worse", 2)]),
    ask("make no replicas", "CreateTopics", "7", topics=[topic("bad", 1, 0)]),
    ask("make negative replicas", "CreateTopics", "7", topics=[topic("bad", 1, -2)]),
    ask("make more replicas than brokers", "CreateTopics", "7", topics=[topic("bad", 1, 3)]),
    ask("place nothing", "CreateTopics", "7", topics=[placed("bad", {0: []})]),
    ask("place on an unknown broker", "CreateTopics", "7", topics=[placed("bad", {0: [7]})]),
    ask("place one replica twice", "CreateTopics", "7", topics=[placed("bad", {0: [1, 1]})]),
    ask("place with a gap", "CreateTopics", "7", topics=[placed("bad", {0: [1], 2: [1]})]),
    ask("place from one", "CreateTopics", "7", topics=[placed("bad", {1: [1]})]),
    ask("place unequal numbers", "CreateTopics", "7", topics=[placed("bad", {0: [1], 1: [1, 2]})]),
    ask("place on a negative broker", "CreateTopics", "7", topics=[placed("bad", {0: [-1]})]),
    ask("place and count", "CreateTopics", "7", topics=[placed("bad", {0: [1]}, partitions=1)]),
    ask("place and count replicas", "CreateTopics", "7", topics=[placed("bad", {0: [1]}, replicas=1)]),
    ask("place and count as is", "CreateTopics", "7", topics=[placed("bad", {0: [1]}, partitions=1, replicas=1)]),
    ask("make an unknown option", "CreateTopics", "7", topics=[topic("bad", 1, 1, no_such_option="1")]),
    ask("make an option of a wrong type", "CreateTopics", "7", topics=[topic("bad", 1, 1, segment_bytes="many")]),
    ask("make an option too large", "CreateTopics", "7", topics=[topic("bad", 1, 1, segment_bytes="99999999999")]),
    ask("make an option too small", "CreateTopics", "7", topics=[topic("bad", 1, 1, segment_bytes="1")]),
    ask("make an option that is no choice", "CreateTopics", "7", topics=[topic("bad", 1, 1, cleanup_policy="burn")]),
    ask("make an option that is no codec", "CreateTopics", "7", topics=[topic("bad", 1, 1, compression_type="rar")]),
    ask("make an option that is no truth", "CreateTopics", "7", topics=[topic("bad", 1, 1, preallocate="perhaps")]),
    ask("make an option that is no ratio", "CreateTopics", "7", topics=[topic("bad", 1, 1, min_cleanable_dirty_ratio="1.5")]),
    ask("make an empty list", "CreateTopics", "7", topics=[topic("bad", 1, 1, cleanup_policy="")]),
    ask("make a throttle list that is none", "CreateTopics", "7", topics=[topic("bad", 1, 1, leader_replication_throttled_replicas="all")]),
    ask("make a remote topic without remote storage", "CreateTopics", "7", topics=[topic("bad", 1, 1, remote_storage_enable="true")]),
    ask("make a local retention above the whole", "CreateTopics", "7", topics=[topic("bad", 1, 1, local_retention_ms="100", retention_ms="10")]),
    ask("make a lag that contradicts", "CreateTopics", "7", topics=[topic("bad", 1, 1, min_compaction_lag_ms="100", max_compaction_lag_ms="10")]),
    # Metadata.
    ask("all topics", "Metadata", "0 1", topics=[]),
    ask("all topics", "Metadata", "4 5 7 8 9 10 11 12 13", topics=None),
    ask("no topics", "Metadata", "2 12", topics=[]),
    ask("one topic", "Metadata", "0 1 5 8 10 13", topics=names("orders")),
    ask("one topic twice", "Metadata", "12", topics=names("orders", "old", "orders")),
    ask("operations", "Metadata", "8 10", topics=names("orders"), include_cluster_authorized_operations=True, include_topic_authorized_operations=True),
    ask("operations of the topic", "Metadata", "13", topics=names("orders"), include_topic_authorized_operations=True),
    ask("an unknown topic, not to be made", "Metadata", "4 9 12 13", topics=names("nowhere"), allow_auto_topic_creation=False),
    ask("an illegal topic", "Metadata", "1 12", topics=names("no/where")),
    ask("an empty topic name", "Metadata", "9 12", topics=names("")),
    ask("a null topic name", "Metadata", "12", topics=[{"name": None}]),
    ask("a null topic name before ids could be asked for", "Metadata", "10", topics=[{"name": None}]),
    ask("a topic by id", "Metadata", "12 13", topics=[{"name": None, "topic_id": TopicId("orders")}]),
    ask("a topic by id before that could be asked", "Metadata", "10 11", topics=[{"name": "orders", "topic_id": TopicId("orders")}]),
    ask("a topic by name and id", "Metadata", "12", topics=[{"name": "orders", "topic_id": TopicId("orders")}]),
    ask("a topic by name and a wrong id", "Metadata", "12", topics=[{"name": "orders", "topic_id": TopicId("old")}]),
    ask("an unknown id", "Metadata", "12", topics=[{"name": None, "topic_id": NOBODY}]),
    ask("names and ids together", "Metadata", "12", topics=[{"name": "old"}, {"name": None, "topic_id": TopicId("orders")}]),
    ask("a topic to be made by asking", "Metadata", "1", topics=names("asked-for"), settles=True),
    ask("topics to be made by asking", "Metadata", "9 12", topics=names("asked-again", "a/b", "asked.again", "__transaction_state"), settles=True),
    ask("topics made by asking", "Metadata", "12", topics=names("asked-for", "asked-again", "asked.again", "__transaction_state"), allow_auto_topic_creation=False),
    # DescribeTopicPartitions.
    ask("partitions of a topic", "DescribeTopicPartitions", "0", topics=names("orders")),
    ask("partitions of topics out of order", "DescribeTopicPartitions", "0", topics=names("orders", "old", "defaults", "nowhere")),
    ask("partitions of all topics", "DescribeTopicPartitions", "0", topics=[]),
    ask("a page of two partitions", "DescribeTopicPartitions", "0", topics=names("orders", "old"), response_partition_limit=2),
    ask("a page that ends with a topic", "DescribeTopicPartitions", "0", topics=names("orders", "old"), response_partition_limit=3),
    ask("a page from a cursor", "DescribeTopicPartitions", "0", topics=names("orders", "old"), response_partition_limit=2, cursor={"topic_name": "orders", "partition_index": 1}),
    ask("a page of all from a cursor", "DescribeTopicPartitions", "0", topics=[], response_partition_limit=2, cursor={"topic_name": "orders", "partition_index": 2}),
    ask("a cursor at an unknown topic", "DescribeTopicPartitions", "0", topics=names("orders", "old"), cursor={"topic_name": "oops", "partition_index": 0}),
    ask("a cursor behind the last partition", "DescribeTopicPartitions", "0", topics=names("orders"), cursor={"topic_name": "orders", "partition_index": 9}),
    ask("a negative cursor", "DescribeTopicPartitions", "0", topics=names("orders"), cursor={"topic_name": "orders", "partition_index": -1}),
    ask("a page of none", "DescribeTopicPartitions", "0", topics=names("orders"), response_partition_limit=0),
    ask("a negative page", "DescribeTopicPartitions", "0", topics=names("orders"), response_partition_limit=-5),
    ask("partitions of an illegal topic", "DescribeTopicPartitions", "0", topics=names("no/where")),
    # CreatePartitions.
    ask("more partitions, only looked at", "CreatePartitions", "0 2 3", topics=[{"name": "old", "count": 9, "assignments": None}], timeout_ms=9000, validate_only=True),
    ask("more partitions", "CreatePartitions", "3", topics=[{"name": "old", "count": 3, "assignments": None}], timeout_ms=9000),
    ask("more partitions by hand", "CreatePartitions", "1", topics=[{"name": "old", "count": 5, "assignments": [{"broker_ids": [1]}, {"broker_ids": [1]}]}], timeout_ms=9000),
    ask("as many partitions", "CreatePartitions", "0 3", topics=[{"name": "old", "count": 5, "assignments": None}], timeout_ms=9000),
    ask("fewer partitions", "CreatePartitions", "3", topics=[{"name": "old", "count": 1, "assignments": None}], timeout_ms=9000),
    ask("zero partitions", "CreatePartitions", "3", topics=[{"name": "old", "count": 0, "assignments": None}], timeout_ms=9000),
    ask("negative partitions", "CreatePartitions", "3", topics=[{"name": "old", "count": -1, "assignments": None}], timeout_ms=9000),
    ask("partitions of no topic", "CreatePartitions", "3", topics=[{"name": "nowhere", "count": 2, "assignments": None}], timeout_ms=9000),
    ask("partitions of an empty name", "CreatePartitions", "3", topics=[{"name": "", "count": 2, "assignments": None}], timeout_ms=9000),
    ask("partitions twice", "CreatePartitions", "3", topics=[{"name": "orders", "count": 4, "assignments": None}, {"name": "orders", "count": 5, "assignments": None}], timeout_ms=9000),
    ask("partitions of the metadata log", "CreatePartitions", "3", topics=[{"name": "__cluster_metadata", "count": 2, "assignments": None}], timeout_ms=9000),
    ask("too few assignments", "CreatePartitions", "3", topics=[{"name": "old", "count": 7, "assignments": [{"broker_ids": [1]}]}], timeout_ms=9000),
    ask("an empty list of assignments", "CreatePartitions", "3", topics=[{"name": "old", "count": 7, "assignments": []}], timeout_ms=9000),
    ask("an assignment without replicas", "CreatePartitions", "3", topics=[{"name": "old", "count": 6, "assignments": [{"broker_ids": []}]}], timeout_ms=9000),
    ask("an assignment to an unknown broker", "CreatePartitions", "3", topics=[{"name": "old", "count": 6, "assignments": [{"broker_ids": [9]}]}], timeout_ms=9000),
    ask("an assignment of too many replicas", "CreatePartitions", "3", topics=[{"name": "old", "count": 6, "assignments": [{"broker_ids": [1, 2]}]}], timeout_ms=9000),
    ask("an assignment to one broker twice", "CreatePartitions", "3", topics=[{"name": "old", "count": 6, "assignments": [{"broker_ids": [1, 1]}]}], timeout_ms=9000),
    ask("partitions of no topics", "CreatePartitions", "3", topics=[], timeout_ms=9000),
    # DeleteTopics.
    ask("make topics to delete", "CreateTopics", "7", topics=[topic(f"doomed-{n}") for n in range(6)]),
    ask("delete by name", "DeleteTopics", "1", topic_names=["doomed-0"], timeout_ms=9000),
    ask("delete by name, with messages", "DeleteTopics", "5", topic_names=["doomed-1", "nowhere"], timeout_ms=9000),
    ask("delete by name, newest", "DeleteTopics", "6", topics=[{"name": "doomed-2"}], timeout_ms=9000),
    ask("delete by id", "DeleteTopics", "6", topics=[{"name": None, "topic_id": TopicId("doomed-3")}], timeout_ms=9000),
    ask("delete by name and id", "DeleteTopics", "6", topics=[{"name": "doomed-4", "topic_id": TopicId("doomed-4")}], timeout_ms=9000),
    ask("delete by neither", "DeleteTopics", "6", topics=[{"name": None}], timeout_ms=9000),
    ask("delete one twice", "DeleteTopics", "6", topics=[{"name": "doomed-5"}, {"name": "doomed-5"}], timeout_ms=9000),
    ask("delete one by name, then by id", "DeleteTopics", "6", topics=[{"name": "doomed-5"}, {"name": None, "topic_id": TopicId("doomed-5")}], timeout_ms=9000),
    ask("delete an unknown name", "DeleteTopics", "1 4 6", topics=[], topic_names=["nowhere"], timeout_ms=9000),
    ask("delete an unknown name, newest", "DeleteTopics", "6", topics=[{"name": "nowhere"}], timeout_ms=9000),
    ask("delete an unknown id", "DeleteTopics", "6", topics=[{"name": None, "topic_id": NOBODY}], timeout_ms=9000),
    ask("delete an illegal name", "DeleteTopics", "6", topics=[{"name": "a/b"}], timeout_ms=9000),
    ask("delete the metadata log", "DeleteTopics", "6", topics=[{"name": "__cluster_metadata"}], timeout_ms=9000),
    ask("what is left", "Metadata", "12", topics=names("doomed-0", "doomed-2", "doomed-3"), allow_auto_topic_creation=False),
    ask("what is left by id", "Metadata", "12", topics=[{"name": None, "topic_id": TopicId("doomed-3")}], allow_auto_topic_creation=False),
    ask("make a name anew", "CreateTopics", "7", topics=[topic("doomed-0", 2)]),
]
# fmt: on
