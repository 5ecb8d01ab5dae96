"""The topic that the Spark rows read, filled once per run."""

from __future__ import annotations

from bench import topics
from bench.registry import RunContext
from bench.servers import Server
from bench.spark import PARTITIONS, fill, now_ms, sample_records

RECORDS = 2_000_000


def filled(context: RunContext, server: Server) -> str:
    def make() -> str:
        topic = "spark-bench"
        topics.create(server, topic, PARTITIONS)
        fill(server.address, topic, sample_records(RECORDS, now_ms()), PARTITIONS)
        assert sum(end or 0 for end in topics.end_offsets(server, topic, PARTITIONS)) == RECORDS
        return topic

    return context.shared("spark topic", make)
