"""What administrators and brokers ask of the controller by a znode: `/admin/…` and notifications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.broker.modes.zookeeper.znodes.json_data import decode, encode

VERSION = 1
# The only event of /log_dir_event_notification.
LOG_DIR_FAILURE = 1

TopicPartition = tuple[str, int]


def encode_reassignment(targets: Mapping[TopicPartition, Iterable[int]]) -> bytes:
    return encode(
        {
            "version": VERSION,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for (topic, number), replicas in targets.items()
            ],
        }
    )


def decode_reassignment(path: str, data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        (each.text("topic"), each.integer("partition")): each.integers("replicas")
        for each in decode(path, data).nested_list("partitions")
    }


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """Of /admin/preferred_replica_election and of an ISR change notification."""
    return encode(
        {
            "version": VERSION,
            "partitions": [{"topic": topic, "partition": number} for topic, number in partitions],
        }
    )


def decode_partitions(path: str, data: bytes | None) -> list[TopicPartition]:
    return [
        (each.text("topic"), each.integer("partition"))
        for each in decode(path, data).nested_list("partitions")
    ]


def encode_log_dir_event(broker_id: int) -> bytes:
    return encode({"version": VERSION, "broker": broker_id, "event": LOG_DIR_FAILURE})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker of which a log directory failed."""
    return decode(path, data).integer("broker")
