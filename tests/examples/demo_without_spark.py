"""`make demo` with a stand-in for Spark, which alone would take longer than everything else.

The stand-in counts lines as they arrive from the services through the collector, and writes one window of
counts.
"""

from __future__ import annotations

import json
import sys
from unittest import mock

from barnabas.cli.demo import run as demo
from barnabas.cli.demo.command import run
from barnabas.client import TopicPartition
from barnabas.client.sync import Consumer, Producer
from barnabas.spark.pipeline.running import Progress

ENOUGH_LINES = 200


class Counted:
    """Replaces the running pipeline."""

    def __init__(self, bootstrap: str) -> None:
        self.lines = count_lines(bootstrap)
        row = {
            "start": "2026-01-01T10:00:00.000Z",
            "end": "2026-01-01T10:00:10.000Z",
            "service": "checkout",
            "owner": "shop",
            "lines": self.lines,
            "requests": 10,
            "errors": 1,
            "duration_ms": 100,
        }
        with Producer(bootstrap_servers=bootstrap) as producer:
            producer.send("logs.counts", json.dumps(row).encode()).result(60)

    def check(self) -> None:
        assert self.lines >= ENOUGH_LINES

    def progress(self) -> list[Progress]:
        return [Progress("counts", 0, self.lines, 1.0, 1, 0, 0, 0, "", 0)]

    def stop(self) -> None:
        print("stopped")


def count_lines(bootstrap: str) -> int:
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        partitions = [TopicPartition("logs", number) for number in range(demo.PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        lines = 0
        while lines < ENOUGH_LINES:
            lines += len(list(consumer.poll(timeout_ms=500)))
        return lines


def start_pipeline(self: demo.Demo, _spark: None, bootstrap: str) -> Counted:
    return Counted(bootstrap)


if __name__ == "__main__":
    with (
        mock.patch.object(demo.Demo, "_start_spark", lambda _: None),
        mock.patch.object(demo.Demo, "_start_pipeline", start_pipeline),
    ):
        sys.exit(run(sys.argv[1:]))
