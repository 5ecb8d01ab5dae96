"""Apache Kafka's own tool for transactions against a broker of ours: a hanging transaction is found and ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.broker.worlds.live_broker import live_broker
from tests.verify.answers.asks.txn import in_txn
from tests.verify.answers.broker_ask import RawClient
from tests.verify.answers.test_txn_answers import wait_for_coordinators
from tests.verify.nodes.broker_node import VERSION
from tools.raw_broker import BrokerProcess

# What hangs: a producer that no coordinator knows.
LOST_ID = 4_242
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """One that takes what no coordinator knows of, as brokers before KIP-890 did."""
    with live_broker("--override", "transaction.partition.verification.enable=false") as broker:
        yield broker


@pytest.fixture(scope="module")
def raw_client(broker: BrokerProcess) -> Iterator[RawClient]:
    host, port = broker.address
    raw_client = RawClient(port, 0.05, host=host)
    wait_for_coordinators(raw_client)
    raw_client.one(
        "CreateTopics",
        7,
        timeout_ms=9000,
        topics=[{"name": "ledger", "num_partitions": 1, "replication_factor": 1}],
    )
    yield raw_client
    raw_client.close()


@pytest.fixture(scope="module")
def transactions(broker: BrokerProcess, oracle: Callable[..., Any]) -> Tool:
    """The tool, and what it says."""

    def run(*arguments: str) -> str:
        address = "{}:{}".format(*broker.address)
        done = oracle(VERSION, "tool", "transactions", "--bootstrap-server", address, *arguments)
        assert done.returncode == 0, done.stderr[-3000:]
        return str(done.stdout)

    return run


def stable_end(raw_client: RawClient) -> int:
    rows = [{"partition_index": 0, "timestamp": -1}]
    topics = [{"name": "ledger", "partitions": rows}]
    answer = raw_client.one("ListOffsets", 7, replica_id=-1, isolation_level=1, topics=topics)
    return int(answer["topics"][0]["partitions"][0]["offset"])


def write(raw_client: RawClient, name: str, batch: bytes) -> None:
    part = {"index": 0, "records": batch}
    answer = raw_client.one(
        "Produce",
        9,
        transactional_id=name,
        acks=-1,
        timeout_ms=9000,
        topic_data=[{"name": "ledger", "partition_data": [part]}],
    )
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer


def test_a_hanging_transaction_is_found_and_aborted(raw_client: RawClient, transactions: Tool) -> None:
    write(raw_client, "lost", in_txn(LOST_ID, 0, 0, "hangs"))
    assert stable_end(raw_client) == 0
    # Its records are as old as those of all tables: far older than any transaction may be.
    found = transactions("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "1")
    assert ["ledger", "0", str(LOST_ID)] in [line.split()[:3] for line in found.splitlines()]
    transactions("abort", "--topic", "ledger", "--partition", "0", "--start-offset", "0")
    assert stable_end(raw_client) == 2
    assert str(LOST_ID) not in transactions("find-hanging", "--broker-id", "1")


def test_ids_are_listed_and_described(raw_client: RawClient, transactions: Tool) -> None:
    begun = raw_client.one("InitProducerId", 5, transactional_id="shop", transaction_timeout_ms=60_000)
    pid, epoch = begun["producer_id"], begun["producer_epoch"]
    raw_client.one(
        "AddPartitionsToTxn",
        3,
        v3_and_below_transactional_id="shop",
        v3_and_below_producer_id=pid,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": "ledger", "partitions": [0]}],
    )
    write(raw_client, "shop", in_txn(pid, epoch, 0, "open"))
    listed = [line.split() for line in transactions("list").splitlines()]
    assert ["shop", "1", str(pid), "Ongoing"] in listed
    described = transactions("describe", "--transactional-id", "shop")
    assert "Ongoing" in described and "ledger-0" in described
    producers = transactions("describe-producers", "--topic", "ledger", "--partition", "0")
    assert str(pid) in producers


def test_a_producer_is_fenced_by_its_administrator(raw_client: RawClient, transactions: Tool) -> None:
    """`forceTerminateTransaction`: another producer of the same id begins, and its transaction is aborted."""
    transactions("forceTerminateTransaction", "--transactionalId", "shop")
    states = raw_client.one("DescribeTransactions", 0, transactional_ids=["shop"])["transaction_states"]
    assert states[0]["transaction_state"] in ("CompleteAbort", "Empty")
