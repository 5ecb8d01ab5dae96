"""Which tokens a broker accepts: signed ones, or in Apache Kafka's unsecured mode any.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from barnabas.config.errors import ConfigError
from barnabas.security.oauth.jwt import Jwt, OAuthToken, TokenError, number_of, parse_jwt, texts_of

if TYPE_CHECKING:
    from barnabas.security.oauth.keys import SigningKey

_MS = 1000
_UNSECURED = "unsecuredValidator"


class InsufficientScopeError(TokenError):
    """The token lacks a scope that is required; `scope` is what the client is told."""

    def __init__(self, scope: str) -> None:
        super().__init__("the token lacks a required scope")
        self.scope = scope


class TokenValidator(Protocol):
    """Decides about tokens."""

    def validate(self, text: str, now_ms: int) -> OAuthToken:
        """Returns the token; raises TokenError if it is not accepted."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the claims of a signed token must be (`sasl.oauthbearer.*`)."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    scope_claim: str = "scope"


class SignedValidator:
    """Tokens that an issuer has signed, by its keys."""

    def __init__(
        self,
        rules: ClaimRules,
        check_signature: Callable[[Jwt, tuple[SigningKey, ...]], None],
        keys: Callable[[int], tuple[SigningKey, ...]],
        unknown_key: Callable[[TokenError, int], None],
    ) -> None:
        """`keys` gives the issuer's keys at a time, `unknown_key` hears of failures, to look for new ones."""
        self._rules = rules
        self._check_signature = check_signature
        self._keys = keys
        self._unknown_key = unknown_key

    def validate(self, text: str, now_ms: int) -> OAuthToken:
        token = parse_jwt(text)
        try:
            self._check_signature(token, self._keys(now_ms))
        except TokenError as error:
            self._unknown_key(error, now_ms)
            raise
        return self._checked(text, token, now_ms)

    def _checked(self, text: str, token: Jwt, now_ms: int) -> OAuthToken:
        rules, claims = self._rules, token.claims
        now_s, skew_s = now_ms / _MS, rules.clock_skew_s
        expires_s, issued_s = number_of(claims, "exp"), number_of(claims, "iat")
        not_before_s = number_of(claims, "nbf")
        if expires_s is None or issued_s is None:
            raise TokenError("the token has no claim exp or iat")
        if now_s - skew_s >= expires_s:
            raise TokenError("the token has expired")
        if not_before_s is not None and now_s + skew_s < not_before_s:
            raise TokenError("the token is not valid yet")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise TokenError("the token is of another issuer")
        if rules.audiences and not set(rules.audiences) & set(texts_of(claims, "aud")):
            raise TokenError("the token is for another audience")
        subject = claims.get(rules.subject_claim)
        if not isinstance(subject, str) or not subject.strip():
            raise TokenError(f"the token has no claim {rules.subject_claim}")
        scopes = frozenset(each.strip() for each in texts_of(claims, rules.scope_claim))
        return OAuthToken(text, subject.strip(), scopes, int(expires_s * _MS), int(issued_s * _MS))


class UnsecuredValidator:
    """Apache Kafka's unsecured mode (KIP-255): tokens without a signature, which anybody can make."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are those of the login module."""
        self._subject_claim = options.get(f"{_UNSECURED}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{_UNSECURED}ScopeClaimName", "").strip() or "scope"
        self._required = tuple(options.get(f"{_UNSECURED}RequiredScope", "").split())
        skew = options.get(f"{_UNSECURED}AllowableClockSkewMs", "").strip() or "0"
        if not skew.isascii() or not skew.isdigit():
            raise ConfigError(f"{_UNSECURED}AllowableClockSkewMs must be a number of milliseconds")
        self._skew_ms = int(skew)

    def validate(self, text: str, now_ms: int) -> OAuthToken:
        token = parse_jwt(text)
        if token.algorithm != "none" or token.signature:
            raise TokenError("the token is signed, and the issuer's keys are not known")
        return checked_unsigned(
            text, token, now_ms, self._subject_claim, self._scope_claim, self._skew_ms, self._required
        )


def checked_unsigned(
    text: str,
    token: Jwt,
    now_ms: int,
    subject_claim: str,
    scope_claim: str,
    skew_ms: int = 0,
    required: tuple[str, ...] = (),
) -> OAuthToken:
    """The claims of an unsigned token; raises TokenError."""
    claims = token.claims
    subject = claims.get(subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenError(f"the token has no claim {subject_claim}")
    expires_s, issued_s = number_of(claims, "exp"), number_of(claims, "iat")
    if expires_s is None:
        raise TokenError("the token has no claim exp")
    if issued_s is not None and issued_s * _MS > now_ms + skew_ms:
        raise TokenError("the token was issued in the future")
    if now_ms - skew_ms >= expires_s * _MS:
        raise TokenError("the token has expired")
    if issued_s is not None and expires_s <= issued_s:
        raise TokenError("the token ended before it began")
    scopes = frozenset(each.strip() for each in texts_of(claims, scope_claim) if each.strip())
    if not scopes.issuperset(required):
        raise InsufficientScopeError(f"[{', '.join(required)}]")
    issued_ms = None if issued_s is None else int(issued_s * _MS)
    return OAuthToken(text, subject, scopes, int(expires_s * _MS), issued_ms)
