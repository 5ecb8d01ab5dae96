"""Key and trust stores as Apache Kafka has them: PEM (KIP-651), PKCS12 and JKS.  Pure: bytes in, PEM out.

JKS and PKCS12 are told apart by their first bytes, as Java does: since release 9 a store called JKS is often
a PKCS12 file.  PEM and JKS need nothing but the standard library; PKCS12 needs the extra `security`.
"""

from __future__ import annotations

import base64
import re
import textwrap
from dataclasses import dataclass, field

from barnabas.config.errors import ConfigError
from barnabas.runtime.tls import jks

STORE_TYPES = ("JKS", "PKCS12", "PEM")
PEM = "PEM"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CERTIFICATE = "CERTIFICATE"
_LINE = 64


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and its certificate chain, in PEM; the key may still be encrypted."""

    key: str = field(repr=False)
    chain: tuple[str, ...]
    key_password: str | None = field(default=None, repr=False)


def pem_key(text: str, chain_text: str, password: str | None) -> KeyMaterial:
    """The key and the chain of one or two texts."""
    keys = [block for kind, block in _blocks(text) if kind.endswith("PRIVATE KEY")]
    chain = pem_certificates(chain_text)
    if len(keys) != 1:
        raise ConfigError(f"the PEM key store must have one private key, and has {len(keys)}")
    if not chain:
        raise ConfigError("the PEM key store has no certificate")
    if "ENCRYPTED" in keys[0] and password is None:
        raise ConfigError("the private key is encrypted; set ssl.key.password")
    return KeyMaterial(keys[0], chain, password)


def pem_certificates(text: str) -> tuple[str, ...]:
    """The certificates of a text."""
    return tuple(block for kind, block in _blocks(text) if kind == _CERTIFICATE)


def _blocks(text: str) -> list[tuple[str, str]]:
    """The blocks of a text.  In a properties file a value with continued lines has lost its line ends."""
    blocks = []
    for kind, body in _BLOCK.findall(text):
        if ":" not in body:
            body = "\n" + "\n".join(textwrap.wrap("".join(body.split()), _LINE)) + "\n"
        blocks.append((kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"))
    return blocks


def store_key(data: bytes, password: str | None, key_password: str | None) -> KeyMaterial:
    """The first private key of a JKS or PKCS12 store."""
    if data.startswith(jks.MAGIC):
        return _jks_key(data, password, key_password)
    key, certificates = _pkcs12(data, password)
    if key is None:
        raise ConfigError("the key store has no private key")
    return KeyMaterial(key, certificates)


def store_certificates(data: bytes, password: str | None) -> tuple[str, ...]:
    """The trusted certificates of a JKS or PKCS12 store."""
    if data.startswith(jks.MAGIC):
        try:
            return tuple(_pem(_CERTIFICATE, each) for each in jks.read_jks(data, password).trusted)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    return _pkcs12(data, password)[1]


def _jks_key(data: bytes, password: str | None, key_password: str | None) -> KeyMaterial:
    secret = password if key_password is None else key_password
    if secret is None:
        raise ConfigError("the private key of a JKS store has a password; set ssl.keystore.password")
    try:
        store = jks.read_jks(data, password)
        if not store.keys:
            raise ConfigError("the key store has no private key")
        key = _pem("PRIVATE KEY", jks.unprotect_key(store.keys[0].protected, secret))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return KeyMaterial(key, tuple(_pem(_CERTIFICATE, each) for each in store.keys[0].chain))


def _pkcs12(data: bytes, password: str | None) -> tuple[str | None, tuple[str, ...]]:
    try:
        # Only stores of this type need it, and it takes long to import.
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise ConfigError(
            "a PKCS12 store needs the package cryptography; run `pip install barnabas[security]`, or use PEM"
        ) from error
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise ConfigError("it is no PKCS12 store, or its password is wrong") from error
    key = None
    if store.key is not None:
        plain = serialization.NoEncryption()
        pkcs8 = serialization.PrivateFormat.PKCS8
        key = store.key.private_bytes(serialization.Encoding.PEM, pkcs8, plain).decode()
    certificates = [*([store.cert] if store.cert is not None else []), *store.additional_certs]
    return key, tuple(
        each.certificate.public_bytes(serialization.Encoding.PEM).decode() for each in certificates
    )


def _pem(kind: str, der: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), _LINE))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"
