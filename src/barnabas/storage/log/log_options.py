"""The topic configuration that a log uses, typed, for its hot paths.

Where values come from and which level overrides which belongs in config/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options of one log.  Defaults are Apache Kafka's; names are the topic options' with `_` for `.`."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    preallocate: bool = False
    max_message_bytes: int = (1 << 20) + 12
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    delete_retention_ms: int = 24 * 3600 * 1000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_after_max_ms: int = 3600 * 1000
    # Broker options, not topic options; KIP-360 and KIP-890.
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    transaction_partition_verification_enable: bool = True

    @property
    def max_segment_ms(self) -> int:
        """A compacted topic rolls early enough for its maximum compaction lag (KIP-354)."""
        if self.cleanup_compact and self.max_compaction_lag_ms > 0 and self.segment_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @classmethod
    def of(cls, topic: Mapping[str, object], broker: Mapping[str, object] | None = None) -> LogOptions:
        """From the topic's effective configuration, and the broker's for the two broker options."""
        values: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            key = name.replace("_", ".")
            if key in topic:
                values[name] = topic[key]
            elif broker is not None and key in broker:
                values[name] = broker[key]
        values |= _old_timestamp_limits(topic)
        if topic.get("internal.segment.bytes") is not None:
            values["segment_bytes"] = topic["internal.segment.bytes"]
        policies = _policies(topic.get("cleanup.policy", ()))
        values["cleanup_delete"] = "delete" in policies
        values["cleanup_compact"] = "compact" in policies
        return cls(**values)


def _old_timestamp_limits(topic: Mapping[str, object]) -> dict[str, object]:
    """Apache Kafka 3.9 still has one limit for both directions, used where no separate limit is set."""
    both = topic.get("message.timestamp.difference.max.ms")
    if both is None:
        return {}
    sides = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
    return {side.replace(".", "_"): both for side in sides if topic[side] == LONG_MAX}


def _policies(value: object) -> frozenset[str]:
    words = value.split(",") if isinstance(value, str) else value
    assert isinstance(words, list | tuple | frozenset | set), "cleanup.policy is a list of words"
    return frozenset(str(word).strip() for word in words) or frozenset(("delete",))
