"""Java's own key store format, JKS: private keys, their chains, and trusted certificates.  Pure.

A key is protected by a key stream of SHA-1 digests over the password, the store by a digest at its end.  Java
has replaced the format by PKCS12 since release 9, but stores of that age are in use.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

from barnabas.runtime.tls.der import OBJECT_ID, OCTET_STRING, SEQUENCE, object_id, read_element

MAGIC = b"\xfe\xed\xfe\xed"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_WHITENER = b"Mighty Aphrodite"
_DIGEST_BYTES = 20
_KEY_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"
_OLD, _NEW = 1, 2


class JksKey(NamedTuple):
    """A private key, still protected, and its certificate chain in DER."""

    protected: bytes
    chain: tuple[bytes, ...]


class JksStore(NamedTuple):
    """The entries of a store."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]


class _Reader:
    """The bytes of a store, in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("the JKS store is cut short")
        taken = self._data[self._position : end]
        self._position = end
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def text(self) -> bytes:
        return self.take(struct.unpack(">H", self.take(2))[0])


def read_jks(data: bytes, password: str | None) -> JksStore:
    """The entries of a store; with a password its digest is checked first.  ValueError says what is wrong."""
    if len(data) < len(MAGIC) + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise ValueError("it is no JKS store")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        actual = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()  # JKS has it  # nosec B324
        if not hmac.compare_digest(actual, digest):
            raise ValueError("the password of the JKS store is wrong, or the store was changed")
    reader = _Reader(body)
    reader.take(len(MAGIC))
    version = reader.number()
    if version not in (_OLD, _NEW):
        raise ValueError(f"JKS stores of version {version} are not known")
    keys: list[JksKey] = []
    trusted: list[bytes] = []
    for _ in range(reader.number()):
        kind = reader.number()
        reader.text()
        reader.take(8)
        if kind == _KEY_ENTRY:
            protected = reader.take(reader.number())
            chain = tuple(_certificate(reader, version) for _ in range(reader.number()))
            keys.append(JksKey(protected, chain))
        elif kind == _CERTIFICATE_ENTRY:
            trusted.append(_certificate(reader, version))
        else:
            raise ValueError(f"the JKS store has an entry of the unknown kind {kind}")
    return JksStore(tuple(keys), tuple(trusted))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == _NEW:
        reader.text()
    return reader.take(reader.number())


def unprotect_key(protected: bytes, password: str) -> bytes:
    """The private key in PKCS #8; ValueError if the password is not the right one."""
    info, _ = read_element(protected)
    algorithm, content = info.expect(SEQUENCE).children()
    name = next(algorithm.expect(SEQUENCE).children()).expect(OBJECT_ID)
    if object_id(name.content) != _KEY_PROTECTOR:
        raise ValueError("the private key of the JKS store is protected in a way that is not known")
    data = content.expect(OCTET_STRING).content
    if len(data) < 2 * _DIGEST_BYTES:
        raise ValueError("the private key of the JKS store is cut short")
    secret = _utf16(password)
    digest, mixed, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    stream = bytearray()
    while len(stream) < len(mixed):
        digest = hashlib.sha1(secret + digest).digest()  # JKS has it  # nosec B324
        stream += digest
    key = bytes(one ^ other for one, other in zip(mixed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):  # JKS has it  # nosec B324
        raise ValueError("the password of the private key is wrong")
    return key


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")
