"""The client's side of SASL: what it sends, and how it checks that the server knows the password.  Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Protocol

from barnabas.config.errors import ConfigError
from barnabas.metadata.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, salted_password
from barnabas.security.sasl.exchange import SaslExchangeError
from barnabas.security.sasl.jaas import JaasEntry, parse_jaas

_SERVER_FIRST = re.compile(r"r=([\x21-\x2B\x2D-\x7E]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})(?:,.*)?", re.DOTALL)
_SCRAM = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}
NONCE_BYTES = 20
# "n,,", for a client without channel binding, in base64.
_HEADER = "n,,"
_TOKEN_OPTION = "tokenauth"


class ClientExchange(Protocol):
    """One login by one mechanism."""

    def first(self) -> bytes:
        """The first token."""
        ...

    def next(self, token: bytes) -> bytes | None:
        """Takes the server's token and returns the answer; None when the login is complete.

        Raises SaslExchangeError if the server is not the one that it should be.
        """
        ...


class PlainClient:
    """SASL/PLAIN: the password as it is, so only for connections with TLS."""

    def __init__(self, user: str, password: str) -> None:
        self._token = f"\0{user}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def next(self, token: bytes) -> None:
        return None


class ScramClient:
    """SASL/SCRAM (RFC 5802, KIP-84): the password never leaves the client."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        user: str,
        password: str,
        nonce: str,
        *,
        by_token: bool = False,
        salted: Callable[[ScramMechanism, str, bytes, int], bytes] = salted_password,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._salted = salted
        name = user.replace("=", "=3D").replace(",", "=2C")
        # A delegation token is announced as such (KIP-48).
        extension = ",tokenauth=true" if by_token else ""
        self._first_bare = f"n={name},r={nonce}{extension}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"{_HEADER}{self._first_bare}".encode()

    def next(self, token: bytes) -> bytes | None:
        try:
            text = str(token, "utf-8")
        except UnicodeDecodeError as error:
            raise SaslExchangeError("the server's message is not UTF-8") from error
        if self._server_signature is None:
            return self._proof(text)
        self._check(text)
        return None

    def _proof(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise SaslExchangeError("the server's first message is not valid")
        nonce, salt, iterations = match[1], _decoded(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslExchangeError("the server's nonce does not continue the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise SaslExchangeError(
                f"the server wants {iterations} iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
            )
        digest = self._mechanism.digest
        salted = self._salted(self._mechanism, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", digest)
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        message = f"{self._first_bare},{text},{without_proof}".encode()
        signature = hmac.digest(hashlib.new(digest, client_key).digest(), message, digest)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _check(self, text: str) -> None:
        kind, equals, value = text.partition("=")
        if kind == "e" and equals:
            raise SaslExchangeError(f"the server refused the login: {value}")
        signature = _decoded(value.partition(",")[0]) if kind == "v" else b""
        assert self._server_signature is not None, "the proof was sent before"
        if not hmac.compare_digest(signature, self._server_signature):
            raise SaslExchangeError("the server does not know the password: it may be another one")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslExchangeError("the server's message is not valid base64") from error


class ClientLogin:
    """How a client logs in: begins an exchange for each of its connections.

    The salted password is kept for as long as salt and iterations stay the same: deriving it takes
    milliseconds, and a client has several connections.
    """

    def __init__(self, mechanism: str, jaas: JaasEntry, nonce: Callable[[int], bytes]) -> None:
        self.mechanism = mechanism
        self._user = jaas.options.get("username", "")
        self._password = jaas.options.get("password", "")
        self._by_token = jaas.options.get(_TOKEN_OPTION, "").lower() == "true"
        self._nonce = nonce
        self._salted: tuple[tuple[bytes, int], bytes] | None = None
        if not self._user or not self._password:
            raise ConfigError("the login module needs the options username and password")

    def __repr__(self) -> str:
        """Without the password."""
        return f"ClientLogin({self.mechanism}, {self._user})"

    def prepare(self, ready: Callable[[Exception | None], None]) -> None:
        """A password is at hand."""
        ready(None)

    def begin(self) -> ClientExchange:
        if self.mechanism not in _SCRAM:
            return PlainClient(self._user, self._password)
        nonce = self._nonce(NONCE_BYTES).hex()
        mechanism = _SCRAM[self.mechanism]
        return ScramClient(
            mechanism, self._user, self._password, nonce, by_token=self._by_token, salted=self._keep_salted
        )

    def _keep_salted(self, mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        if self._salted is None or self._salted[0] != (salt, iterations):
            self._salted = (salt, iterations), salted_password(mechanism, password, salt, iterations)
        return self._salted[1]


def read_login(mechanism: str, jaas: str | None, option: str, nonce: Callable[[int], bytes]) -> ClientLogin:
    """The login that a JAAS line describes; ConfigError names the option that it stands in."""
    if jaas is None:
        raise ConfigError(
            f"The user of {mechanism} is missing; set {option}, for example to "
            '`org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`'
        )
    try:
        return ClientLogin(mechanism, parse_jaas(jaas), nonce)
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{option}: {error}") from error
