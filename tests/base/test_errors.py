"""The error table equals the one Apache Kafka 4.1.0 carries."""

from __future__ import annotations

import json
from pathlib import Path

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError


def test_every_code_has_apache_kafkas_name_text_and_kind(data: Path) -> None:
    recorded = json.loads((data / "errors.json").read_text("utf-8"))
    ours = [
        [int(row.code), row.code.name, row.retriable, row.invalid_metadata, row.text]
        for row in ERRORS.values()
    ]
    assert ours == recorded


def test_an_error_carries_the_tables_text_unless_a_message_is_given() -> None:
    plain = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert plain.retriable
    assert plain.message == ERRORS[ErrorCode.NOT_LEADER_OR_FOLLOWER].text
    assert str(KafkaError(ErrorCode.INVALID_RECORD, "no key")) == "INVALID_RECORD: no key"
