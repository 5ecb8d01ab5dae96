"""SASL/OAUTHBEARER: what a client sends, what a server makes of it, and of what no client sends."""

from __future__ import annotations

import json

import pytest

from barnabas.config.errors import ConfigError
from barnabas.security.oauth.jwt import OAuthToken
from barnabas.security.oauth.validators import UnsecuredValidator
from barnabas.security.sasl.exchange import SaslAuthenticationError, SaslExchangeError
from barnabas.security.sasl.oauthbearer import OAuthClient, OAuthExchange, check_extensions
from tests.issuer import LIFETIME_S, now_s, unsigned

NOW_MS = now_s() * 1000
TOKEN = unsigned("alice")


def exchange(scope: str = "") -> OAuthExchange:
    return OAuthExchange(UnsecuredValidator({"unsecuredValidatorRequiredScope": scope}), lambda: NOW_MS)


def client(token: str = TOKEN, **extensions: str) -> OAuthClient:
    return OAuthClient(OAuthToken(token, "alice", frozenset(), NOW_MS, None), extensions)


def test_a_token_logs_in_until_it_ends() -> None:
    server, begun = exchange(), client(tenant="a b")
    assert begun.first().endswith(b"\x01tenant=a b\x01\x01")
    assert begun.next(server.evaluate(begun.first())) is None
    assert server.user == "alice"
    assert server.expires_ms is not None
    assert abs(server.expires_ms - NOW_MS - LIFETIME_S * 1000) < 60_000
    with pytest.raises(SaslExchangeError):
        server.evaluate(begun.first())


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        ("", {"status": "invalid_token"}),
        ("read write", {"status": "insufficient_scope", "scope": "[read, write]"}),
    ],
)
def test_a_refused_token_is_told_and_confirmed(scope: str, status: dict[str, str]) -> None:
    server = exchange(scope)
    begun = client(TOKEN if scope else "e30.e30.")
    answer = server.evaluate(begun.first())
    assert json.loads(answer) == status
    confirmation = begun.next(answer)
    assert confirmation == b"\x01"
    with pytest.raises(SaslAuthenticationError, match=status["status"]):
        server.evaluate(confirmation)
    with pytest.raises(SaslExchangeError):
        begun.next(b"more")
    assert server.user is None


def test_after_a_refused_token_there_is_no_other_try() -> None:
    server = exchange()
    server.evaluate(client("e30.e30.").first())
    with pytest.raises(SaslExchangeError):
        server.evaluate(client().first())
    assert server.user is None


@pytest.mark.parametrize("name", ["alice", ""])
def test_an_authorization_id_is_the_principal(name: str) -> None:
    server = exchange()
    header = f"n,a={name}," if name else "n,,"
    server.evaluate(f"{header}\x01auth=Bearer {TOKEN}\x01\x01".encode())
    assert server.user == "alice"
    with pytest.raises(SaslAuthenticationError, match="authorization id"):
        exchange().evaluate(f"n,a=bob,\x01auth=bearer {TOKEN}\x01\x01".encode())


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"\xff",
        b"n,,",
        b"n,,\x01\x01",
        f"n,,\x01auth=Bearer {TOKEN}\x01".encode(),
        f"n,,\x01auth=Bearer {TOKEN}".encode(),
        f"n,,\x01auth=Basic {TOKEN}\x01\x01".encode(),
        f"n,,\x01auth=Bearer {TOKEN}\x01auth=Bearer {TOKEN}\x01\x01".encode(),
        f"n,,\x01auth=Bearer {TOKEN}\x01a1=b\x01\x01".encode(),
        f"y,,\x01auth=Bearer {TOKEN}\x01\x01".encode(),
        f"n,a=a=b,\x01auth=Bearer {TOKEN}\x01\x01".encode(),
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01" + b"a=b\x01" * 100_000,
    ],
)
def test_other_messages_are_refused(message: bytes) -> None:
    server = exchange()
    with pytest.raises(SaslExchangeError):
        server.evaluate(message)
    assert server.user is None


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": "\x01"}, {"a": ""}])
def test_extensions_cannot_stand_for_a_token(extensions: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        check_extensions(extensions)
