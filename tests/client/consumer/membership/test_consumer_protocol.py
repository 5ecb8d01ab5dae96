"""One member of a group of the consumer protocol (KIP-848) beside a scripted coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import errors as client_errors
from barnabas.client.consumer.membership.consumer_protocol import (
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerProtocolMembership,
)
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.client.consumer.membership.members import member
from tests.client.live.work import until
from tests.client.scripted import TOPIC, TOPIC_ID, ScriptedBroker, scripted

Run = Callable[[Any], Any]
PATIENT_MS = 60_000
OPTIONS: dict[str, Any] = {"group_protocol": "consumer"}


def beaten(
    *numbers: int, code: int = 0, epoch: int = 1, assigns: bool = True, interval_ms: int = 5
) -> ConsumerGroupHeartbeatResponse:
    topics = [ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=TOPIC_ID, partitions=list(numbers))]
    plan = ConsumerGroupHeartbeatResponse.Assignment(topic_partitions=topics if numbers else [])
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=code,
        member_id=None,
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=plan if assigns and not code else None,
    )


def requests_of(broker: ScriptedBroker) -> list[ConsumerGroupHeartbeatRequest]:
    return [one for one, _ in broker.requests if isinstance(one, ConsumerGroupHeartbeatRequest)]


def owned(request: ConsumerGroupHeartbeatRequest) -> list[int] | None:
    topics = request.topic_partitions
    return None if topics is None else [number for topic in topics for number in topic.partitions]


async def assigned(membership: Any, broker: ScriptedBroker, *numbers: int) -> None:
    """Join, receive an assignment, and acknowledge it."""
    broker.handlers[ConsumerGroupHeartbeatRequest] = lambda *_: beaten(*numbers)

    async def is_settled() -> bool:
        membership.polled()
        await membership.update(Deadline(PATIENT_MS))
        return bool(membership._owned) and membership._sent_owned == membership._owned

    await until(is_settled)


def test_joining_sends_everything_and_later_only_changes(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (membership, _, calls),
        ):
            broker.partitions = 2
            await assigned(membership, broker, 0, 1)
            assert calls.calls == [("assigned", [0, 1])]
            first, *others = requests_of(broker)
            assert (first.member_epoch, first.subscribed_topic_names, owned(first)) == (0, [TOPIC], [])
            assert first.rebalance_timeout_ms == 300_000
            sent = [other for other in others if owned(other) is not None]
            assert [owned(one) for one in sent] == [[0, 1]], "said once"
            assert all(
                other.subscribed_topic_names is None and other.rebalance_timeout_ms == -1 for other in others
            )
            assert all(other.member_epoch == 1 for other in others)
            assert membership._interval_s == 0.005, "as often as the broker wants to hear"

    run(work())


def test_after_an_error_everything_is_sent_again(run: Run) -> None:
    """The outcome of a heartbeat without a response is unknown, and a new coordinator has no state."""

    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (membership, *_),
        ):
            await assigned(membership, broker, 0)
            before = len(requests_of(broker))
            broker.once(
                ConsumerGroupHeartbeatRequest, lambda *_: beaten(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            )
            await until(lambda: any(owned(one) is not None for one in requests_of(broker)[before:]))
            seen = len(requests_of(broker))
            await until(lambda: len(requests_of(broker)) > seen + 1)
            since = requests_of(broker)[before:]
            (again,) = [one for one in since if owned(one) is not None]
            assert owned(again) == [0]
            assert again.subscribed_topic_names == [TOPIC]
            assert again.rebalance_timeout_ms == 300_000
            assert again.member_epoch == 1
            assert broker.count(FindCoordinatorRequest) == 1

    run(work())


def test_a_coordinator_that_moved_is_looked_up_again(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (membership, *_),
        ):
            await assigned(membership, broker, 0)
            broker.once(ConsumerGroupHeartbeatRequest, lambda *_: beaten(code=ErrorCode.NOT_COORDINATOR))
            await until(lambda: broker.count(FindCoordinatorRequest) == 2)

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_was_fenced_loses_everything_and_joins_again(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (membership, _, calls),
        ):
            await assigned(membership, broker, 0)
            before = len(requests_of(broker))
            broker.once(ConsumerGroupHeartbeatRequest, lambda *_: beaten(code=code))
            await until(lambda: membership.needs_attention)
            await assigned(membership, broker, 0)
            assert calls.calls == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]
            rejoins = [one for one in requests_of(broker)[before:] if one.member_epoch == 0]
            assert rejoins
            assert all(owned(rejoin) == [] for rejoin in rejoins)
            assert {one.member_id for one in requests_of(broker)} == {membership._member_id}, (
                "under the same id"
            )

    run(work())


def test_partitions_are_revoked_before_others_are_assigned(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (
                membership,
                subscription,
                calls,
            ),
        ):
            broker.partitions = 3
            await assigned(membership, broker, 0, 1)
            broker.handlers[ConsumerGroupHeartbeatRequest] = lambda *_: beaten(1, 2, epoch=2)

            async def is_settled() -> bool:
                await membership.update(Deadline(PATIENT_MS))
                return sorted(partition.partition for partition in subscription.partitions) == [1, 2]

            await until(is_settled)
            assert calls.calls == [("assigned", [0, 1]), ("revoked", [0]), ("assigned", [2])]
            await until(lambda: [1, 2] in [owned(one) for one in requests_of(broker)])
            assert [owned(one) for one in requests_of(broker) if owned(one) is not None] == [
                [],
                [0, 1],
                [1, 2],
            ]

    run(work())


def test_an_error_of_the_user_ends_it_and_is_raised(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS) as (membership, *_),
        ):
            broker.handlers[ConsumerGroupHeartbeatRequest] = lambda *_: beaten(
                code=ErrorCode.UNSUPPORTED_ASSIGNOR
            )
            await membership.update(Deadline(PATIENT_MS))
            await until(lambda: membership._error is not None)
            with pytest.raises(client_errors.UnsupportedAssignorError):
                await membership.update(Deadline(PATIENT_MS))

    run(work())


@pytest.mark.parametrize(
    ("options", "epoch"), [({}, LEAVING_EPOCH), ({"group_instance_id": "i"}, STATIC_LEAVING_EPOCH)]
)
def test_leaving_says_for_how_long(run: Run, options: dict[str, Any], epoch: int) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **OPTIONS, **options) as (membership, *_),
        ):
            await assigned(membership, broker, 0)
            await membership.leave(Deadline(PATIENT_MS))
            assert requests_of(broker)[-1].member_epoch == epoch

    run(work())


def test_a_member_that_does_not_poll_leaves_and_rejoins(run: Run) -> None:
    async def work() -> None:
        options = {**OPTIONS, "max_poll_interval_ms": 100}
        async with (
            scripted() as broker,
            member(ConsumerProtocolMembership, broker, **options) as (membership, _, calls),
        ):
            await assigned(membership, broker, 0)
            await until(lambda: requests_of(broker)[-1].member_epoch == LEAVING_EPOCH)

            async def has_lost() -> bool:
                await assigned(membership, broker, 0)
                return ("lost", [0]) in calls.calls

            await until(has_lost)
            await assigned(membership, broker, 0)
            assert calls.calls[:3] == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]

    run(work())
