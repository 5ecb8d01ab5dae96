"""Which tokens are accepted: signatures, algorithms, claims, and what a stranger may send instead."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from barnabas.config.errors import ConfigError
from barnabas.security.oauth.jwt import MAX_TOKEN_CHARACTERS, TokenError, encode_part, parse_jwt
from barnabas.security.oauth.keys import UnknownKeyError, check_signature, read_keys
from barnabas.security.oauth.validators import (
    ClaimRules,
    InsufficientScopeError,
    SignedValidator,
    UnsecuredValidator,
)
from tests.issuer import LIFETIME_S, Issuer, now_s, token_of, unsigned, usual_claims

ISSUER, FOREIGN = Issuer(), Issuer()
KEYS = read_keys(json.dumps(ISSUER.keys()).encode())
RULES = ClaimRules(issuer="https://issuer.example", audiences=("kafka", "other"))


HOUR_MS = 3600 * 1000


def now_ms() -> int:
    return now_s() * 1000


def validator(rules: ClaimRules = RULES) -> tuple[SignedValidator, list[TokenError]]:
    failures: list[TokenError] = []
    return SignedValidator(
        rules, check_signature, lambda _: KEYS, lambda error, _: failures.append(error)
    ), failures


@pytest.mark.parametrize("make", [ISSUER.token, ISSUER.curve_token])
def test_tokens_of_the_issuer_are_accepted(make: Any) -> None:
    token = validator()[0].validate(make("alice", scope=["read", "write"], aud=["kafka"]), now_ms())
    assert token.principal == "alice"
    assert token.scopes == {"read", "write"}
    assert abs(token.expires_ms - now_ms() - LIFETIME_S * 1000) < HOUR_MS
    assert token.value not in repr(token)


def signed_by_the_public_key() -> str:
    """The public key of the issuer as a shared secret: an old way to forge tokens."""
    bare = token_of({"alg": "HS256", "kid": "key-rsa"}, usual_claims("alice")).removesuffix(".")
    secret = json.dumps(ISSUER.keys()["keys"][0]).encode()
    return f"{bare}.{encode_part(hmac.digest(secret, bare.encode(), hashlib.sha256))}"


def tampered() -> str:
    header, _, signature = ISSUER.token("alice").split(".")
    claims = encode_part(json.dumps(usual_claims("admin")).encode())
    return f"{header}.{claims}.{signature}"


NOW_S = now_s()
REFUSED = {
    "unsigned": unsigned("alice"),
    "unsigned, with a key id": token_of({"alg": "none", "kid": "key-rsa"}, usual_claims("alice")),
    "no algorithm": token_of({}, usual_claims("alice"), b"x"),
    "None in capitals": token_of({"alg": "NONE"}, usual_claims("alice")),
    "another issuer's key": FOREIGN.token("alice"),
    "another issuer's curve": FOREIGN.curve_token("alice"),
    "a shared secret": signed_by_the_public_key(),
    "other claims": tampered(),
    "no signature": ISSUER.token("alice").rpartition(".")[0] + ".",
    "cut": ISSUER.token("alice")[:-5],
    "expired": ISSUER.token("alice", exp=NOW_S - 31, iat=NOW_S - 600),
    "without an end": ISSUER.token("alice", exp=None),
    "without a beginning": ISSUER.token("alice", iat=None),
    "not yet": ISSUER.token("alice", nbf=NOW_S + LIFETIME_S),
    "named for another issuer": ISSUER.token("alice", iss="https://other.example"),
    "without an issuer": ISSUER.token("alice", iss=None),
    "another audience": ISSUER.token("alice", aud="not kafka"),
    "no audience": ISSUER.token("alice", aud=None),
    "nobody": ISSUER.token(" "),
    "a user that is a number": ISSUER.token(5),  # type: ignore[arg-type]
    "an end that is a text": ISSUER.token("alice", exp="tomorrow"),
    "an end that is no time": ISSUER.token("alice", exp=10**300),
    "an end that is true": ISSUER.token("alice", exp=True),
    "critical extensions": token_of({"alg": "RS256", "crit": ["x"]}, usual_claims("alice")),
    "two parts": "e30.e30",
    "no base64": "e30.!!.e30",
    "a list": "W10.W10.",
    "a name twice": encode_part(b'{"alg":"none","alg":"RS256"}') + ".e30.",
    "NaN": encode_part(b'{"alg":NaN}') + ".e30.",
    "deep": encode_part(b"[" * 40_000) + ".e30.",
    "a long number": encode_part(b'{"a":' + b"1" * 9_000 + b"}") + ".e30.",
    "long": "a" * (MAX_TOKEN_CHARACTERS + 1),
    "empty": "",
}


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
def test_other_tokens_are_refused(token: str) -> None:
    with pytest.raises(TokenError) as caught:
        validator()[0].validate(token, now_ms())
    assert "alice" not in str(caught.value)


def test_clocks_may_differ_a_little() -> None:
    now = now_s()
    token = ISSUER.token("alice", exp=now - 20, iat=now - 600, nbf=now + 20)
    assert validator()[0].validate(token, now * 1000).principal == "alice"
    strict = validator(ClaimRules(clock_skew_s=0))[0]
    with pytest.raises(TokenError, match="expired"):
        strict.validate(token, now * 1000)


def test_an_unknown_key_is_reported() -> None:
    judge, failures = validator()
    header = {"alg": "RS256", "kid": "new"}
    with pytest.raises(UnknownKeyError):
        judge.validate(token_of(header, usual_claims("alice"), b"x"), now_ms())
    assert [type(error) for error in failures] == [UnknownKeyError]


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {**ISSUER.keys()["keys"][0], "use": "enc"},
        {**ISSUER.keys()["keys"][1], "y": "AQ"},
        {**ISSUER.keys()["keys"][1], "crv": "P-1"},
        {"kty": "RSA"},
        {},
    ],
)
def test_keys_of_other_kinds_are_left_out(entry: dict[str, Any]) -> None:
    with pytest.raises(TokenError, match="no key"):
        read_keys(json.dumps({"keys": [entry]}).encode())


def test_unsecured_tokens_are_accepted_only_unsigned() -> None:
    judge = UnsecuredValidator({"unsecuredValidatorRequiredScope": "read"})
    assert judge.validate(unsigned("alice", scope="read"), now_ms()).principal == "alice"
    with pytest.raises(TokenError, match="signed"):
        judge.validate(ISSUER.token("alice", scope="read"), now_ms())
    with pytest.raises(InsufficientScopeError) as caught:
        judge.validate(unsigned("alice", scope=["write"]), now_ms())
    assert caught.value.scope == "[read]"
    refused: tuple[dict[str, Any], ...] = (
        {"exp": NOW_S},
        {"iat": NOW_S + LIFETIME_S, "exp": NOW_S + 2 * LIFETIME_S},
        {"exp": None},
        {"sub": ""},
    )
    for claims in refused:
        with pytest.raises(TokenError):
            judge.validate(unsigned("alice", scope="read", **claims), now_ms())
    with pytest.raises(ConfigError):
        UnsecuredValidator({"unsecuredValidatorAllowableClockSkewMs": "soon"})


def test_padding_is_allowed() -> None:
    assert parse_jwt("eyJhIjoxfQ==.e30=.").header == {"a": 1}
