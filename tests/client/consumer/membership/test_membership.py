"""Assigning and revoking partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.model import TopicPartition
from tests.client.consumer.membership.members import RecordedCalls
from tests.client.scripted import TOPIC

Run = Callable[[Any], Any]
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def with_two(listener: Any) -> Subscription:
    subscription = Subscription()
    subscription.subscribe([TOPIC], listener=listener)
    subscription.set_partitions([FIRST, SECOND])
    return subscription


def test_revoked_partitions_are_committed_first_and_not_delivered_meanwhile(run: Run) -> None:
    async def work() -> None:
        calls = RecordedCalls()
        subscription = with_two(calls)

        async def commit(partitions: Iterable[TopicPartition]) -> None:
            assert list(partitions) == [FIRST]
            assert subscription.state(FIRST).is_revoked_soon
            assert not subscription.state(SECOND).is_revoked_soon
            calls.calls.append(("committed", [0]))

        await AssignmentHandler(subscription, commit).revoke([FIRST])
        assert calls.calls == [("committed", [0]), ("revoked", [0])]
        assert list(subscription.partitions) == [SECOND]

    run(work())


@pytest.mark.parametrize("who", ["commit", "listener"])
def test_partitions_are_revoked_whatever_fails(run: Run, who: str) -> None:
    async def work() -> None:
        class Failing(RecordedCalls):
            def on_partitions_revoked(self, partitions: list[Any]) -> None:
                raise ZeroDivisionError

        subscription = with_two(Failing() if who == "listener" else RecordedCalls())

        async def commit(_: Any) -> None:
            if who == "commit":
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await AssignmentHandler(subscription, commit).revoke([FIRST, SECOND])
        assert subscription.partitions == {}

    run(work())


def test_what_is_lost_is_not_committed(run: Run) -> None:
    async def work() -> None:
        calls = RecordedCalls()
        subscription = with_two(calls)

        async def commit(_: Any) -> None:
            raise AssertionError("others may have it already")

        await AssignmentHandler(subscription, commit).lose([SECOND])
        assert calls.calls == [("lost", [1])]
        assert list(subscription.partitions) == [FIRST]

    run(work())


def test_a_listener_without_on_partitions_lost_is_called_with_revoked(run: Run) -> None:
    async def work() -> None:
        calls: list[Any] = []

        class Old:
            async def on_partitions_revoked(self, partitions: list[Any]) -> None:
                calls.append(partitions)

        await AssignmentHandler(with_two(Old()), Any).lose([SECOND])  # type: ignore[arg-type]  # never called
        assert calls == [[SECOND]]

    run(work())


def test_an_empty_revocation_is_not_notified_and_an_empty_assignment_is(run: Run) -> None:
    async def work() -> None:
        calls = RecordedCalls()
        assignment_handler = AssignmentHandler(with_two(calls), Any)  # type: ignore[arg-type]  # never called
        await assignment_handler.revoke([])
        await assignment_handler.lose([])
        assert calls.calls == []
        await assignment_handler.assign([])
        assert calls.calls == [("assigned", [])]

    run(work())
