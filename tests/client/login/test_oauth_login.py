"""One token for all connections of a client: when it is fetched, renewed, and used although it is not."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.errors import SaslAuthenticationFailedError
from barnabas.client.login.client_security import ClientSecurity
from barnabas.client.login.oauth_login import Fetched, OAuthLogin, RefreshRule
from barnabas.client.login.token_source import accept_token, read_source
from barnabas.config import ADMIN
from barnabas.config.errors import ConfigError
from barnabas.runtime.random import SeededRandom
from barnabas.security.oauth.jwt import OAuthToken
from tests.issuer import now_s, unsigned

RULE = RefreshRule(factor=0.8, jitter=0.0, min_period_ms=1000, buffer_ms=5000)
CLAIMS = ("sub", "scope")


class Tokens:
    """An issuer that answers when it is told to."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.asked: list[Fetched] = []
        self.login = OAuthLogin(self.asked.append, RULE, {}, lambda: self.now_ms, SeededRandom(1))
        self.outcome: list[Exception | None] = []

    def need(self) -> None:
        self.login.prepare(self.outcome.append)

    def issue(self, name: str, lifetime_ms: int = 100_000) -> None:
        token = OAuthToken(name, "alice", frozenset(), self.now_ms + lifetime_ms, self.now_ms)
        self.asked.pop()(token, None)

    def first(self) -> bytes:
        return self.login.begin().first()


def test_connections_share_a_token() -> None:
    tokens = Tokens()
    tokens.need()
    tokens.need()
    assert len(tokens.asked) == 1
    assert tokens.outcome == []
    tokens.issue("one")
    assert tokens.outcome == [None, None]
    tokens.now_ms = 79_000
    tokens.need()
    assert tokens.asked == []
    assert b"Bearer one" in tokens.first()
    assert "one" not in repr(tokens.login)


def test_a_token_is_renewed_before_it_ends_and_used_while_there_is_no_other() -> None:
    tokens = Tokens()
    tokens.need()
    tokens.issue("one")
    tokens.now_ms = 80_000
    tokens.need()
    tokens.asked.pop()(None, ConnectionError("no issuer"))
    assert tokens.outcome == [None, None]
    assert b"Bearer one" in tokens.first()
    tokens.need()
    assert tokens.asked == []
    tokens.now_ms = 81_000
    tokens.need()
    tokens.issue("two")
    assert b"Bearer two" in tokens.first()
    tokens.now_ms = 200_000
    tokens.need()
    failure = ConnectionError("no issuer")
    tokens.asked.pop()(None, failure)
    tokens.need()
    assert tokens.outcome[-2:] == [failure, failure]
    assert tokens.asked == []
    tokens.now_ms += 100
    tokens.need()
    tokens.issue("three")
    assert tokens.outcome[-1] is None


@pytest.mark.parametrize(("lifetime_ms", "renewed_ms"), [(100_000, 80_000), (20_000, 15_000), (5_000, 4_000)])
def test_when_a_token_is_renewed(lifetime_ms: int, renewed_ms: int) -> None:
    token = OAuthToken("t", "alice", frozenset(), lifetime_ms, 0)
    assert RULE.renewed_at(token, 0, 0.5) == renewed_ms


@pytest.mark.parametrize("claims", [{"exp": 5}, {"exp": None}, {"sub": None}, {"exp": "x"}])
def test_a_token_that_cannot_serve_is_told_to_the_client(claims: dict[str, Any]) -> None:
    now_ms = now_s() * 1000
    assert accept_token(unsigned("alice"), CLAIMS, now_ms).principal == "alice"
    with pytest.raises(SaslAuthenticationFailedError):
        accept_token(unsigned(**{"user": "alice", **claims}), CLAIMS, now_ms)


def settings(**extra: Any) -> Any:
    return ADMIN.parse({"bootstrap.servers": "b:1", **extra})


def test_unsecured_tokens_are_made_from_the_login_module() -> None:
    module = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": ",read,write",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    token = read_source(settings(), None, module, lambda: 1_700_000_000_000)()
    assert token.principal == "alice"
    assert token.scopes == {"read", "write"}
    assert token.expires_ms == 1_700_000_060_000
    with pytest.raises(ConfigError, match="names nobody"):
        read_source(settings(), None, {}, lambda: 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token"}, "client.secret"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://issuer.example/token"}, "no URL"),
        ({}, "names nobody"),
        (
            {
                "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
                "org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://other.example/token",
            },
            "allowed.urls",
        ),
    ],
)
def test_what_is_missing_is_named_at_once(options: dict[str, str], why: str) -> None:
    given = settings(**{"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, **options)
    with pytest.raises(ConfigError, match=why):
        ClientSecurity(given, SeededRandom(1))
