"""SASL/OAUTHBEARER in a configuration: the known classes of Apache Kafka, and which URLs may be asked."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from barnabas.config.errors import ConfigError
from barnabas.config.node.synonyms import base_name
from barnabas.config.settings import Settings

MECHANISM = "OAUTHBEARER"
LOGIN_HANDLER = "sasl.login.callback.handler.class"
SERVER_HANDLER = "sasl.server.callback.handler.class"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER, VALIDATOR = "sasl.oauthbearer.jwt.retriever.class", "sasl.oauthbearer.jwt.validator.class"
# A system property of Java in Apache Kafka (KIP-1139 and CVE-2025-27817); here it may also stand in the file.
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
SIGNED_HANDLERS = frozenset(
    f"{_PACKAGE}{place}OAuthBearerValidatorCallbackHandler" for place in ("", "secured.")
)
UNSECURED_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
TOKEN_HANDLERS = frozenset(f"{_PACKAGE}{place}OAuthBearerLoginCallbackHandler" for place in ("", "secured."))
UNSECURED_LOGIN_HANDLER = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_KNOWN = {
    SERVER_HANDLER: SIGNED_HANDLERS | {UNSECURED_HANDLER},
    LOGIN_HANDLER: TOKEN_HANDLERS | {UNSECURED_LOGIN_HANDLER},
    RETRIEVER: {f"{_PACKAGE}{name}JwtRetriever" for name in ("Default", "ClientCredentials", "File")},
    VALIDATOR: {f"{_PACKAGE}{name}JwtValidator" for name in ("Default", "Broker", "Client")},
}


def refuse_unknown_classes(settings: Settings) -> None:
    """Raises ConfigError for a class that is none of Apache Kafka's own: it might decide otherwise."""
    for name in sorted(settings.given):
        base = base_name(name)
        known, value = _KNOWN.get(base), settings.given[name]
        # A program of Python may pass what makes its tokens.
        if known is None or value is None or (base == LOGIN_HANDLER and not isinstance(value, str)):
            continue
        if str(value).strip() not in known:
            raise ConfigError(
                f"The class {value} of {name} is not built yet: it would be a class of Java",
                allowed=", ".join(sorted(known)),
            )


def handler_of(settings: Settings, listener: str, option: str) -> str | None:
    """The class of OAUTHBEARER on a listener; without the prefixes it is that of all listeners."""
    name = f"listener.name.{listener.lower()}.{MECHANISM.lower()}.{option}"
    value = settings[name] if settings.is_given(name) else settings[option]
    return None if value is None else str(value)


def check_url(url: str, allowed: str | None, option: str) -> None:
    """Raises ConfigError for a URL that is not on the list: whoever writes a configuration could else
    make a node ask any address that it reaches."""
    listed = [each.strip() for each in (allowed or "").split(",")]
    if url not in listed:
        raise ConfigError(f"{option}: {url} is not one of {ALLOWED_URLS}; add it there if it may be asked")


def file_of(url: str, option: str) -> str | None:
    """The path of a `file:` URL, None for http and https; raises ConfigError for others."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return parts.path
    if parts.scheme in ("http", "https") and parts.hostname:
        return None
    raise ConfigError(f"{option}: {url} is no URL of the kind file:///PATH, https://HOST or http://HOST")


def allowed_urls(settings: Settings, java_property: Callable[[str], str | None]) -> str | None:
    """The list of URLs, from the configuration or from KAFKA_OPTS."""
    given = settings.given.get(ALLOWED_URLS)
    return java_property(ALLOWED_URLS) if given is None else str(given)
