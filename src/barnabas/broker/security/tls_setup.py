"""The TLS of a node's listeners, and replacing certificates while it serves (KIP-226)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.base.principals import ANONYMOUS
from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.sasl_listeners import has_tls
from barnabas.config.node.synonyms import base_name
from barnabas.config.settings import Settings
from barnabas.runtime.clock import Clock
from barnabas.runtime.network.network import TlsPeer

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls, TlsOptions

logger = logging.getLogger(__name__)

MAPPING_RULES = "ssl.principal.mapping.rules"
# A certificate that ends sooner than this is warned of.
EXPIRY_WARNING_S = 14 * 24 * 3600


class ListenerTls:
    """TLS on one listener: its certificates, and whom a client's certificate makes the client."""

    def __init__(self, settings: Settings, listener: str, clock: Clock) -> None:
        # Nodes without TLS do not load OpenSSL.
        from barnabas.runtime.tls.context import Tls
        from barnabas.security.principal_rules import PrincipalRules

        self._listener = listener
        self._clock = clock
        self._rules = PrincipalRules(str(settings[MAPPING_RULES]))
        try:
            self.tls = Tls(self._read(settings), server=True)
        except ConfigError as error:
            raise ConfigError(f"TLS of the listener {listener}: {error}") from error

    def principal_of(self, peer: TlsPeer) -> str:
        """The principal of a client; ValueError if no mapping rule matches."""
        from barnabas.security.certificates import read_certificate

        if peer.certificate is None:
            return ANONYMOUS
        return f"User:{self._rules.user(read_certificate(peer.certificate).subject)}"

    def _read(self, settings: Settings) -> TlsOptions:
        from barnabas.runtime.tls.options import read_tls_options

        options = read_tls_options(settings, self._listener)
        if options.key is not None:
            check_validity(options.key.chain[0], f"the listener {self._listener}", self._clock)
        return options


class NodeTls:
    """All TLS of a node, in both directions: what is replaced when options or files change."""

    def __init__(self, listeners: Mapping[str, ListenerTls], peers: Iterable[tuple[str, Tls | None]]) -> None:
        self._all = [(name, listener.tls) for name, listener in listeners.items()]
        self._all += [(name, tls) for name, tls in peers if tls is not None]

    def check(self, settings: Settings) -> None:
        """Raises ConfigError if these settings, or the files that they name, could not be used."""
        from barnabas.runtime.tls.context import Tls

        for name, tls in self._all:
            options = _options(settings, name)
            _check_identity(settings, tls.options, options)
            if options != tls.options:
                Tls(options, server=tls.is_server)

    def apply(self, settings: Settings) -> None:
        """Uses these settings from now on; what cannot be used leaves the former ones in place."""
        for name, tls in self._all:
            try:
                options = _options(settings, name)
                if options != tls.options:
                    tls.replace(options)
                    logger.info("TLS of the listener %s was replaced", name)
            except ConfigError as error:
                logger.error("TLS of the listener %s stays as it was: %s", name, error)


def _options(settings: Settings, listener: str) -> TlsOptions:
    from barnabas.runtime.tls.options import read_tls_options

    return read_tls_options(settings, listener)


def _check_identity(settings: Settings, old: TlsOptions, new: TlsOptions) -> None:
    """A node that suddenly has another name would be refused by the others (KIP-226)."""
    from barnabas.security.certificates import read_pem_certificate

    if old.key is None or new.key is None:
        return
    before, after = (read_pem_certificate(each.key.chain[0]) for each in (old, new) if each.key is not None)
    if before.subject != after.subject and not settings["ssl.allow.dn.changes"]:
        raise ConfigError(
            f"Keystore DistinguishedName does not match: existing={before.subject}, new={after.subject}"
        )
    if not set(before.names) <= set(after.names) and not settings["ssl.allow.san.changes"]:
        raise ConfigError(
            f"Keystore SubjectAltNames do not match: existing={', '.join(before.names)}, "
            f"new={', '.join(after.names)}"
        )


def has_tls_option(names: Iterable[str]) -> bool:
    """Whether one of these options is one of TLS, for all listeners or for one."""
    return any(base_name(name).startswith("ssl.") for name in names)


def same_tls_options(one: Settings, other: Settings) -> bool:
    """Whether two configurations name the same options of TLS; their files may have changed."""
    return _given(one) == _given(other)


def _given(settings: Settings) -> dict[str, object]:
    return {name: value for name, value in settings.given.items() if has_tls_option((name,))}


def check_validity(pem: str, whose: str, clock: Clock) -> None:
    """Logs that a certificate is not valid any more, not yet, or not for long."""
    from barnabas.security.certificates import read_pem_certificate

    certificate = read_pem_certificate(pem)
    now_s = clock.wall_ms() // 1000
    if now_s > certificate.not_after_s:
        logger.error("the certificate of %s (%s) has expired: renew it", whose, certificate.subject)
    elif now_s < certificate.not_before_s:
        logger.error(
            "the certificate of %s (%s) is not valid yet: check the clock", whose, certificate.subject
        )
    elif now_s > certificate.not_after_s - EXPIRY_WARNING_S:
        days = (certificate.not_after_s - now_s) // (24 * 3600)
        logger.warning("the certificate of %s (%s) expires in %d days", whose, certificate.subject, days)


def listeners_with_tls(
    settings: Settings, endpoints: tuple[Endpoint, ...], clock: Clock
) -> Mapping[str, ListenerTls]:
    """The TLS of each listener that has it, by name."""
    return {
        end.listener_name: ListenerTls(settings, end.listener_name, clock)
        for end in endpoints
        if has_tls(end.security_protocol)
    }
