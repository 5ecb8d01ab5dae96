"""One run of a node whose folder changes hands: requests of every kind that leaves traces on disk.

The requests are the same for both brokers; `tests/verify/answers/broker_inventory.py` checks the results.
"""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from barnabas.batch.compression import Codec
from tests.verify.answers.broker_ask import RawClient, batch

SET, DELETE, APPEND = 0, 1, 2
TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
GROUP_NAME, METRICS_NAME = "readers", "telemetry"
CLIENT_TIMEOUT_S = 30
A_LIFE_MS = 1_000
# By barnabas, if it was the first.
UPGRADE_IN_LIFE = 4
NEWEST_METADATA = 27
SETTLE_S = 0.5
# A coordinator that has just started loads first.
LOADING_TRIES = 20
# Two of these roll a segment of the smallest size.
LARGE_VALUE = "x" * 600_000

FIRST_TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "plain": (2, {}),
    "zipped": (1, {"compression.type": "gzip"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
    "compacted": (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}),
    "rolled": (1, {"segment.bytes": "1048576", "index.interval.bytes": "1"}),
    "exact": (1, {}),
    "phoenix": (1, {"retention.bytes": "1000000"}),
    "transactional": (1, {}),
}


class Work:
    """The lives of one folder, one after the other."""

    def __init__(self, start_ms: int) -> None:
        # Times of records count from here, so that they do not depend on how long a life takes; not so long ago
        # that producers are forgotten.
        self.start_ms = start_ms
        # Every producer id that was given out; none may come again.
        self.producer_ids: list[int] = []
        self.committed: dict[int, int] = {}

    def live(self, raw_client: RawClient, life: int, *, has_coordinators: bool) -> None:
        """Life number `life`, on a node that listens on the raw_client's port."""
        if life == 0:
            self._create(raw_client, FIRST_TOPICS)
        self._create(raw_client, {f"of-life-{life}": (2, {"max.message.bytes": str(100_000 + life)})})
        self._take_a_producer_id(raw_client)
        self._write(raw_client, life)
        self._change(raw_client, life)
        if has_coordinators:
            self._transact(raw_client.port, life)
        if life == UPGRADE_IN_LIFE:
            self._upgrade(raw_client)
        time.sleep(SETTLE_S)

    @property
    def times(self) -> tuple[int, ...]:
        """Times to look up: before the first record, of some, between lives, after the last."""
        first, second = self.start_ms, self.start_ms + A_LIFE_MS
        return (0, first, first + 5, second, second + 7, first + 3 * A_LIFE_MS, first + 99 * A_LIFE_MS)

    def _create(self, raw_client: RawClient, topics: dict[str, tuple[int, dict[str, str]]]) -> None:
        rows = [
            {
                "name": name,
                "num_partitions": count,
                "replication_factor": 1,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
            for name, (count, configs) in topics.items()
        ]
        answer = raw_client.one("CreateTopics", 7, topics=rows, timeout_ms=9000)
        assert {one["error_code"] for one in answer["topics"]} == {0}, answer
        time.sleep(SETTLE_S)

    def _take_a_producer_id(self, raw_client: RawClient) -> None:
        answer = raw_client.one("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1)
        assert answer["error_code"] == 0, answer
        self.producer_ids.append(answer["producer_id"])

    def _write(self, raw_client: RawClient, life: int) -> None:
        now = self.start_ms + life * A_LIFE_MS
        times = range(now, now + 30, 3)
        values = [f"value {n} of life {life}" for n in range(10)]
        keys = [f"key {n % 4}" for n in range(10)]
        for codec in Codec:
            produce(raw_client, "plain", batch(*values, keys=keys, times=times, codec=codec))
        produce(raw_client, "plain", batch(*values, times=times), partition=1)
        produce(raw_client, "zipped", batch(*values, times=times))
        produce(raw_client, "stamped", batch(*values, times=times))
        produce(raw_client, "compacted", batch(*values, keys=keys, times=times))
        produce(raw_client, f"of-life-{life}", batch(*values, times=times), partition=1)
        for n in range(3):
            produce(raw_client, "rolled", batch(LARGE_VALUE, times=[now + n]))
        produce(raw_client, "phoenix", batch("of this life", times=[now]))
        self._write_exactly(raw_client, life)

    def _write_exactly(self, raw_client: RawClient, life: int) -> None:
        """The first producer goes on from life to life, a new one begins; each batch is sent twice."""
        now = self.start_ms + life * A_LIFE_MS
        for producer, sequence in {self.producer_ids[-1]: 0, self.producer_ids[0]: 3 * life}.items():
            mine = batch(
                *"abc",
                times=range(now, now + 3),
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
            )
            offset = produce(raw_client, "exact", mine)
            assert produce(raw_client, "exact", mine) == offset, "what came twice is written once"

    def _change(self, raw_client: RawClient, life: int) -> None:
        rows = [{"partition_index": 0, "offset": 20 + 10 * life}]
        answer = raw_client.one(
            "DeleteRecords", 2, topics=[{"name": "plain", "partitions": rows}], timeout_ms=9000
        )
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer
        change(
            raw_client, TOPIC, "plain", ("retention.ms", SET, "-1"), ("flush.messages", SET, str(1000 + life))
        )
        change(raw_client, TOPIC, "plain", ("leader.replication.throttled.replicas", APPEND, f"{life}:1"))
        change(raw_client, BROKER, "", ("log.cleaner.backoff.ms", SET, str(15_000 + life)))
        change(raw_client, BROKER, "1", ("num.io.threads", SET, str(8 + life % 2)))
        change(raw_client, GROUP, GROUP_NAME, ("consumer.session.timeout.ms", SET, str(50_000 + life)))
        change(raw_client, METRICS, METRICS_NAME, ("interval.ms", SET, str(60_000 + life)))
        topics: list[dict[str, Any]] = [{"name": "plain", "count": 3 + life, "assignments": None}]
        answer = raw_client.one("CreatePartitions", 3, topics=topics, timeout_ms=9000)
        assert answer["results"][0]["error_code"] == 0, answer
        removed = ["phoenix", *([f"of-life-{life - 2}"] if life >= 2 else [])]
        answer = raw_client.one(
            "DeleteTopics", 6, topics=[{"name": name} for name in removed], timeout_ms=9000
        )
        assert {one["error_code"] for one in answer["responses"]} == {0}, answer
        time.sleep(SETTLE_S)
        self._create(raw_client, {"phoenix": FIRST_TOPICS["phoenix"]})

    def _upgrade(self, raw_client: RawClient) -> None:
        """To the newest release's metadata, where the folder began with an older one."""
        updates = [{"feature": "metadata.version", "max_version_level": NEWEST_METADATA, "upgrade_type": 1}]
        answer = raw_client.one("UpdateFeatures", 2, feature_updates=updates)
        assert answer["error_code"] == 0, answer

    def _transact(self, port: int, life: int) -> None:
        """What only a node with coordinators can do: transactions and offsets of a group."""
        producer = Producer(
            {"bootstrap.servers": f"localhost:{port}", "transactional.id": "judge", "linger.ms": 0}
        )
        producer.init_transactions(CLIENT_TIMEOUT_S)
        for outcome in ("committed", "aborted", "committed"):
            producer.begin_transaction()
            producer.produce(
                "transactional", f"{outcome} in life {life}", timestamp=self.start_ms + life * A_LIFE_MS
            )
            producer.flush(CLIENT_TIMEOUT_S)
            if outcome == "committed":
                producer.commit_transaction(CLIENT_TIMEOUT_S)
            else:
                producer.abort_transaction(CLIENT_TIMEOUT_S)
        consumer = group_consumer(port)
        consumer.commit(offsets=[TopicPartition("plain", 1, 5 + life)], asynchronous=False)
        consumer.close()
        self.committed[1] = 5 + life


def group_consumer(port: int) -> Consumer:
    return Consumer(
        {"bootstrap.servers": f"localhost:{port}", "group.id": GROUP_NAME, "enable.auto.commit": False}
    )


def committed(port: int) -> int:
    """What the group has stored of plain-1."""
    consumer = group_consumer(port)
    try:
        for _ in range(LOADING_TRIES):
            try:
                (found,) = consumer.committed([TopicPartition("plain", 1)], timeout=CLIENT_TIMEOUT_S)
                return int(found.offset)
            except KafkaException as error:
                last = error
                time.sleep(SETTLE_S)
        raise last
    finally:
        consumer.close()


def produce(raw_client: RawClient, topic: str, records: bytes, partition: int = 0) -> int:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    answer = raw_client.one("Produce", 9, acks=-1, timeout_ms=9000, topic_data=data)
    (one,) = answer["responses"][0]["partition_responses"]
    assert one["error_code"] == 0, (topic, partition, one)
    return int(one["base_offset"])


def change(raw_client: RawClient, kind: int, name: str, *changes: tuple[str, int, str | None]) -> None:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    answer = raw_client.one("IncrementalAlterConfigs", 1, resources=[resource])
    assert answer["responses"][0]["error_code"] == 0, answer
