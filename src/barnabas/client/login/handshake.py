"""What comes first on a connection to a broker: the API versions, and the login (KIP-43, KIP-152).

Without IO, like `connection`: the client runs it on asyncio, a broker towards its peers on the reactor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from barnabas import __version__
from barnabas.base.errors import ErrorCode
from barnabas.client.connection import ConnectionProtocol
from barnabas.client.errors.base import error_for
from barnabas.client.errors.cluster import (
    IllegalSaslStateError,
    NetworkError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from barnabas.protocol.apis import API_VERSIONS_KEY, api
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from barnabas.protocol.schema import Message, Versions
from barnabas.security.sasl.exchange import SaslExchangeError

if TYPE_CHECKING:
    from barnabas.security.sasl.client import ClientExchange

SOFTWARE_NAME = "barnabas"
# With version 0 the tokens would follow without headers (KIP-152).
_HANDSHAKE_VERSION = 1
_AUTHENTICATE_KEY = 36


class Login(Protocol):
    """How to log in; see `security.sasl.client.ClientLogin`."""

    @property
    def mechanism(self) -> str: ...

    def prepare(self, ready: Callable[[Exception | None], None], /) -> None:
        """Gets what the login needs, such as a token, and calls `ready`: at once if it is at hand."""
        ...

    def begin(self) -> ClientExchange: ...


class Handshake:
    """Negotiates API versions with the peer, and logs in; `ready` is called when that succeeded or failed."""

    def __init__(
        self,
        protocol: ConnectionProtocol,
        ready: Callable[[Exception | None], None],
        login: Login | None = None,
    ) -> None:
        self._protocol = protocol
        self._ready = ready
        self._login = login
        self._exchange: ClientExchange | None = None
        self._send: Callable[..., None] | None = None
        self._requested_version = 0
        # How long the session may last (KIP-368); 0 for ever.
        self.session_lifetime_ms = 0

    def start(self, send: Callable[..., None]) -> None:
        """Begin; `send` writes buffers to the connection."""
        self._send = send
        if self._login is None:
            self._request_versions(api(API_VERSIONS_KEY).stable)
        else:
            self._login.prepare(self._prepared)

    def abandon(self) -> None:
        """The connection is closed: nothing is sent any more."""
        self._send = None

    def _prepared(self, error: Exception | None) -> None:
        if self._send is None:
            return
        if error is not None:
            self._ready(error)
        else:
            self._request_versions(api(API_VERSIONS_KEY).stable)

    def _ask(
        self, request: Message, version: int, done: Callable[[Message | None, Exception | None], None]
    ) -> None:
        assert self._send is not None, "start comes first"
        self._send(*self._protocol.request(request, version, done))

    def _request_versions(self, version: int) -> None:
        self._requested_version = version
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._ask(request, version, self._on_versions)

    def _on_versions(self, message: Message | None, error: Exception | None) -> None:
        if not isinstance(message, ApiVersionsResponse):
            self._ready(error or NetworkError("no response to ApiVersions"))
            return
        api_versions = {
            each.api_key: Versions(each.min_version, each.max_version) for each in message.api_keys
        }
        known = api_versions.get(API_VERSIONS_KEY)
        refused = message.error_code == ErrorCode.UNSUPPORTED_VERSION
        if refused and known is not None and known.highest < self._requested_version:
            self._request_versions(known.highest)
        elif message.error_code:
            self._ready(error_for(message.error_code))
        else:
            self._protocol.api_versions = api_versions
            self._protocol.feature_levels = {
                each.name: each.max_version_level for each in message.finalized_features
            }
            self._log_in()

    def _log_in(self) -> None:
        if self._login is None:
            self._ready(None)
            return
        request = SaslHandshakeRequest(mechanism=self._login.mechanism)
        self._ask(request, _HANDSHAKE_VERSION, self._on_mechanisms)

    def _on_mechanisms(self, message: Message | None, error: Exception | None) -> None:
        login = self._login
        assert login is not None, "the mechanism was one of a login"
        if not isinstance(message, SaslHandshakeResponse):
            self._ready(error or NetworkError("no response to SaslHandshake"))
        elif message.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(message.mechanisms) or "none"
            self._ready(
                UnsupportedSaslMechanismError(
                    f"the listener does not have the SASL mechanism {login.mechanism}; it has {enabled}"
                )
            )
        elif message.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            self._ready(IllegalSaslStateError("the listener has no logins: check security.protocol"))
        elif message.error_code:
            self._ready(error_for(message.error_code))
        else:
            self._exchange = login.begin()
            self._send_token(self._exchange.first())

    def _send_token(self, token: bytes) -> None:
        version = self._protocol.version_for(api(_AUTHENTICATE_KEY))
        self._ask(SaslAuthenticateRequest(auth_bytes=token), version, self._on_token)

    def _on_token(self, message: Message | None, error: Exception | None) -> None:
        exchange = self._exchange
        assert exchange is not None, "tokens are answers to those of an exchange"
        if not isinstance(message, SaslAuthenticateResponse):
            self._ready(error or NetworkError("no response to SaslAuthenticate"))
            return
        if message.error_code:
            self._ready(error_for(message.error_code, message.error_message))
            return
        try:
            answer = exchange.next(bytes(message.auth_bytes))
        except SaslExchangeError as refusal:
            self._ready(SaslAuthenticationFailedError(str(refusal)))
            return
        if answer is not None:
            self._send_token(answer)
            return
        self.session_lifetime_ms = message.session_lifetime_ms
        self._ready(None)
