"""One member of a classic group beside a scripted coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import errors as client_errors
from barnabas.client.consumer.membership.classic import ClassicMembership
from barnabas.client.consumer.membership.classic_requests import Generation
from barnabas.client.group_protocol import Assignment, write_assignment
from barnabas.client.model import TopicPartition
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.consumer.membership.members import member
from tests.client.live.work import until
from tests.client.scripted import TOPIC, ScriptedBroker, scripted

Run = Callable[[Any], Any]
PATIENT_MS = 60_000


def joined(
    code: int = 0, generation: int = 1, member_id: str = "m", protocol: str = "range"
) -> JoinGroupResponse:
    return JoinGroupResponse(
        throttle_time_ms=0,
        error_code=code,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name=protocol,
        leader="another",
        member_id=member_id,
        members=[],
    )


def synced(*numbers: int, code: int = 0) -> SyncGroupResponse:
    plan = write_assignment(Assignment(tuple(TopicPartition(TOPIC, number) for number in numbers)))
    return SyncGroupResponse(
        throttle_time_ms=0, error_code=code, protocol_type="consumer", protocol_name="range", assignment=plan
    )


def beaten(code: int = 0) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=0, error_code=code)


def coordinate(broker: ScriptedBroker, *numbers: int) -> None:
    broker.handlers[JoinGroupRequest] = lambda *_: joined()
    broker.handlers[SyncGroupRequest] = lambda *_: synced(*numbers)
    broker.handlers[HeartbeatRequest] = lambda *_: beaten()
    broker.handlers[LeaveGroupRequest] = lambda *_: LeaveGroupResponse(throttle_time_ms=0, error_code=0)


def test_joining_assigns_partitions_and_leaving_is_sent(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ClassicMembership, broker) as (membership, subscription, calls),
        ):
            coordinate(broker, 0, 2)
            await membership.update(Deadline(PATIENT_MS))
            assert [partition.partition for partition in subscription.partitions] == [0, 2]
            assert calls.calls == [("assigned", [0, 2])]
            assert membership.generation == Generation(1, "m", "range")
            assert not membership.needs_attention
            await membership.leave(Deadline(PATIENT_MS))
            (left,) = [one for one, _ in broker.requests if isinstance(one, LeaveGroupRequest)]
            assert [one.member_id for one in left.members] == ["m"]

    run(work())


def test_a_member_joins_with_the_id_that_the_coordinator_assigns(run: Run) -> None:
    """KIP-394: immediately, and without a rebalance for the unused id."""

    async def work() -> None:
        async with scripted() as broker, member(ClassicMembership, broker) as (membership, *_):
            coordinate(broker, 0)
            broker.once(JoinGroupRequest, lambda *_: joined(ErrorCode.MEMBER_ID_REQUIRED, -1, "given"))
            await membership.update(Deadline(PATIENT_MS))
            asked = [one.member_id for one, _ in broker.requests if isinstance(one, JoinGroupRequest)]
            assert asked == ["", "given"]

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_late_heartbeat_response_does_not_affect_the_new_generation(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with scripted() as broker, member(ClassicMembership, broker) as (membership, *_):
            coordinate(broker, 0)
            await membership.update(Deadline(PATIENT_MS))
            newer = Generation(2, "m", "range")

            def late(*_: Any) -> HeartbeatResponse:
                membership.generation = newer
                return beaten(code)

            broker.once(HeartbeatRequest, late)
            await membership._send_heartbeat()
            assert membership.generation == newer
            broker.once(HeartbeatRequest, lambda *_: beaten(code))
            with pytest.raises(client_errors.KafkaError) as sent:
                await membership._send_heartbeat()
            assert sent.value.code == code

    run(work())


def test_a_removed_member_loses_its_partitions_and_joins_again(run: Run) -> None:
    async def work() -> None:
        async with (
            scripted() as broker,
            member(ClassicMembership, broker, heartbeat_interval_ms=5, session_timeout_ms=100) as (
                membership,
                _,
                calls,
            ),
        ):
            coordinate(broker, 0)
            await membership.update(Deadline(PATIENT_MS))
            broker.once(HeartbeatRequest, lambda *_: beaten(ErrorCode.UNKNOWN_MEMBER_ID))
            await until(lambda: membership.needs_attention)
            assert membership.generation == Generation()
            await membership.update(Deadline(PATIENT_MS))
            assert calls.calls == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]
            asked = [one.member_id for one, _ in broker.requests if isinstance(one, JoinGroupRequest)]
            assert asked == ["", ""]

    run(work())


def test_a_rebalance_revokes_partitions_before_joining(run: Run) -> None:
    async def work() -> None:
        options = {
            "heartbeat_interval_ms": 5,
            "session_timeout_ms": 100,
            "partition_assignment_strategy": "range",
        }
        async with (
            scripted() as broker,
            member(ClassicMembership, broker, **options) as (
                membership,
                _,
                calls,
            ),
        ):
            coordinate(broker, 0)
            await membership.update(Deadline(PATIENT_MS))
            broker.once(HeartbeatRequest, lambda *_: beaten(ErrorCode.REBALANCE_IN_PROGRESS))
            await until(lambda: membership.needs_attention)
            assert membership.generation == Generation(1, "m", "range"), "it stays a member meanwhile"
            await membership.update(Deadline(PATIENT_MS))
            assert calls.calls == [("assigned", [0]), ("revoked", [0]), ("assigned", [0])]
            asked = [one.member_id for one, _ in broker.requests if isinstance(one, JoinGroupRequest)]
            assert asked == ["", "m"]

    run(work())


def test_a_coordinator_that_moved_is_looked_up_again_by_joins_and_heartbeats(run: Run) -> None:
    async def work() -> None:
        options = {"heartbeat_interval_ms": 5, "session_timeout_ms": 100}
        async with scripted() as broker, member(ClassicMembership, broker, **options) as (membership, *_):
            coordinate(broker, 0)
            broker.once(JoinGroupRequest, lambda *_: joined(ErrorCode.NOT_COORDINATOR, -1, ""))
            await membership.update(Deadline(PATIENT_MS))
            assert broker.count(FindCoordinatorRequest) == 2
            broker.once(HeartbeatRequest, lambda *_: beaten(ErrorCode.NOT_COORDINATOR))
            await until(lambda: broker.count(FindCoordinatorRequest) == 3)
            assert not membership.needs_attention, "the member is still what it was"

    run(work())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_refused_sync_joins_again_without_the_old_id(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with scripted() as broker, member(ClassicMembership, broker) as (membership, *_):
            coordinate(broker, 0)
            broker.once(SyncGroupRequest, lambda *_: synced(code=code))
            await membership.update(Deadline(PATIENT_MS))
            asked = [one.member_id for one, _ in broker.requests if isinstance(one, JoinGroupRequest)]
            assert asked == ["", ""]

    run(work())


def test_a_sync_during_a_rebalance_keeps_the_id(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, member(ClassicMembership, broker) as (membership, *_):
            coordinate(broker, 0)
            broker.once(SyncGroupRequest, lambda *_: synced(code=ErrorCode.REBALANCE_IN_PROGRESS))
            await membership.update(Deadline(PATIENT_MS))
            asked = [one.member_id for one, _ in broker.requests if isinstance(one, JoinGroupRequest)]
            assert asked == ["", "m"]

    run(work())


def test_what_no_further_attempt_changes_is_raised_in_the_poll(run: Run) -> None:
    async def work() -> None:
        options = {"heartbeat_interval_ms": 5, "session_timeout_ms": 100}
        async with scripted() as broker, member(ClassicMembership, broker, **options) as (membership, *_):
            coordinate(broker, 0)
            broker.once(JoinGroupRequest, lambda *_: joined(ErrorCode.GROUP_AUTHORIZATION_FAILED, -1, ""))
            with pytest.raises(client_errors.GroupAuthorizationFailedError):
                await membership.update(Deadline(PATIENT_MS))
            await membership.update(Deadline(PATIENT_MS))
            broker.once(HeartbeatRequest, lambda *_: beaten(ErrorCode.GROUP_AUTHORIZATION_FAILED))
            await until(lambda: membership.needs_attention)
            with pytest.raises(client_errors.GroupAuthorizationFailedError):
                await membership.update(Deadline(PATIENT_MS))

    run(work())


def test_a_member_that_does_not_poll_leaves_and_rejoins(run: Run) -> None:
    async def work() -> None:
        options = {"heartbeat_interval_ms": 5, "session_timeout_ms": 100, "max_poll_interval_ms": 100}
        async with (
            scripted() as broker,
            member(ClassicMembership, broker, **options) as (membership, _, calls),
        ):
            coordinate(broker, 0)
            await membership.update(Deadline(PATIENT_MS))
            await until(lambda: broker.count(LeaveGroupRequest) == 1)
            membership.polled()
            await membership.update(Deadline(PATIENT_MS))
            assert calls.calls == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]

    run(work())


def test_a_static_member_does_not_leave(run: Run) -> None:
    """KIP-345: its partitions are kept until it returns."""

    async def work() -> None:
        async with (
            scripted() as broker,
            member(ClassicMembership, broker, group_instance_id="i") as (
                membership,
                *_,
            ),
        ):
            coordinate(broker, 0)
            await membership.update(Deadline(PATIENT_MS))
            await membership.leave(Deadline(PATIENT_MS))
            assert broker.count(LeaveGroupRequest) == 0

    run(work())


def test_a_cooperative_member_keeps_what_stays_and_joins_again_after_giving_back(run: Run) -> None:
    """KIP-429: other members receive revoked partitions in the next rebalance."""

    async def work() -> None:
        options = {"partition_assignment_strategy": "cooperative-sticky"}
        async with (
            scripted() as broker,
            member(ClassicMembership, broker, **options) as (membership, subscription, calls),
        ):
            coordinate(broker, 0, 1)
            broker.handlers[JoinGroupRequest] = lambda *_: joined(protocol="cooperative-sticky")
            await membership.update(Deadline(PATIENT_MS))
            broker.handlers[SyncGroupRequest] = lambda *_: synced(1, 2)
            membership._request_join("a test wants it")
            before = broker.count(JoinGroupRequest)
            await membership.update(Deadline(PATIENT_MS))
            assert calls.calls == [
                ("assigned", [0, 1]),
                ("revoked", [0]),
                ("assigned", [2]),
                ("assigned", []),
            ]
            assert broker.count(JoinGroupRequest) == before + 2
            # Partitions that are no longer subscribed are revoked before the join.
            subscription.subscribe(["another"], listener=calls)
            broker.handlers[SyncGroupRequest] = lambda *_: synced()
            await membership.update(Deadline(PATIENT_MS))
            assert calls.calls[4:] == [("revoked", [1, 2]), ("assigned", [])]

    run(work())
