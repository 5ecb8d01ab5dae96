"""The client's side of SASL against our server's, and against servers that are not what they say."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from barnabas.config import ConfigError
from barnabas.metadata.scram import ScramMechanism, credential, salted_password
from barnabas.protocol.records.metadata import UserScramCredentialRecord
from barnabas.security.sasl.client import ClientLogin, ScramClient, read_login
from barnabas.security.sasl.exchange import SaslExchange, SaslExchangeError
from barnabas.security.sasl.jaas import JaasEntry
from barnabas.security.sasl.plain import PlainExchange
from barnabas.security.sasl.scram import ScramExchange

SALT = b"salt" * 8
USER = "a,b=c"


def stored(mechanism: ScramMechanism, user: str, password: str) -> UserScramCredentialRecord:
    made = credential(user, mechanism, salted_password(mechanism, password, SALT, 4096), SALT, 4096)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def server(mechanism: ScramMechanism, password: str = "secret") -> ScramExchange:
    record = stored(mechanism, USER, password)
    return ScramExchange(mechanism, lambda _, user: record if user == USER else None, "servernonce")


def login(mechanism: str, password: str = "secret") -> ClientLogin:
    return ClientLogin(
        mechanism, JaasEntry("M", {"username": USER, "password": password}), lambda n: b"n" * n
    )


def converse(client: ClientLogin, exchange: SaslExchange) -> None:
    begun = client.begin()
    token: bytes | None = begun.first()
    while token is not None:
        token = begun.next(exchange.evaluate(token))


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_logs_in_and_keeps_the_derived_key(mechanism: ScramMechanism) -> None:
    client = login(mechanism.mechanism_name)
    for _ in range(2):
        exchange = server(mechanism)
        converse(client, exchange)
        assert exchange.user == USER


def test_plain_logs_in() -> None:
    exchange = PlainExchange({USER: "secret"})
    converse(login("PLAIN"), exchange)
    assert exchange.user == USER


def test_a_wrong_password_is_refused_by_the_server() -> None:
    with pytest.raises(SaslExchangeError):
        converse(login("SCRAM-SHA-256", "wrong"), server(ScramMechanism.SCRAM_SHA_256))


def forged(change: Callable[[str], str]) -> bytes:
    """The server's first message after a change."""
    client = client_of()
    text = server(ScramMechanism.SCRAM_SHA_256).evaluate(client.first()).decode()
    return change(text).encode()


def client_of() -> ScramClient:
    return ScramClient(ScramMechanism.SCRAM_SHA_256, USER, "secret", "clientnonce")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("r=clientnonce", "r=othernonce"), "does not continue"),
        (lambda text: text.replace("servernonce", ""), "does not continue"),
        (lambda text: text.replace("i=4096", "i=1"), "1 iterations"),
        # M: reliability.md, iteration bounds: such a number would hold the client for minutes.
        (lambda text: text.replace("i=4096", "i=999999999"), "999999999 iterations"),
        (lambda text: text[:-7], "not valid"),
        (lambda text: text.replace("s=", "s==="), "not valid"),
        (lambda text: "e=other-error", "not valid"),
    ],
)
def test_a_first_message_that_is_not_a_servers(change: Callable[[str], str], why: str) -> None:
    client = client_of()
    client.first()
    with pytest.raises(SaslExchangeError, match=why):
        client.next(forged(change))


@pytest.mark.parametrize(
    ("final", "why"),
    [
        (b"v=" + base64.b64encode(b"x" * 32), "does not know the password"),
        (b"e=invalid-proof", "refused the login: invalid-proof"),
        (b"", "does not know the password"),
        (b"\xff", "not UTF-8"),
        (b"v=%%", "not valid base64"),
    ],
)
def test_a_server_that_does_not_know_the_password(final: bytes, why: str) -> None:
    client = client_of()
    client.next(server(ScramMechanism.SCRAM_SHA_256).evaluate(client.first()))
    with pytest.raises(SaslExchangeError, match=why):
        client.next(final)


def test_a_delegation_token_is_announced() -> None:
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, "id", "hmac", "nonce", by_token=True)
    assert client.first() == b"n,,n=id,r=nonce,tokenauth=true"


def test_a_login_shows_no_password() -> None:
    assert repr(login("PLAIN", "top-secret")) == f"ClientLogin(PLAIN, {USER})"


@pytest.mark.parametrize(
    ("jaas", "why"),
    [
        (None, r"The user of PLAIN is missing; set sasl\.jaas\.config"),
        ("Module required", r"sasl\.jaas\.config: the JAAS configuration must be"),
        ('Module required username="u";', "needs the options username and password"),
    ],
)
def test_wrong_login_modules_are_named(jaas: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_login("PLAIN", jaas, "sasl.jaas.config", lambda n: b"n" * n)
