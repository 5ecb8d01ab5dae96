"""SASL/OAUTHBEARER (RFC 7628, KIP-255), both sides.  Pure.

A token that is refused is answered with a line of JSON; the client answers with one byte, and then the login
fails with that same line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from barnabas.config.errors import ConfigError
from barnabas.security.oauth.jwt import OAuthToken, TokenError
from barnabas.security.oauth.validators import InsufficientScopeError, TokenValidator
from barnabas.security.sasl.exchange import SaslAuthenticationError, SaslExchangeError

MECHANISM = "OAUTHBEARER"
_SEPARATOR = "\x01"
_HEADER = re.compile(r"n,(?:a=((?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+))?,")
_PAIR = re.compile(r"([A-Za-z]+)=([\x21-\x7E \t\r\n]+)")
_BEARER = re.compile(r"(\w+) +([-_~+/.a-zA-Z0-9]+=*)")
# Names and values of extensions (RFC 7628, 3.1).
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class OAuthExchange:
    """A login by a token, on a server."""

    def __init__(self, validator: TokenValidator, now_ms: Callable[[], int]) -> None:
        self._validator = validator
        self._now_ms = now_ms
        self._refusal: str | None = None
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def evaluate(self, token: bytes) -> bytes:
        if self.user is not None:
            raise SaslExchangeError("a message after the last one")
        if self._refusal is not None:
            if token == _SEPARATOR.encode():
                raise SaslAuthenticationError(self._refusal)
            raise SaslExchangeError("another message after a token was refused")
        authorization_id, bearer = _read_first(token)
        try:
            accepted = self._validator.validate(bearer, self._now_ms())
        except TokenError as error:
            self._refusal = _status(error)
            return self._refusal.encode()
        if authorization_id and authorization_id != accepted.principal:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({accepted.principal})"
            )
        self.expires_ms = accepted.expires_ms
        self.user = accepted.principal
        return b""


def _status(error: TokenError) -> str:
    if isinstance(error, InsufficientScopeError):
        return f'{{"status":"insufficient_scope", "scope":{json.dumps(error.scope)}}}'
    return '{"status":"invalid_token"}'


def _read_first(data: bytes) -> tuple[str, str]:
    """The authorization id, and the token, of a client's first message."""
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise SaslExchangeError("the message is not UTF-8") from error
    header, *pairs = text.split(_SEPARATOR)
    match = _HEADER.fullmatch(header)
    # There is a separator after each pair, and one more at the end.
    if match is None or pairs[-2:] != ["", ""]:
        raise SaslExchangeError("the first message is not valid")
    options: dict[str, str] = {}
    for each in pairs[:-2]:
        pair = _PAIR.fullmatch(each)
        if pair is None or pair[1] in options:
            raise SaslExchangeError("a pair of the first message is not valid")
        options[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(options.get("auth", ""))
    if bearer is None or bearer[1].lower() != "bearer":
        raise SaslExchangeError("the first message has no bearer token")
    return (match[1] or "").replace("=2C", ",").replace("=3D", "="), bearer[2]


class OAuthClient:
    """A login by a token, on a client."""

    def __init__(self, token: OAuthToken, extensions: Mapping[str, str]) -> None:
        self._token = token
        self._extensions = extensions
        self._is_refused = False

    def first(self) -> bytes:
        pairs = {"auth": f"Bearer {self._token.value}", **self._extensions}
        body = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
        return f"n,,{_SEPARATOR}{body}{_SEPARATOR}".encode()

    def next(self, token: bytes) -> bytes | None:
        if not token:
            return None
        if self._is_refused:
            raise SaslExchangeError("the server went on after it had refused the token")
        self._is_refused = True
        # The server says why with the error that follows.
        return _SEPARATOR.encode()


def check_extensions(extensions: Mapping[str, str]) -> Mapping[str, str]:
    """The extensions of a client's first message (KIP-342); raises ConfigError."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
            raise ConfigError(f"the SASL extension {name} must have a name of letters, and not auth")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigError(f"the value of the SASL extension {name} has characters that are not allowed")
    return extensions
