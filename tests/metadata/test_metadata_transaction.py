"""Transactions of the metadata log."""

from __future__ import annotations

import pytest

from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.metadata_transaction import Replay
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)


def _level(name: str) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=name, feature_level=1)


def test_records_of_a_transaction_take_effect_when_it_ends() -> None:
    # KIP-868
    replay = Replay()
    replay.take([_level("a"), BeginTransactionRecord(name="x"), _level("b")], 2, 1, 5)
    assert (replay.in_transaction, set(replay.delta.image.features)) == (True, {"a"})
    assert replay.delta.image.offset == 2
    replay.take([_level("c"), EndTransactionRecord(), _level("d")], 5, 1, 6)
    assert (replay.in_transaction, set(replay.delta.image.features)) == (False, {"a", "b", "c", "d"})


def test_records_of_an_aborted_transaction_have_no_effect() -> None:
    replay = Replay()
    replay.take([BeginTransactionRecord(name="x"), _level("a")], 1, 1, 5)
    replay.take([AbortTransactionRecord(reason="y"), _level("b"), NoOpRecord()], 4, 2, 6)
    assert set(replay.delta.image.features) == {"b"}
    assert (replay.delta.image.offset, replay.delta.image.epoch) == (4, 2)


@pytest.mark.parametrize(
    "records",
    [
        [EndTransactionRecord()],
        [AbortTransactionRecord(reason="x")],
        [BeginTransactionRecord(name="x"), BeginTransactionRecord(name="y")],
    ],
)
def test_inconsistent_transaction_boundaries_are_rejected(records: list[EndTransactionRecord]) -> None:
    with pytest.raises(InconsistentRecordError):
        Replay().take(records, 0, 0, 0)
