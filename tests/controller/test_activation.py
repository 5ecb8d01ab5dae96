"""The records that a controller writes when it becomes active."""

from __future__ import annotations

import pytest

from barnabas.controller.activation import CannotActivateError, activation_records
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.bootstrap import choose_levels, first_records
from barnabas.metadata.features import metadata_version_named
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.random import SeededRandom
from barnabas.testing.simulation.metadata_node import CLUSTER_ID, NODE_ID, configuration
from tests.controller.lab import Lab


def _fresh() -> Controller:
    options = ControllerOptions(NODE_ID, CLUSTER_ID, configuration({"min.insync.replicas": 3}).settings)
    return Controller(options, SeededRandom(1))


def _bootstrap(release: str) -> list[Message]:
    version, levels = choose_levels({}, metadata_version_named(release), dynamic_quorum=False, unstable=False)
    return first_records(version, levels)


def test_an_empty_log_gets_the_bootstrap_records() -> None:
    # M-E1: golden/logs/kraft-4.1.0, offsets 1 to 7.
    records = activation_records(_fresh().state, _bootstrap("4.1"), in_transaction=False)
    assert [record.schema.name for record in records] == [
        "BeginTransactionRecord",
        *["FeatureLevelRecord"] * 4,
        "ConfigRecord",
        "EndTransactionRecord",
    ]
    assert records[0] == BeginTransactionRecord(name="Bootstrap records")
    assert records[-2] == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="3"
    )


def test_older_levels_have_no_transactions_and_no_elr() -> None:
    records = activation_records(_fresh().state, _bootstrap("3.9"), in_transaction=False)
    kinds = [type(record) for record in records]
    assert (kinds[0], kinds[-1], ConfigRecord in kinds) == (
        BeginTransactionRecord,
        EndTransactionRecord,
        False,
    )
    records = activation_records(_fresh().state, _bootstrap("3.5"), in_transaction=False)
    assert {type(record) for record in records} == {FeatureLevelRecord}


def test_a_log_with_records_gets_only_an_abort_of_an_open_transaction() -> None:
    lab = Lab()
    assert activation_records(lab.controller.state, _bootstrap("4.1"), in_transaction=False) == []
    records = activation_records(lab.controller.state, _bootstrap("4.1"), in_transaction=True)
    assert records == [AbortTransactionRecord(reason="Controller failover")]


def test_an_open_bootstrap_transaction_is_aborted_and_restarted() -> None:
    records = activation_records(_fresh().state, _bootstrap("4.1"), in_transaction=True)
    assert isinstance(records[0], AbortTransactionRecord)
    assert isinstance(records[1], BeginTransactionRecord)


def test_logs_from_which_no_controller_can_become_active() -> None:
    with pytest.raises(CannotActivateError, match="storage format"):
        activation_records(_fresh().state, [], in_transaction=False)
    with pytest.raises(CannotActivateError, match="does not support"):
        activation_records(Lab("3.5").controller.state, [], in_transaction=True)
