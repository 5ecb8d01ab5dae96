"""The records that a controller writes when it becomes active (KIP-631, KIP-868).

An empty log gets the bootstrap records, in a transaction if the metadata.version supports it.  A transaction
that an earlier active controller left open is aborted.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.controller.state import MIN_ISR, ControllerState
from barnabas.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.levels import TRANSACTIONS_LEVEL
from barnabas.protocol.records.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from barnabas.protocol.schema import Message

BOOTSTRAP_TRANSACTION = "Bootstrap records"
ABORT_REASON = "Controller failover"


class CannotActivateError(Exception):
    """The log is in a state from which no controller can become active."""


def activation_records(
    state: ControllerState, bootstrap: Sequence[Message], *, in_transaction: bool
) -> list[Message]:
    """Returns the records to append; may be empty."""
    is_empty = METADATA_VERSION not in state.image.features
    levels = {
        record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)
    }
    level = levels.get(METADATA_VERSION, 0) if is_empty else state.image.metadata_version
    if is_empty and METADATA_VERSION not in levels:
        raise CannotActivateError(
            "the metadata log is empty and bootstrap.checkpoint contains no metadata.version; run"
            " `barnabas storage format` with this configuration"
        )
    if in_transaction and level < TRANSACTIONS_LEVEL:
        raise CannotActivateError(
            f"a transaction is open in the metadata log, but metadata.version {level} does not support it"
        )
    records: list[Message] = []
    if in_transaction:
        records.append(AbortTransactionRecord(reason=ABORT_REASON))
    if is_empty:
        first = [*bootstrap, *_cluster_min_isr(state, levels)]
        if level >= TRANSACTIONS_LEVEL:
            first = [BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION), *first, EndTransactionRecord()]
        records += first
    return records


def _cluster_min_isr(state: ControllerState, levels: dict[str, int]) -> list[Message]:
    """Eligible leader replicas require one value for the whole cluster (KIP-966)."""
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) == 0:
        return []
    value = str(state.options.static[MIN_ISR])
    return [ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="", name=MIN_ISR, value=value)]
