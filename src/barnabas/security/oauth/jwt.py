"""JSON Web Tokens in the compact form (RFC 7519, RFC 7515): three parts of base64 between dots.  Pure.

Nothing is believed here: a token that is read may have no signature, or a wrong one.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_TOKEN_CHARACTERS = 64 << 10
"""A token is looked at only up to this length; those of real issuers have one to four thousand."""

_PART = re.compile(r"[A-Za-z0-9_-]*={0,2}")


class TokenError(ValueError):
    """The token is not accepted; the message has nothing of its contents but names of claims."""


class OAuthToken(NamedTuple):
    """What a token says, once it is believed."""

    value: str
    principal: str
    scopes: frozenset[str]
    # When it ends, and when it was issued if it says so, in milliseconds of wall time.
    expires_ms: int
    issued_ms: int | None

    def __repr__(self) -> str:
        """Without the token: whoever has it can log in."""
        return f"OAuthToken({self.principal!r}, until {self.expires_ms})"


class Jwt(NamedTuple):
    """The parts of a token."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    # What the signature is for.
    signed: bytes
    signature: bytes

    @property
    def algorithm(self) -> str:
        return str(self.header.get("alg", ""))


def parse_jwt(text: str) -> Jwt:
    """Takes a token apart; raises TokenError."""
    if len(text) > MAX_TOKEN_CHARACTERS:
        raise TokenError(f"the token is longer than {MAX_TOKEN_CHARACTERS} characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise TokenError("the token does not have three parts")
    header, claims = _object(parts[0], "header"), _object(parts[1], "claims")
    if "crit" in header:
        # RFC 7515, 4.1.11: whoever does not know what is critical must refuse.
        raise TokenError("the token's header has critical extensions")
    signed = f"{parts[0]}.{parts[1]}".encode("ascii")
    return Jwt(header, claims, signed, decode_part(parts[2], "signature"))


def decode_part(text: str, what: str) -> bytes:
    """Bytes of base64url, with or without its padding."""
    if not _PART.fullmatch(text):
        raise TokenError(f"the {what} is not base64url")
    bare = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error as error:
        raise TokenError(f"the {what} is not base64url") from error


def encode_part(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def parse_object(data: bytes, what: str) -> Mapping[str, Any]:
    """An object of JSON, of whatever depth and length a stranger sends; raises TokenError."""
    try:
        value = json.loads(data, parse_constant=_refuse, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise TokenError(f"the {what} is no object of JSON") from error
    if not isinstance(value, dict):
        raise TokenError(f"the {what} is no object of JSON")
    return value


def _object(part: str, what: str) -> Mapping[str, Any]:
    return parse_object(decode_part(part, what), what)


def _refuse(text: str) -> float:
    raise ValueError("no number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name that stands twice could mean one thing here and another elsewhere (RFC 7519, 4)."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def number_of(claims: Mapping[str, Any], name: str) -> float | None:
    """A NumericDate in seconds; None if there is none."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        raise TokenError(f"the claim {name} is no time")
    return value


def texts_of(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A claim that is one text or a list of texts; empty if there is none."""
    value = claims.get(name)
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(each, str) for each in texts):
        raise TokenError(f"the claim {name} is not made of texts")
    return tuple(texts)
