"""Sessions that end (KIP-368): what a client may do before and after, and how it logs in again."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.units import NS_PER_MS
from barnabas.broker.network.sasl_login import SaslLogin
from barnabas.broker.security.sasl_setup import ListenerSasl, LoginServices
from barnabas.config import BROKER, Mode
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.workers import ThreadWorkers
from barnabas.runtime.random import SeededRandom

LIFETIME_MS = 1000
OPTIONS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connections.max.reauth.ms": "7",
    "listener.name.safe.connections.max.reauth.ms": "50",
    "listener.name.safe.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    "listener.name.safe.plain.sasl.jaas.config": 'M required user_alice="a" user_bob="b";',
}


class Dispatch:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.served = 0

    def serve(self, frame: memoryview, stream: Any) -> None:
        self.served += 1


class Client:
    """A client's connection: its time passes by hand."""

    def __init__(self) -> None:
        settings = BROKER.parse(OPTIONS, Mode.KRAFT)
        services = LoginServices(
            lambda mechanism, user: None, SeededRandom(1), SystemClock(), ThreadWorkers()
        )
        self.sasl = ListenerSasl(settings, "SAFE", services)
        self.dispatch = Dispatch()
        self.serve: Any = SaslLogin(self.sasl, self.dispatch).serve  # type: ignore[arg-type]
        self.context = self
        self.received_ns = 0
        self.principal = ""
        self.answers: list[bytes] = []
        self.failed: str | None = None

    # The connection, as the login sees it.

    def answer(self, *parts: Any) -> None:
        self.answers.append(b"".join(bytes(part) for part in parts))

    def logged_in(self, principal: str, serve: Any) -> None:
        self.principal, self.serve = principal, serve

    def login_failed(self, reason: str, delay_ms: int, *parts: Any) -> None:
        self.failed = reason
        self.answer(*parts)

    # The client.

    def send(self, request: Message, version: int) -> None:
        self.serve(memoryview(bytearray(write_request(request, version, 5, "c")[4:])), self)

    def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        key = request.schema.key
        assert key is not None
        return read_response(self.answers[-1][4:], api(key), version)[1]

    def log_in(self, token: bytes = b"\0alice\0a", mechanism: str = "PLAIN") -> Any:
        handshake = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        if handshake.error_code:
            return handshake
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), 2)

    def log_in_bare(self, token: bytes = b"\0alice\0a") -> bytes | None:
        """As clients of old do, whose tokens have no headers; None if that failed."""
        self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)
        self.serve(memoryview(bytearray(token)), self)
        return None if self.failed is not None else self.answers[-1]

    def pass_ms(self, count: int) -> None:
        self.received_ns += count * NS_PER_MS

    def use(self) -> None:
        self.send(MetadataRequest(topics=[]), 12)


def test_a_login_tells_how_long_it_lasts() -> None:
    client = Client()
    assert client.log_in().session_lifetime_ms == LIFETIME_MS
    assert client.principal == "User:alice"
    assert client.sasl.max_session_ms == {"PLAIN": LIFETIME_MS, "SCRAM-SHA-256": 50}


def test_requests_are_served_until_the_session_ends() -> None:
    client = Client()
    client.log_in()
    client.pass_ms(LIFETIME_MS)
    client.use()
    assert client.dispatch.served == 1
    client.pass_ms(1)
    with pytest.raises(ProtocolError, match="the session has ended"):
        client.use()
    assert client.dispatch.served == 1


def test_sessions_of_clients_without_headers_end_too() -> None:
    """They are not told, but a user who was removed must not stay for ever (KIP-368)."""
    client = Client()
    assert client.log_in_bare() == bytes(4)
    client.pass_ms(LIFETIME_MS)
    client.use()
    client.pass_ms(1)
    with pytest.raises(ProtocolError, match="the session has ended"):
        client.use()


def test_another_login_continues_the_connection() -> None:
    client = Client()
    for _ in range(3):
        client.log_in()
        client.pass_ms(LIFETIME_MS + 1)
    assert client.log_in().error_code == 0
    client.use()
    assert client.dispatch.served == 1


def test_a_client_logs_in_again_once_a_second_at_most() -> None:
    client = Client()
    client.log_in()
    assert client.log_in().error_code == 0
    client.pass_ms(LIFETIME_MS - 1)
    served = client.dispatch.served
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    # The handler of a listener without logins answers.
    assert client.dispatch.served == served + 1
    client.use()
    client.pass_ms(1)
    assert client.log_in().error_code == 0


def test_an_early_login_does_not_prolong_a_session() -> None:
    client = Client()
    client.log_in()
    client.log_in()
    client.sasl.max_session_ms = {**client.sasl.max_session_ms, "PLAIN": 1}
    client.pass_ms(LIFETIME_MS)
    client.log_in()
    client.pass_ms(2)
    with pytest.raises(ProtocolError, match="the session has ended"):
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)


def test_no_other_request_is_served_in_the_middle_of_another_login() -> None:
    client = Client()
    client.log_in()
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    with pytest.raises(ProtocolError, match="during SASL authentication"):
        client.use()


def test_neither_the_user_nor_the_mechanism_may_change() -> None:
    client = Client()
    client.log_in()
    refused = client.log_in(b"\0bob\0b")
    assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in refused.error_message
    assert client.principal == "User:alice"
    client = Client()
    client.log_in()
    assert client.log_in_bare(b"\0bob\0b") is None
    assert client.failed is not None
    assert "Cannot change principals" in client.failed
    assert client.principal == "User:alice"
    client = Client()
    client.log_in()
    refused = client.log_in(mechanism="SCRAM-SHA-256")
    assert refused.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert refused.mechanisms == ["PLAIN"]
    assert client.failed is not None
