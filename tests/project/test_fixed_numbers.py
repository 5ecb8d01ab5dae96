"""Numbers that Apache Kafka has in its code rather than among its configs, and that clients or files depend on."""

from __future__ import annotations

from types import ModuleType

import pytest

from barnabas.base import topic_names
from barnabas.batch import records
from barnabas.client.consumer.fetch import fetch_session
from barnabas.client.producer import identity
from barnabas.controller import decision
from barnabas.controller.brokers import producer_ids
from barnabas.controller.replication import elections
from barnabas.coordinator.txn import transaction
from barnabas.metadata import scram, topics
from barnabas.replica import fetch_sessions
from barnabas.storage.log import log_reader
from barnabas.storage.producers import producer_append

# Module, name, value, and where Apache Kafka has it.
NUMBERS = [
    (topic_names, "MAX_NAME_LENGTH", 249, "Topic.MAX_NAME_LENGTH"),
    (records, "NO_TIMESTAMP", -1, "RecordBatch.NO_TIMESTAMP"),
    (records, "NO_PRODUCER_ID", -1, "RecordBatch.NO_PRODUCER_ID"),
    (records, "NO_PRODUCER_EPOCH", -1, "RecordBatch.NO_PRODUCER_EPOCH"),
    (records, "NO_SEQUENCE", -1, "RecordBatch.NO_SEQUENCE"),
    (records, "NO_LEADER_EPOCH", -1, "RecordBatch.NO_PARTITION_LEADER_EPOCH"),
    (fetch_session, "NO_SESSION", 0, "FetchMetadata.INVALID_SESSION_ID"),
    (fetch_session, "INITIAL_EPOCH", 0, "FetchMetadata.INITIAL_EPOCH"),
    (fetch_session, "FINAL_EPOCH", -1, "FetchMetadata.FINAL_EPOCH"),
    (fetch_session, "MAX_EPOCH", 2**31 - 1, "FetchMetadata.nextEpoch"),
    (identity, "MAX_EPOCH", 2**15 - 1, "ProducerIdAndEpoch.epoch"),
    (producer_ids, "BLOCK_SIZE", 1_000, "ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE"),
    (decision, "MAX_RECORDS_PER_BATCH", 10_000, "QuorumController.MAX_RECORDS_PER_USER_OP"),
    (
        elections,
        "MAX_ELECTIONS_PER_ROUND",
        1_000,
        "ReplicationControlManager.MAX_ELECTIONS_PER_IMBALANCE",
    ),
    (transaction, "MAX_EPOCH", 2**15 - 1, "TransactionMetadata.isEpochExhausted"),
    (transaction, "NO_TIMEOUT_MS", 2**31 - 1, "Integer.MAX_VALUE in InitProducerIdRequest (KIP-939)"),
    (scram, "MIN_ITERATIONS", 4096, "ScramMechanism.minIterations"),
    (scram, "MAX_ITERATIONS", 16384, "ScramControlManager.MAX_ITERATIONS"),
    (topics, "NO_LEADER", -1, "LeaderConstants.NO_LEADER"),
    (fetch_sessions, "NO_SESSION", 0, "FetchMetadata.INVALID_SESSION_ID"),
    (fetch_sessions, "INITIAL_EPOCH", 0, "FetchMetadata.INITIAL_EPOCH"),
    (fetch_sessions, "FINAL_EPOCH", -1, "FetchMetadata.FINAL_EPOCH"),
    (fetch_sessions, "MAX_EPOCH", 2**31 - 1, "FetchMetadata.nextEpoch"),
    (log_reader, "LATEST_TIMESTAMP", -1, "ListOffsetsRequest.LATEST_TIMESTAMP"),
    (log_reader, "EARLIEST_TIMESTAMP", -2, "ListOffsetsRequest.EARLIEST_TIMESTAMP"),
    (log_reader, "MAX_TIMESTAMP", -3, "ListOffsetsRequest.MAX_TIMESTAMP"),
    (log_reader, "EARLIEST_LOCAL_TIMESTAMP", -4, "ListOffsetsRequest.EARLIEST_LOCAL_TIMESTAMP"),
    (log_reader, "LATEST_TIERED_TIMESTAMP", -5, "ListOffsetsRequest.LATEST_TIERED_TIMESTAMP"),
    (producer_append, "BATCHES_KEPT", 5, "ProducerStateEntry.NUM_BATCHES_TO_RETAIN"),
]


@pytest.mark.parametrize(("module", "name", "value", "original"), NUMBERS)
def test_a_number_is_apache_kafkas(module: ModuleType, name: str, value: int, original: str) -> None:
    assert getattr(module, name) == value, original
