"""A connection before its login: only ApiVersions, SaslHandshake and SaslAuthenticate are served.

The order and the errors are those of Apache Kafka (KIP-43, KIP-152): ApiVersions at most once, SaslHandshake,
then tokens: in SaslAuthenticate requests, or bare after version 0 of SaslHandshake.  A failure is answered
after `connection.failed.authentication.delay.ms`, and the connection is closed.

A session may end (KIP-368): then only another login, by the same mechanism and as the same user, keeps the
connection.  A client may log in again once a second; more often it is told that it has no business to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from barnabas.base.errors import ErrorCode
from barnabas.base.log_text import shown
from barnabas.base.units import NS_PER_MS, NS_PER_S
from barnabas.broker.network.dispatch import ClientConnection, Dispatch
from barnabas.broker.security.sasl_setup import ListenerSasl
from barnabas.protocol.apis import API_VERSIONS_KEY
from barnabas.protocol.frame import ParsedRequestHeader, read_request_header, write_response_pieces
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.disk import Buffer
from barnabas.security.sasl.exchange import SaslAuthenticationError, SaslExchange, SaslExchangeError

logger = logging.getLogger(__name__)

SASL_HANDSHAKE_KEY = 17
SASL_AUTHENTICATE_KEY = 36
_FIRST_WITH_HEADERS = 1
# As in Apache Kafka: the time between two logins of one connection after the first one.
MIN_REAUTH_INTERVAL_NS = NS_PER_S


Serve = Callable[[memoryview, Any], None]


class LoginStream(ClientConnection, Protocol):
    """The connection as its login sees it."""

    def logged_in(self, principal: str, serve: Serve) -> None:
        """`serve` gets the requests from now on."""
        ...

    def login_failed(self, reason: str, delay_ms: int, *parts: Buffer) -> None:
        """Sends the last response after the delay, and closes."""
        ...


class SaslLogin:
    """The login of one connection."""

    __slots__ = (
        "_dispatch",
        "_exchange",
        "_former",
        "_has_headers",
        "_mechanism",
        "_sasl",
        "_versions_asked",
        "began_ns",
    )

    def __init__(self, sasl: ListenerSasl, dispatch: Dispatch, former: SaslSession | None = None) -> None:
        self._sasl = sasl
        # The session that this login continues.
        self._former = former
        # When another login than the first one of the connection began.
        self.began_ns: int | None = None
        self._dispatch = dispatch
        self._exchange: SaslExchange | None = None
        self._mechanism = ""
        self._has_headers = True
        self._versions_asked = False

    def serve(self, frame: memoryview, stream: LoginStream) -> None:
        """Serves one request; raises ProtocolError for one that has no place before the login."""
        if self._exchange is not None and not self._has_headers:
            self._bare_token(bytes(frame), self._exchange, stream)
            return
        header = read_request_header(frame)
        key = header.api.key
        if self._exchange is not None:
            if key != SASL_AUTHENTICATE_KEY:
                raise ProtocolError(f"a request of {header.api.name} during SASL authentication")
            self._token(frame, header, self._exchange, stream)
        elif key == API_VERSIONS_KEY and not self._versions_asked:
            self._versions_asked = header.is_supported
            self._dispatch.serve(frame, stream)
        elif key == SASL_HANDSHAKE_KEY:
            self._handshake(frame, header, stream)
        else:
            raise ProtocolError(f"a request of {header.api.name} during SASL handshake")

    def _handshake(self, frame: memoryview, header: ParsedRequestHeader, stream: LoginStream) -> None:
        header.check_version()
        request, _ = SaslHandshakeRequest.decode_from(frame, header.body, header.version)
        enabled = list(self._sasl.mechanisms)
        begin = self._sasl.mechanisms.get(request.mechanism)
        if begin is None:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=code, mechanisms=enabled)
            reason = f"the SASL mechanism {shown(request.mechanism)} is not enabled"
            self._fail(stream, reason, _encoded(response, header))
            return
        if self._former is not None and request.mechanism != self._former.mechanism:
            # KIP-368: the mechanism of a connection never changes.
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            response = SaslHandshakeResponse(error_code=code, mechanisms=[self._former.mechanism])
            self._fail(
                stream, "the login is by another mechanism than the first one", _encoded(response, header)
            )
            return
        self._mechanism, self._exchange = request.mechanism, begin()
        self._has_headers = header.version >= _FIRST_WITH_HEADERS
        stream.answer(*_encoded(SaslHandshakeResponse(error_code=0, mechanisms=enabled), header))

    def _token(
        self, frame: memoryview, header: ParsedRequestHeader, exchange: SaslExchange, stream: LoginStream
    ) -> None:
        header.check_version()
        request, _ = SaslAuthenticateRequest.decode_from(frame, header.body, header.version)
        try:
            token = exchange.evaluate(bytes(request.auth_bytes))
        except (SaslAuthenticationError, SaslExchangeError) as error:
            text = str(error)
            if isinstance(error, SaslExchangeError):
                text = (
                    "Authentication failed during authentication due to invalid credentials with SASL "
                    f"mechanism {self._mechanism}"
                )
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text, auth_bytes=b""
            )
            self._fail(stream, str(error), _encoded(response, header))
            return
        change = self._change_of_user(exchange)
        if change is not None:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=change, auth_bytes=b""
            )
            self._fail(stream, change, _encoded(response, header))
            return
        lifetime_ms = 0 if exchange.user is None else self._lifetime_ms(exchange)
        response = SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms
        )
        stream.answer(*_encoded(response, header))
        self._finish(exchange, stream, lifetime_ms)

    def _change_of_user(self, exchange: SaslExchange) -> str | None:
        """Why the login is refused although the password was right; None if it is not."""
        former = self._former
        if former is None or exchange.user in (None, former.user):
            return None
        return f"Cannot change principals during re-authentication from User:{former.user}"

    def _lifetime_ms(self, exchange: SaslExchange) -> int:
        """How long the session may last: no longer than the token of the login (KIP-368)."""
        most_ms = self._sasl.max_session_ms[self._mechanism]
        if exchange.expires_ms is None:
            return most_ms
        left_ms = max(1, exchange.expires_ms - self._sasl.wall_ms())
        return min(left_ms, most_ms) if most_ms > 0 else left_ms

    def _bare_token(self, token: bytes, exchange: SaslExchange, stream: LoginStream) -> None:
        try:
            answer = exchange.evaluate(token)
        except (SaslAuthenticationError, SaslExchangeError) as error:
            self._fail(stream, str(error), [])
            return
        change = self._change_of_user(exchange)
        if change is not None:
            self._fail(stream, change, [])
            return
        stream.answer(len(answer).to_bytes(4, "big") + answer)
        # The client is not told how long its session lasts; it ends all the same.
        self._finish(exchange, stream, 0 if exchange.user is None else self._lifetime_ms(exchange))

    def _finish(self, exchange: SaslExchange, stream: LoginStream, lifetime_ms: int) -> None:
        if exchange.user is None:
            return
        serve: Serve = self._dispatch.serve
        if lifetime_ms > 0:
            ends_ns = stream.context.received_ns + lifetime_ms * NS_PER_MS
            session = SaslSession(self._sasl, self._dispatch, exchange.user, self._mechanism, ends_ns)
            session.began_ns = self.began_ns
            serve = session.serve
        stream.context.by_token = exchange.by_token
        stream.logged_in(f"User:{exchange.user}", serve)

    def _fail(self, stream: LoginStream, reason: str, pieces: list[Buffer]) -> None:
        stream.login_failed(reason, self._sasl.failure_delay_ms, *pieces)


class SaslSession:
    """A session that ends: requests are served until then, and another login at any time."""

    __slots__ = ("_dispatch", "_ends_ns", "_sasl", "began_ns", "mechanism", "user")

    def __init__(
        self, sasl: ListenerSasl, dispatch: Dispatch, user: str, mechanism: str, ends_ns: int
    ) -> None:
        self._sasl = sasl
        self._dispatch = dispatch
        self._ends_ns = ends_ns
        # When its login began; None for the first one of the connection.
        self.began_ns: int | None = None
        self.user = user
        self.mechanism = mechanism

    def serve(self, frame: memoryview, stream: LoginStream) -> None:
        now_ns = stream.context.received_ns
        if int.from_bytes(frame[:2], "big") == SASL_HANDSHAKE_KEY and self._may_begin(now_ns):
            login = SaslLogin(self._sasl, self._dispatch, self)
            login.began_ns = now_ns
            stream.logged_in(f"User:{self.user}", login.serve)
            login.serve(frame, stream)
        elif now_ns > self._ends_ns:
            raise ProtocolError("the session has ended, and the client did not log in again")
        else:
            # A SaslHandshake that comes too early is answered with ILLEGAL_SASL_STATE.
            self._dispatch.serve(frame, stream)

    def _may_begin(self, now_ns: int) -> bool:
        return self.began_ns is None or now_ns - self.began_ns >= MIN_REAUTH_INTERVAL_NS


def _encoded(response: Message, header: ParsedRequestHeader) -> list[Buffer]:
    pieces = write_response_pieces(response, header.version, header.correlation_id)
    return [bytes(piece) for piece in pieces]  # type: ignore[arg-type]
