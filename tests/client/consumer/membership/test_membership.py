"""What is done when partitions come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.model import TopicPartition
from tests.client.consumer.membership.members import Heard
from tests.client.scripted import TOPIC

Run = Callable[[Any], Any]
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def with_two(listener: Any) -> Subscription:
    subscription = Subscription()
    subscription.subscribe([TOPIC], listener=listener)
    subscription.set_partitions([FIRST, SECOND])
    return subscription


def test_what_is_given_back_is_committed_before_and_not_handed_out_meanwhile(run: Run) -> None:
    async def work() -> None:
        heard = Heard()
        subscription = with_two(heard)

        async def commit(partitions: Iterable[TopicPartition]) -> None:
            assert list(partitions) == [FIRST]
            assert subscription.state(FIRST).is_revoked_soon
            assert not subscription.state(SECOND).is_revoked_soon
            heard.calls.append(("committed", [0]))

        await AssignmentHandler(subscription, commit).revoke([FIRST])
        assert heard.calls == [("committed", [0]), ("revoked", [0])]
        assert list(subscription.partitions) == [SECOND]

    run(work())


@pytest.mark.parametrize("who", ["commit", "listener"])
def test_whatever_fails_the_partitions_are_gone(run: Run, who: str) -> None:
    async def work() -> None:
        class Failing(Heard):
            def on_partitions_revoked(self, partitions: list[Any]) -> None:
                raise ZeroDivisionError

        subscription = with_two(Failing() if who == "listener" else Heard())

        async def commit(_: Any) -> None:
            if who == "commit":
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await AssignmentHandler(subscription, commit).revoke([FIRST, SECOND])
        assert subscription.partitions == {}

    run(work())


def test_what_is_lost_is_not_committed(run: Run) -> None:
    async def work() -> None:
        heard = Heard()
        subscription = with_two(heard)

        async def commit(_: Any) -> None:
            raise AssertionError("others may have it already")

        await AssignmentHandler(subscription, commit).lose([SECOND])
        assert heard.calls == [("lost", [1])]
        assert list(subscription.partitions) == [FIRST]

    run(work())


def test_a_listener_without_lost_hears_that_they_are_revoked(run: Run) -> None:
    async def work() -> None:
        calls: list[Any] = []

        class Old:
            async def on_partitions_revoked(self, partitions: list[Any]) -> None:
                calls.append(partitions)

        await AssignmentHandler(with_two(Old()), Any).lose([SECOND])  # type: ignore[arg-type]  # never called
        assert calls == [[SECOND]]

    run(work())


def test_nothing_given_back_is_no_news_and_nothing_assigned_is(run: Run) -> None:
    async def work() -> None:
        heard = Heard()
        assignment_handler = AssignmentHandler(with_two(heard), Any)  # type: ignore[arg-type]  # never called
        await assignment_handler.revoke([])
        await assignment_handler.lose([])
        assert heard.calls == []
        await assignment_handler.assign([])
        assert heard.calls == [("assigned", [])]

    run(work())
