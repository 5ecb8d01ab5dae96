"""Hashes against what Apache Kafka's Java code gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from barnabas.base.hashing import java_string_hash, murmur2, partition_for_group, partition_for_key


@pytest.fixture(scope="module")
def vectors(data: Path) -> Path:
    return data / "vectors"


def test_keys_go_where_the_java_client_sends_them(vectors: Path) -> None:
    # M-A8
    for case in json.loads((vectors / "partitioner.json").read_text("utf-8")):
        key = bytes.fromhex(case["key_hex"])
        assert murmur2(key) == case["murmur2"]
        for partitions, partition in case["partition"].items():
            assert partition_for_key(key, int(partitions)) == partition


def test_groups_are_kept_where_apache_kafka_keeps_them(vectors: Path) -> None:
    # M-G1
    for case in json.loads((vectors / "groups.json").read_text("utf-8")):
        assert java_string_hash(case["id"]) == case["hash_code"]
        for partitions, partition in case["partition"].items():
            assert partition_for_group(case["id"], int(partitions)) == partition


def test_the_smallest_int_has_no_absolute_value() -> None:
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert partition_for_group("polygenelubricants", 50) == 0


def test_a_hash_is_of_utf16_code_units() -> None:
    assert java_string_hash("ä") == 0xE4
    assert java_string_hash("aä") == 31 * ord("a") + 0xE4
    assert java_string_hash("\U0001f600") == 31 * 0xD83D + 0xDE00
