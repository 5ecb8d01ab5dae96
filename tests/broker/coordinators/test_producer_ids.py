"""Producer ids from the controller's blocks."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.coordinators.producer_ids import ProducerIds
from barnabas.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.data_world import HandController, World


class Broker:
    broker_epoch = 5

    def __init__(self) -> None:
        self.metadata = HandController()


def value(promise: Promise[int]) -> int:
    found: list[int] = []
    promise.then(found.append, lambda error: pytest.fail(str(error)))
    return found[0]


def error(promise: Promise[int]) -> ErrorCode:
    found: list[BaseException] = []
    promise.then(lambda _: None, found.append)
    assert isinstance(found[0], KafkaError)
    return found[0].code


def test_every_id_is_given_once() -> None:
    broker = Broker()
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    given = [value(ids.next()) for _ in range(2500)]
    assert given == list(range(2500))


def test_the_next_block_is_prefetched() -> None:
    broker = Broker()
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    for _ in range(899):
        ids.next()
    assert broker.metadata.asked == [AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)]
    ids.next()
    assert len(broker.metadata.asked) == 2
    for _ in range(150):
        ids.next()
    assert len(broker.metadata.asked) == 2


def test_requests_wait_for_the_first_block() -> None:
    broker = Broker()
    broker.metadata.holds_answers = True
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    waiting = [ids.next() for _ in range(3)]
    assert len(broker.metadata.asked) == 1
    broker.metadata.answers[0].set(
        AllocateProducerIdsResponse(
            throttle_time_ms=0, error_code=0, producer_id_start=7000, producer_id_len=1000
        )
    )
    assert [value(promise) for promise in waiting] == [7000, 7001, 7002]


def test_a_refused_block_fails_all_waiting_requests_and_is_retried() -> None:
    broker = Broker()
    broker.metadata.producer_ids_error = ErrorCode.STALE_BROKER_EPOCH
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    assert error(ids.next()) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    broker.metadata.producer_ids_error = 0
    assert value(ids.next()) == 0


def test_a_failed_request_fails_all_waiting_requests_and_is_retried() -> None:
    """As when there is no controller for a while: no request was ever sent again."""
    broker = Broker()
    broker.metadata.holds_answers = True
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    waiting = [ids.next() for _ in range(3)]
    broker.metadata.answers[0].fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert {error(promise) for promise in waiting} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    again = ids.next()
    assert len(broker.metadata.asked) == 2
    broker.metadata.answers[1].set(
        AllocateProducerIdsResponse(
            throttle_time_ms=0, error_code=0, producer_id_start=3000, producer_id_len=1000
        )
    )
    assert value(again) == 3000


def test_a_prefetch_that_fails_is_tried_again_with_the_next_id() -> None:
    broker = Broker()
    ids = ProducerIds(broker, 1)  # type: ignore[arg-type]  # the part that it uses
    for _ in range(899):
        ids.next()
    broker.metadata.holds_answers = True
    ids.next()
    broker.metadata.answers[0].fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert value(ids.next()) == 900
    assert len(broker.metadata.asked) == 3


def test_a_request_has_the_broker_epoch() -> None:
    world = World()
    world.replicas.producer_ids.next()
    assert world.metadata.asked[-1] == AllocateProducerIdsRequest(broker_id=1, broker_epoch=100)
