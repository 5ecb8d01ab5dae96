"""From key material and options to the contexts of the `ssl` module.

Python loads private keys from files only, so a key that came from a store is handed over in an anonymous file
of this process, and never lies on a disk where the system has such files.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

from barnabas.config.errors import ConfigError
from barnabas.runtime.tls.stores import KeyMaterial

PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# What OpenSSL refuses in certificates that Java accepts (SECLEVEL 2, Python's default).
_WEAK = {
    "CA_MD_TOO_WEAK": "a certificate is signed with SHA-1 or an older digest, which OpenSSL does not accept; "
    "issue it again with SHA-256",
    "EE_KEY_TOO_SMALL": "its key is too short for OpenSSL; issue one with RSA of 2048 bits",
    "CA_KEY_TOO_SMALL": "the key of its issuer is too short for OpenSSL; issue one with RSA of 2048 bits",
}
_TLS13_SUITE = re.compile(r"TLS_(AES|CHACHA20)_(?!.*_WITH_)")


class ClientAuth(StrEnum):
    """ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """What one side of a connection needs."""

    key: KeyMaterial | None = None
    # None: the certificates that the system trusts.
    trusted: tuple[str, ...] | None = None
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    # IANA's names, as in Java; empty: those of the library.
    cipher_suites: tuple[str, ...] = ()
    check_host: bool = True


class Tls:
    """The TLS of one listener, or of a node's connections to others.

    `replace` puts newly read certificates in place (KIP-226): connections that are open keep theirs.
    """

    def __init__(self, options: TlsOptions, *, server: bool) -> None:
        self.is_server = server
        self.options = options
        self.context = server_context(options) if server else client_context(options)

    def replace(self, options: TlsOptions) -> None:
        """Uses other certificates and options from now on; with a ConfigError nothing has changed."""
        self.context = server_context(options) if self.is_server else client_context(options)
        self.options = options

    def wrap(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, host: str) -> ssl.SSLObject:
        name = None if self.is_server else host
        return self.context.wrap_bio(incoming, outgoing, server_side=self.is_server, server_hostname=name)

    def refuses(self, session: ssl.SSLObject | ssl.SSLSocket) -> str | None:
        """Why a finished handshake is not accepted: OpenSSL's list does not hold for TLS 1.3."""
        cipher = session.cipher()
        suites = self.options.cipher_suites
        if cipher is None or not suites or session.version() != "TLSv1.3" or cipher[0] in suites:
            return None
        return f"the cipher suite {cipher[0]} is not one of ssl.cipher.suites"


def server_context(options: TlsOptions) -> ssl.SSLContext:
    """The context of a listener."""
    if options.key is None:
        raise ConfigError(
            "a listener with TLS needs a private key and a certificate; set ssl.keystore.location, "
            "or ssl.keystore.key and ssl.keystore.certificate.chain with ssl.keystore.type=PEM"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _configure(context, options)
    if options.client_auth is not ClientAuth.NONE:
        _trust(context, options.trusted)
        required = options.client_auth is ClientAuth.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """The context of connections to others: their certificate is always checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _configure(context, options)
    _trust(context, options.trusted)
    context.check_hostname = options.check_host
    return context


def _configure(context: ssl.SSLContext, options: TlsOptions) -> None:
    versions = [PROTOCOLS[name] for name in options.protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # A peer must not make us begin again (CVE-2009-3555, and the load).
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _restrict_ciphers(context, options.cipher_suites)
    if options.key is not None:
        _load_key(context, options.key)


def _trust(context: ssl.SSLContext, trusted: tuple[str, ...] | None) -> None:
    if trusted is None:
        context.load_default_certs()
        return
    if not trusted:
        raise ConfigError("the trust store has no certificate")
    try:
        context.load_verify_locations(cadata="".join(trusted))
    except ssl.SSLError as error:
        raise ConfigError(f"a certificate of the trust store cannot be read: {_words(error)}") from error
    # As in Java, each certificate of the trust store is trusted, whoever issued it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load_key(context: ssl.SSLContext, key: KeyMaterial) -> None:
    password = key.key_password
    with _private_file(key.key + "".join(key.chain)) as path:
        try:
            # A password is always given: OpenSSL would ask for it at the terminal.
            context.load_cert_chain(path, password=password or "")
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                why = "the private key does not belong to the first certificate of the chain"
            elif error.reason in _WEAK:
                why = _WEAK[error.reason]
            elif password is not None:
                why = "ssl.key.password is wrong, or the private key is damaged"
            else:
                why = _words(error)
            raise ConfigError(f"the key store cannot be used: {why}") from error
        except OSError as error:
            raise ConfigError(f"the private key could not be handed over: {error}") from error


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """A path under which the text can be read while the block runs."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("key")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield file.name


def _restrict_ciphers(context: ssl.SSLContext, suites: tuple[str, ...]) -> None:
    if not suites:
        return
    older = [_openssl_name(name) for name in suites if not _TLS13_SUITE.match(name)]
    if len(older) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError as error:
        raise ConfigError(f"no suite of ssl.cipher.suites is known: {', '.join(suites)}") from error
    known = {cipher["name"] for cipher in context.get_ciphers()}
    for suite, name in zip((s for s in suites if not _TLS13_SUITE.match(s)), older, strict=True):
        if name not in known:
            raise ConfigError(f"the cipher suite {suite} of ssl.cipher.suites is not known")


def _openssl_name(suite: str) -> str:
    """IANA's name in OpenSSL's words: TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256 is ECDHE-RSA-AES128-SHA256."""
    exchange, given, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not given:
        return suite
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    words = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return words.replace("_", "-")


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
