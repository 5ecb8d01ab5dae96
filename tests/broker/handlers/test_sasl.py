"""SaslHandshake and SaslAuthenticate on a listener without SASL."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.broker.handlers import (
    sasl_authenticate,
    sasl_handshake,
)
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.worlds.front_world import FakeBroker, call_of


def test_a_login_where_none_is_needed() -> None:
    broker: Any = FakeBroker()
    handshake = sasl_handshake.handle(broker, SaslHandshakeRequest(mechanism="PLAIN"), call_of(17, 1))
    assert (handshake.error_code, handshake.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
    login = sasl_authenticate.handle(broker, SaslAuthenticateRequest(auth_bytes=b""), call_of(36, 2))
    assert login.error_code == ErrorCode.ILLEGAL_SASL_STATE
