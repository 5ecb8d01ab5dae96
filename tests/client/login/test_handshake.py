"""Logging in on a connection, without a broker: which requests are sent, and what is made of the responses."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.connection import ConnectionProtocol
from barnabas.client.errors import (
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from barnabas.client.login.handshake import Handshake
from barnabas.protocol.apis import api_named
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.schema import Message
from barnabas.security.sasl.client import ClientLogin
from barnabas.security.sasl.jaas import JaasEntry
from tests.frames import read_request, write_response

LOGIN = ClientLogin("PLAIN", JaasEntry("M", {"username": "u", "password": "p"}), lambda n: b"n" * n)


class Opening:
    """The first exchanges on a connection, step by step."""

    def __init__(self, login: ClientLogin | None = LOGIN) -> None:
        self.protocol = ConnectionProtocol("tester")
        self.sent: list[bytes] = []
        self.outcome: list[Exception | None] = []
        self.handshake = Handshake(self.protocol, self.outcome.append, login)
        self.handshake.start(lambda *pieces: self.sent.append(b"".join(bytes(piece) for piece in pieces)[4:]))
        keys = [
            ApiVersionsResponse.ApiVersion(api_key=api_named(name).key, min_version=0, max_version=2)
            for name in ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
        ]
        self.respond(ApiVersionsResponse(error_code=0, api_keys=keys))

    def respond(self, response: Message) -> None:
        header, _ = read_request(self.sent[-1])
        data = write_response(response, header.version, header.correlation_id)
        assert self.protocol.receive(memoryview(data)) == len(data)

    @property
    def asked(self) -> Message:
        return read_request(self.sent[-1])[1]


def test_without_a_login_the_versions_are_all() -> None:
    opening = Opening(None)
    assert opening.outcome == [None]
    assert len(opening.sent) == 1


def test_a_login_follows_the_versions() -> None:
    opening = Opening()
    assert isinstance(opening.asked, SaslHandshakeRequest)
    assert opening.asked.mechanism == "PLAIN"
    opening.respond(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    assert isinstance(opening.asked, SaslAuthenticateRequest)
    assert bytes(opening.asked.auth_bytes) == b"\0u\0p"
    assert opening.outcome == []
    opening.respond(
        SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=5)
    )
    assert opening.outcome == [None]


def test_a_refused_login_says_why() -> None:
    opening = Opening()
    opening.respond(SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]))
    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    opening.respond(SaslAuthenticateResponse(error_code=code, error_message="no such user", auth_bytes=b""))
    (error,) = opening.outcome
    assert isinstance(error, SaslAuthenticationFailedError)
    assert error.message == "no such user"


@pytest.mark.parametrize(
    ("code", "kind", "why"),
    [
        (ErrorCode.UNSUPPORTED_SASL_MECHANISM, UnsupportedSaslMechanismError, "it has SCRAM-SHA-256"),
        (ErrorCode.ILLEGAL_SASL_STATE, IllegalSaslStateError, "check security.protocol"),
    ],
)
def test_a_refused_mechanism_says_what_to_do(code: ErrorCode, kind: type[Exception], why: str) -> None:
    opening = Opening()
    opening.respond(SaslHandshakeResponse(error_code=code, mechanisms=["SCRAM-SHA-256"]))
    (error,) = opening.outcome
    assert isinstance(error, kind)
    assert why in str(error)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    """SCRAM is mutual: what it sends is checked, and the connection fails at once."""
    scram = ClientLogin(
        "SCRAM-SHA-256", JaasEntry("M", {"username": "u", "password": "p"}), lambda count: b"n" * count
    )
    opening = Opening(scram)
    opening.respond(SaslHandshakeResponse(error_code=0, mechanisms=["SCRAM-SHA-256"]))
    opening.respond(
        SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=b"r=another,s=c2FsdA==,i=4096")
    )
    (error,) = opening.outcome
    assert isinstance(error, SaslAuthenticationFailedError)
