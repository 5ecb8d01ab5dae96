"""The topics of `log-life`, and their options."""

from __future__ import annotations

from barnabas.storage.log.log_options import LogOptions

# Small segments and dense indexes: many files, many entries, in few records.
_SMALL = LogOptions(
    segment_bytes=900,
    index_interval_bytes=100,
    segment_index_bytes=1000,
    segment_ms=60_000,
    file_delete_delay_ms=500,
    retention_ms=30_000,
    transaction_partition_verification_enable=False,
)
OPTIONS = {
    "plain": _SMALL,
    "busy": LogOptions(
        segment_bytes=2000,
        index_interval_bytes=0,
        segment_index_bytes=1000,
        flush_messages=7,
        retention_bytes=6000,
        transaction_partition_verification_enable=False,
    ),
    "table": LogOptions(
        segment_bytes=900,
        index_interval_bytes=100,
        segment_index_bytes=1000,
        cleanup_delete=False,
        cleanup_compact=True,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=5_000,
        transaction_partition_verification_enable=False,
    ),
}
