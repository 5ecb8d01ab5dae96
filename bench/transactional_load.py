"""The transactional part of a produce load: begin with all partitions, and commit."""

from __future__ import annotations

import time

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from barnabas.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bench.servers import Server
from tools.raw_broker import RawConnection

FIND_VERSION, INIT_VERSION, ADD_VERSION, END_VERSION = 4, 4, 3, 3
TRANSACTION_KEY = 1
TIMEOUT_MS = 60_000
PATIENCE_S = 60
RETRY_S = 0.02


def begin(server: Server, transactional_id: str, topic: str, partitions: int) -> int:
    """Starts a transaction over all partitions with a new producer; returns its id."""
    until = time.monotonic() + PATIENCE_S
    with RawConnection(server.address, PATIENCE_S) as connection:
        find = FindCoordinatorRequest(key_type=TRANSACTION_KEY, coordinator_keys=[transactional_id])
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
        # The first request creates the internal topic, and waits until the coordinators have loaded it.
        while connection.ask(find, FIND_VERSION, FindCoordinatorResponse).coordinators[0].error_code:
            assert time.monotonic() < until, "no coordinator of transactions"
            time.sleep(RETRY_S)
        while (producer := connection.ask(init, INIT_VERSION, InitProducerIdResponse)).error_code:
            assert time.monotonic() < until, ErrorCode(producer.error_code).name
            time.sleep(RETRY_S)
        assert producer.producer_epoch == 0, producer
        named = AddPartitionsToTxnRequest.Topic(name=topic, partitions=list(range(partitions)))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[named],
        )
        response = connection.ask(request, ADD_VERSION, AddPartitionsToTxnResponse)
        results = response.results_by_topic_v3_and_below[0].results_by_partition
        assert not any(result.partition_error_code for result in results), response
    return producer.producer_id


def commit(server: Server, transactional_id: str, producer_id: int) -> None:
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=0, committed=True
    )
    with RawConnection(server.address, PATIENCE_S) as connection:
        response = connection.ask(request, END_VERSION, EndTxnResponse)
    assert not response.error_code, ErrorCode(response.error_code).name
