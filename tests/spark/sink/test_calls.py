"""The driver's requests, and what it makes of errors; without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.errors.base import RetriableError, error_for
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.producer.transactions import LAST_EXPLICIT_END_TXN
from barnabas.spark.sink.calls import LIST_PATIENCE_MS, PATTERN_VERSION, SinkCalls
from barnabas.spark.sink.decision import OpenTransaction, Seen, task_id_pattern


class Scripted(SinkCalls):
    """Answers from a list, and notes requests."""

    def __init__(self, *codes: ErrorCode, version: int = PATTERN_VERSION) -> None:
        self.codes = list(codes)
        self.sent: list[Any] = []
        self.failures: list[tuple[str, ErrorCode]] = []
        self.outcomes: Any = None
        self.asked: dict[str, Any] = {}
        self.cluster: Any = SimpleNamespace(
            retries=SimpleNamespace(until=self._until),
            coordinator=self._coordinator,
            any_connection=self._coordinator,
            coordinator_failed=lambda name, _, error: self.failures.append((name, error.code)),
        )
        self._version = version

    def deadline(self) -> Any:
        return None

    async def _until(self, _: object, __: str, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await attempt()
            except RetriableError:
                continue

    async def _coordinator(self, *_: object) -> Any:
        return SimpleNamespace(send=self._send, version_for=lambda _: self._version)

    async def _send(self, request: Any, _: object, *, highest: int | None = None) -> Any:
        self.sent.append((request, highest))
        return SimpleNamespace(error_code=self.codes.pop(0))

    async def describe_transactions(self, *_: object, **__: object) -> Any:
        return self.outcomes

    async def list_transactions(self, **asked: Any) -> Any:
        self.asked = asked
        return self.outcomes


def outcomes(values: dict[Any, Any], **errors: KafkaError) -> Any:
    return SimpleNamespace(values_by_key=values, errors=errors)


def test_unknown_transactions_are_left_out_and_other_errors_are_raised() -> None:
    calls = Scripted()
    known = SimpleNamespace(state="Ongoing", producer_id=5, producer_epoch=2)
    missing = error_for(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    calls.outcomes = outcomes({"a": known}, b=missing)
    assert asyncio.run(calls.seen(["a", "b"])) == {"a": Seen("Ongoing", 5, 2)}
    calls.outcomes = outcomes({"a": known}, b=error_for(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError) as raised:
        asyncio.run(calls.seen(["a", "b"]))
    assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("error", [KafkaTimeoutError("slow"), error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE)])
def test_a_broker_that_does_not_respond_is_left_out_of_the_ongoing_ones(error: KafkaError) -> None:
    calls = Scripted()
    listing = [SimpleNamespace(transactional_id=name) for name in ("x", "y")]
    calls.outcomes = outcomes({1: listing}, two=error)
    assert asyncio.run(calls.ongoing("sink")) == ["x", "y"]
    assert calls.asked == {
        "states": ["Ongoing"],
        "transactional_id_pattern": task_id_pattern("sink"),
        "timeout_ms": LIST_PATIENCE_MS,
    }


def test_a_refusal_to_list_transactions_is_raised_and_older_brokers_get_no_pattern() -> None:
    calls = Scripted(version=PATTERN_VERSION - 1)
    calls.outcomes = outcomes({}, one=error_for(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError) as raised:
        asyncio.run(calls.ongoing("sink"))
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert calls.asked["transactional_id_pattern"] is None


def test_fencing_has_begun_when_the_coordinator_is_busy_with_it() -> None:
    calls = Scripted(ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS)
    asyncio.run(calls.fence(["a", "b"]))
    assert [request.transactional_id for request, _ in calls.sent] == ["a", "b"]
    assert {request.transaction_timeout_ms for request, _ in calls.sent} == {60_000}
    with pytest.raises(KafkaError) as raised:
        asyncio.run(Scripted(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED).fence(["a"]))
    assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_coordinator_that_has_moved_is_looked_up_again() -> None:
    errors = [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    calls = Scripted(*errors, ErrorCode.NONE)
    asyncio.run(calls.fence(["a"]))
    assert len(calls.sent) == 3
    assert calls.failures == [("a", error) for error in errors], "the cluster decides what they mean"


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize(("implicit", "highest"), [(True, None), (False, LAST_EXPLICIT_END_TXN)])
def test_transactions_that_are_no_longer_open_are_returned(
    committed: bool, implicit: bool, highest: int | None
) -> None:
    calls = Scripted(ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED)
    transactions = [OpenTransaction(name, number, 1, ()) for number, name in enumerate("abc")]
    closed = asyncio.run(calls.end_all(transactions, committed=committed, implicit=implicit))
    assert closed == transactions[1:]
    request, asked = calls.sent[2]
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("c", 2, 1)
    assert (request.committed, asked) == (committed, highest)


def test_another_error_at_the_end_of_a_transaction_is_raised() -> None:
    calls = Scripted(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError) as raised:
        asyncio.run(calls.end_all([OpenTransaction("a", 1, 1, ())], committed=True, implicit=True))
    assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
