"""The `ssl.*` options of a configuration, with their files read.

For a listener its own prefix goes before the plain name: `listener.name.internal.ssl.keystore.location`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.runtime.tls.context import PROTOCOLS, ClientAuth, TlsOptions
from barnabas.runtime.tls.stores import (
    PEM,
    STORE_TYPES,
    KeyMaterial,
    pem_certificates,
    pem_key,
    store_certificates,
    store_key,
)

# No store is larger; the limit is checked before the file is read.
MAX_STORE_BYTES = 16 << 20


class _Options:
    """The options of one listener, or without a name those of a client."""

    def __init__(self, settings: Settings, listener: str | None) -> None:
        self._settings = settings
        self._prefix = "" if listener is None else f"listener.name.{listener.lower()}."

    def name(self, option: str) -> str:
        """The name under which the value is given, for errors."""
        prefixed = self._prefix + option
        return prefixed if self._settings.is_given(prefixed) else option

    def __getitem__(self, option: str) -> Any:
        return self._settings[self.name(option)]

    def secret(self, option: str) -> str | None:
        value = self[option]
        return None if value is None else str(value.value)


def read_tls_options(settings: Settings, listener: str | None = None) -> TlsOptions:
    """Reads the options and their stores; ConfigError says which file or option is wrong."""
    options = _Options(settings, listener)
    return TlsOptions(
        key=_key(options),
        trusted=_trusted(options),
        client_auth=ClientAuth.NONE if listener is None else ClientAuth(options["ssl.client.auth"]),
        protocols=_protocols(options),
        cipher_suites=tuple(options["ssl.cipher.suites"] or ()),
        check_host=bool(options["ssl.endpoint.identification.algorithm"]),
    )


def _protocols(options: _Options) -> tuple[str, ...]:
    # In Java it chooses an implementation; ssl.enabled.protocols decides what is offered.
    if options["ssl.protocol"] not in (*PROTOCOLS, "TLS"):
        raise ConfigError(
            f"The protocol {options['ssl.protocol']} of {options.name('ssl.protocol')} is not supported",
            allowed=", ".join((*PROTOCOLS, "TLS")),
        )
    names = tuple(options["ssl.enabled.protocols"])
    for name in names:
        if name not in PROTOCOLS:
            raise ConfigError(
                f"The protocol {name} of {options.name('ssl.enabled.protocols')} is not supported",
                allowed=", ".join(PROTOCOLS),
            )
    return names or tuple(PROTOCOLS)


def _key(options: _Options) -> KeyMaterial | None:
    kind = _store_type(options, "ssl.keystore.type")
    location = options["ssl.keystore.location"]
    chain, key = options.secret("ssl.keystore.certificate.chain"), options.secret("ssl.keystore.key")
    password = options.secret("ssl.key.password")
    if key is not None or chain is not None:
        if kind != PEM or location is not None:
            raise ConfigError(
                "ssl.keystore.key and ssl.keystore.certificate.chain need ssl.keystore.type=PEM, "
                "and no ssl.keystore.location"
            )
        if key is None or chain is None:
            raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
        return pem_key(key, chain, password)
    if location is None:
        return None
    data = _read(options, "ssl.keystore.location")
    try:
        if kind == PEM:
            text = data.decode("utf-8", "replace")
            return pem_key(text, text, password)
        return store_key(data, options.secret("ssl.keystore.password"), password)
    except ConfigError as error:
        raise ConfigError(f"{options.name('ssl.keystore.location')} ({location}): {error}") from error


def _trusted(options: _Options) -> tuple[str, ...] | None:
    kind = _store_type(options, "ssl.truststore.type")
    location, given = options["ssl.truststore.location"], options.secret("ssl.truststore.certificates")
    if given is not None:
        if kind != PEM or location is not None:
            raise ConfigError(
                "ssl.truststore.certificates needs ssl.truststore.type=PEM, and no ssl.truststore.location"
            )
        return pem_certificates(given)
    if location is None:
        return None
    data = _read(options, "ssl.truststore.location")
    try:
        if kind == PEM:
            return pem_certificates(data.decode("utf-8", "replace"))
        return store_certificates(data, options.secret("ssl.truststore.password"))
    except ConfigError as error:
        raise ConfigError(f"{options.name('ssl.truststore.location')} ({location}): {error}") from error


def _store_type(options: _Options, option: str) -> str:
    kind = str(options[option]).upper()
    if kind not in STORE_TYPES:
        raise ConfigError(
            f"{options[option]} of {options.name(option)} is no type of a store",
            allowed=", ".join(STORE_TYPES),
        )
    return kind


def _read(options: _Options, option: str) -> bytes:
    path = Path(str(options[option]))
    try:
        if path.stat().st_size > MAX_STORE_BYTES:
            raise ConfigError(f"{options.name(option)}: {path} is larger than {MAX_STORE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{options.name(option)}: {path} cannot be read: {error.strerror}") from error
