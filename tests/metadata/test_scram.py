"""SCRAM credentials, against vectors that Apache Kafka's own formatter made."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from barnabas.metadata.scram import ScramMechanism, credential, parse_credential, salted_password
from barnabas.runtime.random import SeededRandom


def vectors(data: Path) -> Any:
    return json.loads((data / "vectors" / "scram.json").read_text("utf-8"))


def test_keys_match_apache_kafka(data: Path) -> None:
    checked = 0
    for vector in vectors(data):
        mechanism = next(known for known in ScramMechanism if known.mechanism_name == vector["mechanism"])
        salt = base64.b64decode(vector["salt_base64"])
        salted = salted_password(mechanism, vector["password"], salt, vector["iterations"])
        made = credential(vector["user"], mechanism, salted, salt, vector["iterations"])
        assert salted.hex() == vector["salted_password_hex"]
        assert made.stored_key.hex() == vector["stored_key_hex"]
        assert made.server_key.hex() == vector["server_key_hex"]
        checked += 1
    assert checked >= 2


def test_a_credential_is_parsed_from_the_command_line(data: Path) -> None:
    vector = vectors(data)[0]
    text = (
        f"{vector['mechanism']}=[name={vector['user']},password={vector['password']},"
        f'iterations={vector["iterations"]},salt="{vector["salt_base64"]}"]'
    )
    made = parse_credential(text, SeededRandom(1))
    assert (made.name, made.iterations) == (vector["user"], vector["iterations"])
    assert made.stored_key.hex() == vector["stored_key_hex"]


def test_the_salted_password_can_be_given_instead(data: Path) -> None:
    vector = vectors(data)[0]
    salted = base64.b64encode(bytes.fromhex(vector["salted_password_hex"])).decode()
    text = f"{vector['mechanism']}=[name=a,saltedpassword={salted},salt={vector['salt_base64']}]"
    assert parse_credential(text, SeededRandom(1)).server_key.hex() == vector["server_key_hex"]


def test_a_random_salt_is_used_by_default() -> None:
    text = "SCRAM-SHA-512=[name=a,password=b]"
    first, repeated, other = (parse_credential(text, SeededRandom(seed)) for seed in (1, 1, 2))
    assert first == repeated
    assert first.salt != other.salt
    assert (first.iterations, len(first.stored_key)) == (4096, 64)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument 'SCRAM-SHA-256'"),
        ("SCRAM-SHA-1=[name=a]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[nam]", "No equals sign found in SCRAM component: nam"),
        ("SCRAM-SHA-256=[nam=e]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,salt=!!,password=b]", "Failed to decode given salt: !!"),
        ("SCRAM-SHA-256=[name=a,iterations=x,password=b]", "Failed to parse iterations count: x"),
        (
            "SCRAM-SHA-256=[name=a,iterations=1,password=b]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,iterations=16385,password=b]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=b]",
            "You must supply 'salt' with 'saltedpassword' to add-scram",
        ),
        ("SCRAM-SHA-256=[name=a,password=b,what=c,zz=1]", "Unknown SCRAM configurations: what, zz"),
        ("SCRAM-SHA-256=[name=a,salt=aaaa,saltedpassword=b!]", "Failed to decode given saltedPassword: b!"),
    ],
)
def test_error_messages_match_apache_kafka(text: str, refusal: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_credential(text, SeededRandom(1))
    assert str(refused.value) == refusal
