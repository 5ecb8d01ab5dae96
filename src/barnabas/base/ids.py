"""Identifiers of topics, directories and clusters: 128 bits, written as 22 characters of URL-safe base64.

And what stands for a replica in requests of those who are none.
"""

from __future__ import annotations

import base64
import binascii

UUID_BYTES = 16
UUID_CHARACTERS = 22


class Uuid(bytes):
    """A 128-bit id.  It is its own 16 bytes, so the codec writes it unchanged; `str()` gives the text
    form."""

    __slots__ = ()

    def __new__(cls, value: bytes | bytearray | memoryview = bytes(UUID_BYTES)) -> Uuid:
        if len(value) != UUID_BYTES:
            raise ValueError(f"an id has {UUID_BYTES} bytes, not {len(value)}")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Parse the 22-character form; rejects what Apache Kafka rejects, with a message that says why."""
        if len(text) > UUID_CHARACTERS + 2:
            raise ValueError(
                f"the id {text[:40]!r} is too long: it has {len(text)} characters, at most 24 are allowed"
            )
        try:
            raw = base64.b64decode(text.rstrip("=") + "==", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"the id {text!r} is not URL-safe base64") from error
        if len(raw) != UUID_BYTES:
            raise ValueError(f"the id {text!r} decodes to {len(raw)} bytes, {UUID_BYTES} are needed")
        return cls(raw)

    @classmethod
    def from_words(cls, most: int, least: int) -> Uuid:
        """From the two signed 64-bit words of Java's `UUID`."""
        return cls((most % 2**64).to_bytes(8, "big") + (least % 2**64).to_bytes(8, "big"))

    @property
    def most_significant(self) -> int:
        return int.from_bytes(self[:8], "big", signed=True)

    @property
    def least_significant(self) -> int:
        return int.from_bytes(self[8:], "big", signed=True)

    def java_hash(self) -> int:
        """`hashCode()` of the Java class; a few places in Apache Kafka order or distribute by it."""
        mixed = (self.most_significant ^ self.least_significant) % 2**64
        folded = (mixed >> 32) ^ (mixed & 0xFFFFFFFF)
        return folded - 2**32 if folded >= 2**31 else folded

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self).rstrip(b"=").decode("ascii")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID = Uuid(bytes(16))
# Reserved by Apache Kafka: the metadata log's topic, and the states of a replica's directory (KIP-858).
METADATA_TOPIC_ID = Uuid.from_words(0, 1)
MIGRATING_DIR = Uuid.from_words(0, 0)
UNASSIGNED_DIR = Uuid.from_words(0, 1)
LOST_DIR = Uuid.from_words(0, 2)

# In the place of a replica's broker id: a consumer asks.
CONSUMER_REPLICA = -1
