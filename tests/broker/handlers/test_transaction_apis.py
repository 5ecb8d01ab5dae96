"""The transaction APIs: authorization, responses, batches."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from barnabas.broker.handlers import add_partitions_to_txn, init_producer_id
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.worlds.data_world import Forbid
from tests.broker.worlds.txn_world import ABORT, COMMIT, TxnWorld

NONE = ErrorCode.NONE
WRITE_SHOP = (Operation.WRITE, Resource.TRANSACTIONAL_ID, "shop")


def as_broker(
    world: TxnWorld, *rows: tuple[str, int, int, bool, dict[str, list[int]]], version: int = 5
) -> Any:
    """Several transactions: id, producer id, epoch, verify only, partitions by topic."""
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnRequest.Transaction(
                transactional_id=name,
                producer_id=pid,
                producer_epoch=epoch,
                verify_only=verify,
                topics=[AddPartitionsToTxnRequest.Topic(name=t, partitions=p) for t, p in topics.items()],
            )
            for name, pid, epoch, verify, topics in rows
        ]
    )
    return world.answer(add_partitions_to_txn, request, version)


def codes_of(answer: Any) -> list[dict[tuple[str, int], ErrorCode]]:
    return [
        {
            (topic.name, one.partition_index): ErrorCode(one.partition_error_code)
            for topic in result.topic_results
            for one in topic.results_by_partition
        }
        for result in answer.results_by_transaction
    ]


@pytest.mark.trap
def test_time_outs_and_ids_are_checked_first() -> None:
    """Trap 20: INVALID_TRANSACTION_TIMEOUT."""
    world = TxnWorld()
    for timeout_ms in (0, -1, 900_001):
        answer = world.init(transaction_timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
    assert world.init("").error_code == ErrorCode.INVALID_REQUEST
    assert world.init(producer_id=4).error_code == ErrorCode.INVALID_REQUEST
    assert world.init(producer_epoch=4).error_code == ErrorCode.INVALID_REQUEST
    assert world.listed().transaction_states == []


def test_two_phase_commit_is_refused() -> None:
    world = TxnWorld()
    request = InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=60_000, enable2_pc=True)
    refused = world.answer(init_producer_id, request, 6)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request = InitProducerIdRequest(
        transactional_id="shop", transaction_timeout_ms=60_000, keep_prepared_txn=True
    )
    assert world.answer(init_producer_id, request, 6).error_code == ErrorCode.UNSUPPORTED_VERSION
    allowed = TxnWorld(options={"transaction.two.phase.commit.enable": "true"})
    request = InitProducerIdRequest(transactional_id="shop", transaction_timeout_ms=0, enable2_pc=True)
    assert allowed.answer(init_producer_id, request, 6).error_code == 0
    assert allowed.known().timeout_ms == 2**31 - 1


def test_authorization_of_transaction_apis() -> None:
    world = TxnWorld()
    world.init()
    world.authorizer = Forbid(WRITE_SHOP)
    denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.init().error_code == denied
    assert world.add(0, 1) == [denied, denied]
    assert world.add_offsets("readers") is denied
    ended = world.end(COMMIT)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (denied, -1, -1)
    world.authorizer = Forbid((Operation.READ, Resource.GROUP, "readers"))
    assert world.add_offsets("readers") is ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.topic("secret")
    world.authorizer = Forbid((Operation.WRITE, Resource.TOPIC, "secret"))
    assert world.add(0, topic="secret") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_only_brokers_write_markers_and_verify_for_others() -> None:
    world = TxnWorld()
    action = (Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    alter = (Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    world.authorizer = Forbid(action, alter)
    answer = world.marker(ABORT, 0)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    refused = as_broker(world, ("shop", 0, 0, True, {"orders": [0]}))
    assert (refused.error_code, refused.results_by_transaction) == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        [],
    )
    world.authorizer = Forbid(action)  # an administrator
    assert world.marker(ABORT, 0).markers[0].topics[0].partitions[0].error_code == 0


def test_one_invalid_partition_fails_the_transaction() -> None:
    world = TxnWorld()
    world.init()
    assert world.add(0, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.add(0, topic="nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    for internal in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        assert world.add(0, topic=internal) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert world.add(0, name="") == [ErrorCode.INVALID_REQUEST]
    assert world.state() == "Empty"


def test_brokers_verify_several_transactions_at_once() -> None:
    world = TxnWorld()
    world.init("a")
    world.init("b")
    answer = as_broker(
        world,
        ("a", 0, 0, False, {"orders": [0, 1]}),
        ("b", 1, 0, True, {"orders": [0]}),
        ("nobody", 1, 0, False, {"orders": [0]}),
        ("b", 1, 7, True, {"orders": [0], "nowhere": [0]}),
    )
    assert [one.transactional_id for one in answer.results_by_transaction] == ["a", "b", "nobody", "b"]
    assert codes_of(answer) == [
        {("orders", 0): NONE, ("orders", 1): NONE},
        {("orders", 0): ErrorCode.TRANSACTION_ABORTABLE},
        {("orders", 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING},
        {
            ("orders", 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        },
    ]
    assert codes_of(as_broker(world, ("a", 0, 0, True, {"orders": [1]}), version=4)) == [
        {("orders", 1): NONE}
    ]
    assert as_broker(world).results_by_transaction == []


def test_describing() -> None:
    world = TxnWorld()
    world.topic("secret")
    world.init()
    world.add(1, 0)
    world.add(0, topic="secret")
    world.authorizer = Forbid(
        (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "hidden"),
        (Operation.DESCRIBE, Resource.TOPIC, "secret"),
    )
    shop, nobody, none, hidden = world.described("shop", "nobody", "", "hidden")
    assert (shop.error_code, shop.transaction_state, shop.producer_id) == (0, "Ongoing", 0)
    assert [(topic.topic, topic.partitions) for topic in shop.topics] == [("orders", [0, 1])]
    assert nobody.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert none.error_code == ErrorCode.INVALID_REQUEST
    assert hidden.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_listing() -> None:
    world = TxnWorld()
    for name in ("a", "b", "c"):
        world.init(name)
    world.add(0, name="b", pid=1)
    answer = world.listed(state_filters=["Ongoing", "Sleeping"])
    assert answer.unknown_state_filters == ["Sleeping"]
    assert [(one.transactional_id, one.producer_id) for one in answer.transaction_states] == [("b", 1)]
    world.authorizer = Forbid((Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "a"))
    shown = {one.transactional_id for one in world.listed().transaction_states}
    assert shown == {"b", "c"}
    assert world.listed(transactional_id_pattern="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_listing_fails_while_a_coordinator_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    world = TxnWorld()
    world.init()
    monkeypatch.setattr(type(world.transactions.shards), "is_loading", True)
    assert world.listed().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
