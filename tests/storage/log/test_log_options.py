from __future__ import annotations

import pytest

from barnabas.config import TOPIC, Mode
from barnabas.storage.log.log_options import LogOptions


def test_the_defaults_are_those_of_the_option_table() -> None:
    assert LogOptions.of(TOPIC.parse({})) == LogOptions()


def test_a_topics_settings_are_taken_over() -> None:
    options = LogOptions.of(
        TOPIC.parse({"segment.bytes": "1048576", "cleanup.policy": "compact,delete", "flush.messages": "5"})
    )
    assert (options.segment_bytes, options.flush_messages) == (1048576, 5)
    assert options.cleanup_compact
    assert options.cleanup_delete
    assert not LogOptions.of(TOPIC.parse({"cleanup.policy": "compact"})).cleanup_delete


def test_the_brokers_options_come_with_it() -> None:
    options = LogOptions.of(TOPIC.parse({}), {"producer.id.expiration.ms": 5})
    assert options.producer_id_expiration_ms == 5


def test_a_compacted_topic_rolls_for_its_largest_lag() -> None:  # KIP-354
    assert LogOptions(segment_ms=100, max_compaction_lag_ms=10).max_segment_ms == 100
    assert LogOptions(segment_ms=100, max_compaction_lag_ms=10, cleanup_compact=True).max_segment_ms == 10


LIMIT, BEFORE, AFTER = (f"message.timestamp.{which}.max.ms" for which in ("difference", "before", "after"))
NO_LIMIT = 2**63 - 1


@pytest.mark.parametrize(
    ("given", "before", "after"),
    [
        ({}, NO_LIMIT, NO_LIMIT),
        ({LIMIT: "7"}, 7, 7),
        ({LIMIT: "7", BEFORE: "5"}, 5, 7),
        ({LIMIT: "7", AFTER: "9"}, 7, 9),
        ({BEFORE: "5", AFTER: "9"}, 5, 9),
    ],
)
def test_the_one_limit_of_old_stands_for_each_that_is_not_set(
    given: dict[str, str], before: int, after: int
) -> None:
    options = LogOptions.of(TOPIC.parse(given, Mode.ZOOKEEPER))
    assert options.message_timestamp_before_max_ms == before
    assert options.message_timestamp_after_max_ms == after


def test_segments_for_tests_may_be_smaller_than_any_other() -> None:
    assert LogOptions.of(TOPIC.parse({"internal.segment.bytes": "100"})).segment_bytes == 100
