"""The records of `__transaction_state` in a data folder, of whichever broker, without what the clock wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.batch.view import batches
from barnabas.protocol.record_frame import read_coordinator_key, read_versioned, write_versioned
from barnabas.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue

# Transactional id, version, fields, and the value's bytes with times of 0 and its partitions in order.
Row = tuple[str, int, dict[str, Any], bytes]


def state_records(data: Path) -> dict[str, list[Row]]:
    """Folder of the partition -> its records from the start."""
    found: dict[str, list[Row]] = {}
    for folder in sorted(data.glob("__transaction_state-*")):
        content = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        rows = [row_of(record.key, record.value) for batch in batches(content) for record in batch.records()]
        if rows:
            found[folder.name] = rows
    return found


def row_of(key: bytes | None, value: bytes | None) -> Row:
    assert key is not None and value is not None
    read_key = read_coordinator_key(key, "transaction")
    assert isinstance(read_key, TransactionLogKey)
    read, version = read_versioned(TransactionLogValue, value)
    assert write_versioned(read, version) == value, "it is not written as it was read"
    read.transaction_last_update_timestamp_ms = 0
    if read.transaction_start_timestamp_ms > 0:
        read.transaction_start_timestamp_ms = 0
    for topic in read.transaction_partitions or ():
        topic.partition_ids.sort()
    if read.transaction_partitions:
        read.transaction_partitions.sort(key=lambda topic: topic.topic)
    fields = {one.attribute: getattr(read, one.attribute) for one in TransactionLogValue.schema.fields}
    fields["transaction_partitions"] = [
        (topic.topic, *topic.partition_ids) for topic in read.transaction_partitions or ()
    ]
    return read_key.transactional_id, version, fields, write_versioned(read, version)
