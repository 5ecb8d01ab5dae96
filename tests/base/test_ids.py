"""Ids agree with Java's class in text, bytes, 64-bit halves and hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.ids import LOST_DIR, METADATA_TOPIC_ID, MIGRATING_DIR, UNASSIGNED_DIR, ZERO_UUID, Uuid
from barnabas.runtime.random import SeededRandom, random_uuid


@pytest.fixture
def vectors(data: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((data / "vectors" / "uuid.json").read_text("utf-8"))
    return rows


def test_reserved_directory_ids(vectors: list[dict[str, Any]]) -> None:
    roles = {row["role"]: row["text"] for row in vectors if "role" in row}
    assert roles == {
        "DirectoryId: UNASSIGNED": str(UNASSIGNED_DIR),
        "DirectoryId: LOST": str(LOST_DIR),
        "DirectoryId: MIGRATING": str(MIGRATING_DIR),
    }


def test_vectors_of_apache_kafka(vectors: list[dict[str, Any]]) -> None:
    for row in (row for row in vectors if "msb" in row):
        parsed = Uuid.parse(row["text"])
        assert parsed.hex() == row["bytes_hex"]
        assert (parsed.most_significant, parsed.least_significant) == (row["msb"], row["lsb"])
        assert parsed.java_hash() == row["hash_code"]
        assert str(parsed) == row["text"]
        assert Uuid.from_words(row["msb"], row["lsb"]) == parsed


@pytest.mark.parametrize(
    "text", ["", "short", "AAAAAAAAAAAAAAAAAAAAA", "A" * 25, "AAAAAAAAAAAAAAAAAAAAA!", "é" * 22]
)
def test_an_invalid_id_is_rejected_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match="the id"):
        Uuid.parse(text)


def test_bytes_of_the_wrong_length_are_rejected() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Uuid(b"short")


def test_a_fresh_id_is_random_unreserved_and_never_looks_like_a_flag() -> None:
    source = SeededRandom(1)
    drawn = {random_uuid(source) for _ in range(2000)}
    assert len(drawn) == 2000
    assert not drawn & {ZERO_UUID, METADATA_TOPIC_ID}
    assert not any(str(uuid).startswith("-") for uuid in drawn)
    assert all(uuid[6] >> 4 == 4 for uuid in drawn)


@pytest.mark.parametrize(
    ("first_word", "expected"),
    [("7fffffff", 2**31 - 1), ("80000000", -(2**31)), ("80000001", 1 - 2**31), ("ffffffff", -1)],
)
def test_the_hash_is_a_signed_number_of_32_bits(first_word: str, expected: int) -> None:
    assert Uuid(bytes.fromhex(first_word) + bytes(12)).java_hash() == expected
