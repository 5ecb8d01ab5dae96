"""Fetching a range when brokers respond strangely; without a broker."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future

import pytest

from barnabas.client.errors.data import OffsetNotAvailableError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition
from barnabas.spark.source import clients, fetching
from barnabas.spark.source.fetching import Fetched
from barnabas.spark.source.loss import LossReport
from barnabas.spark.source.ranges import OffsetRange

WHERE = TopicPartition("orders", 0)
SETTINGS = {"isolation.level": "read_uncommitted", "check.crcs": True}


class Silent:
    """A partition that reports offsets, and returns nothing."""

    check_crcs = True

    def __init__(self, *_: object) -> None:
        self.asked: list[int] = []

    def fetch(self, offset: int, _size: int) -> Fetched:
        self.asked.append(offset)
        assert len(self.asked) < 3, "it requests the same forever"
        return Fetched(offset, b"", None, 0, 100)


def submit(fetched: Fetched) -> Future[Fetched]:
    coming: Future[Fetched] = Future()
    coming.set_result(fetched)
    return coming


@pytest.mark.parametrize("fail", [True, False])
def test_a_partition_that_gives_nothing_below_its_end_has_lost_nothing(
    monkeypatch: pytest.MonkeyPatch, fail: bool
) -> None:
    """A time-out, as in Spark's own connector, whatever failOnDataLoss is."""
    monkeypatch.setattr(clients, "cluster_for", lambda _: (SETTINGS, None))
    monkeypatch.setattr(clients, "submit", submit)
    monkeypatch.setattr(fetching, "_Source", Silent)
    with pytest.raises(KafkaTimeoutError, match="orders-0 has offsets 0 to 99, but gave nothing at 10"):
        list(fetching.completed_fetches({}, OffsetRange(WHERE, 10, 20), 1, LossReport(fail)))


@pytest.mark.parametrize(("first", "end", "is_lost"), [(0, 20, False), (11, 20, True), (0, 10, True)])
def test_an_offset_that_is_out_of_range_only_on_a_lagging_replica_is_retried(
    monkeypatch: pytest.MonkeyPatch, first: int, end: int, is_lost: bool
) -> None:
    """A lagging follower (KIP-392) knows less than the leader, and nothing is lost."""

    async def bounds(*_: object, **__: object) -> tuple[int, int]:
        return first, end

    monkeypatch.setattr(fetching, "bounds_of", bounds)
    source = fetching._Source(SETTINGS, None, WHERE, 1)  # type: ignore[arg-type]
    if is_lost:
        assert asyncio.run(source._out_of_range(10)).is_out_of_range
    else:
        with pytest.raises(OffsetNotAvailableError, match="orders-0 has offset 10, but not everywhere"):
            asyncio.run(source._out_of_range(10))
