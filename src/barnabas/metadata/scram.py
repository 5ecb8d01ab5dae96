"""SCRAM credentials as stored in the metadata log (KIP-554): derived keys, never the password.

Contains the mechanisms, the key derivation (RFC 5802), and the parser for credentials given when a cluster is
formatted (KIP-900).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum

from barnabas.runtime.random import Random

DEFAULT_ITERATIONS = 4096
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
SALT_BYTES = 32


class ScramMechanism(IntEnum):
    """SCRAM mechanisms, by their number in metadata records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The server's record of a user's password."""

    name: str
    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns the salted password, from which both keys derive without the password."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def credential(
    name: str, mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Derive the two keys that a server stores."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return ScramCredential(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
        iterations=iterations,
    )


def parse_credential(argument: str, random: Random) -> ScramCredential:
    """Parse `MECHANISM=[name=…,password=…]`; raises ValueError with Apache Kafka's message."""
    mechanism_text, equals, config = argument.strip().partition("=")
    if not equals:
        raise ValueError(f"Failed to find equals sign in SCRAM argument '{argument.strip()}'")
    mechanism = next(
        (candidate for candidate in ScramMechanism if candidate.mechanism_name == mechanism_text), None
    )
    if mechanism is None:
        raise ValueError(f"The add-scram mechanism {mechanism_text} is not supported.")
    if not config.startswith("["):
        raise ValueError("Expected configuration string to start with [")
    if not config.endswith("]"):
        raise ValueError("Expected configuration string to end with ]")
    fields = dict(_pair(part) for part in config[1:-1].split(","))
    name = fields.pop("name", None)
    if name is None:
        raise ValueError("You must supply 'name' to add-scram")
    salt = _decoded(fields.pop("salt", None), "salt")
    iterations = _iterations(fields.pop("iterations", None))
    password, salted_text = fields.pop("password", None), fields.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted = _decoded(salted_text, "saltedPassword") if password is None else None
    if fields:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(sorted(fields))}")
    _check_iterations(iterations, mechanism)
    if salt is None:
        salt = random.bytes(SALT_BYTES)
    if salted is None:
        assert password is not None  # Checked above: one of the two is set.
        salted = salted_password(mechanism, password, salt, iterations)
    return credential(name, mechanism, salted, salt, iterations)


def _pair(part: str) -> tuple[str, str]:
    name, equals, value = part.partition("=")
    if not equals:
        raise ValueError(f"No equals sign found in SCRAM component: {part}")
    if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
        value = value[1:-1]
    return name, value


def _decoded(text: str | None, kind: str) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"Failed to decode given {kind}: {text}") from error


def _iterations(text: str | None) -> int:
    if text is None:
        return DEFAULT_ITERATIONS
    if not (text.isascii() and text.removeprefix("-").isdecimal()) or len(text) > len(str(2**31)):
        raise ValueError(f"Failed to parse iterations count: {text}")
    return int(text)


def _check_iterations(iterations: int, mechanism: ScramMechanism) -> None:
    if iterations < MIN_ITERATIONS:
        raise ValueError(
            f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {mechanism.name}"
        )
    if iterations > MAX_ITERATIONS:
        raise ValueError(
            f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {mechanism.name}"
        )
