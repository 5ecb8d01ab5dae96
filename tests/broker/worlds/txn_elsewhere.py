"""Transactions whose partitions, or coordinators, are on other brokers."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.topic_names import TRANSACTION_STATE
from tests.broker.worlds.txn_world import PARTITIONS, FakeChannel, Sent, TxnWorld

NONE = ErrorCode.NONE


class Elsewhere(TxnWorld):
    """`far` has two partitions that broker 2 leads, and `farther` one of broker 3."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.topic("far", 2, replicas=(2,), leader=2)
        self.topic("farther", 1, replicas=(3,), leader=3)

    @property
    def to_partitions(self) -> FakeChannel:
        return self.channels["markers"]

    @property
    def to_coordinators(self) -> FakeChannel:
        return self.channels["verification"]

    def open(self, *topics: str) -> None:
        self.init()
        for topic in topics:
            assert self.add(*range(2 if topic == "far" else 1), topic=topic)[0] is NONE

    def markers(self, count: int = 1) -> list[Sent]:
        """The requests with markers that are in flight, by broker."""
        self.tick()
        sent = sorted(self.to_partitions.sent, key=lambda request: request.broker_id)
        self.to_partitions.sent.clear()
        assert len(sent) == count
        return sent


class CoordinatedElsewhere(Elsewhere):
    """All transactions are coordinated by broker 2."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        for index in range(PARTITIONS):
            self.partition_change(TRANSACTION_STATE, index=index, replicas=[2], leader=2, isr=[2])

    def asked(self) -> Sent:
        self.tick()
        return self.to_coordinators.take()

    def outcome(self) -> ErrorCode:
        return ErrorCode(self.late[0].responses[0].partition_responses[0].error_code)
