"""SASL/SCRAM (RFC 5802, KIP-84) on a server.

The server compares keys that were derived from the password when it was set, so a login costs it two HMACs
and a hash; the hashing of the password is the client's work.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from barnabas.metadata.scram import MIN_ITERATIONS, ScramMechanism
from barnabas.protocol.records.metadata import UserScramCredentialRecord
from barnabas.security.sasl.exchange import SaslAuthenticationError, SaslExchangeError

_PRINTABLE = r"[\x21-\x2B\x2D-\x7E]+"
_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_FIRST = re.compile(rf"(n,(?:a=({_NAME}))?,)(n=({_NAME}),r=({_PRINTABLE})(,.*)?)", re.DOTALL)
_FINAL = re.compile(rf"(c=([A-Za-z0-9+/=]+),r=({_PRINTABLE})(?:,[a-z]=[^,]*)*?),p=([A-Za-z0-9+/=]+)")
_TOKEN_EXTENSION = "tokenauth=true"
_NO_CHANNEL_BINDING = b"n,,"


class TokenCredential(NamedTuple):
    """The keys of a delegation token, whose it is, and when it ends (KIP-48)."""

    keys: UserScramCredentialRecord
    owner: str
    expires_ms: int


TokenLookup = Callable[[ScramMechanism, str], TokenCredential | None]
Lookup = Callable[[ScramMechanism, str], UserScramCredentialRecord | None]


def no_tokens(mechanism: ScramMechanism, token_id: str) -> None:
    """There are no delegation tokens."""


class ScramExchange:
    """A login against the stored keys of a user, or of a delegation token."""

    def __init__(
        self, mechanism: ScramMechanism, lookup: Lookup, server_nonce: str, tokens: TokenLookup = no_tokens
    ) -> None:
        self._tokens = tokens
        self._owner: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False
        self._mechanism = mechanism
        self._lookup = lookup
        self._server_nonce = server_nonce
        self._credential: UserScramCredentialRecord | None = None
        self._client_first_bare = self._server_first = self._nonce = ""
        self._header = b""
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            text = str(token, "utf-8")
        except UnicodeDecodeError as error:
            raise SaslExchangeError("the message is not UTF-8") from error
        if self.user is not None:
            raise SaslExchangeError("a message after the last one")
        return self._first(text) if self._credential is None else self._final(text, self._credential)

    def _first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslExchangeError("the first message is not valid")
        header, authorization_id, self._client_first_bare, name, client_nonce, extensions = match.groups()
        user = _unescaped(name)
        if authorization_id and _unescaped(authorization_id) != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential = self._credential_of(user, extensions or "")
        if credential is None or credential.iterations < MIN_ITERATIONS:
            raise SaslExchangeError("Authentication failed: Invalid user credentials")
        self._credential = credential
        self._header = header.encode()
        self._nonce = client_nonce + self._server_nonce
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _credential_of(self, user: str, extensions: str) -> UserScramCredentialRecord | None:
        if _TOKEN_EXTENSION not in extensions.lower().split(","):
            return self._lookup(self._mechanism, user)
        token = self._tokens(self._mechanism, user)
        if token is None:
            raise SaslExchangeError("Token Authentication failed: there is no such token")
        self._owner, self.expires_ms, self.by_token = token.owner, token.expires_ms, True
        return token.keys

    def _final(self, text: str, credential: UserScramCredentialRecord) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None:
            raise SaslExchangeError("the final message is not valid")
        without_proof, binding, nonce, proof_text = match.groups()
        if not hmac.compare_digest(nonce, self._nonce):
            raise SaslExchangeError("Invalid client nonce in the final client message.")
        # Apache Kafka's client sends the empty header even after one with an authorization id.
        if _decoded(binding) not in (_NO_CHANNEL_BINDING, self._header):
            raise SaslExchangeError("the channel binding is another one than in the first message")
        message = f"{self._client_first_bare},{self._server_first},{without_proof}".encode()
        digest = self._mechanism.digest
        signature = hmac.digest(credential.stored_key, message, digest)
        proof = _decoded(proof_text)
        if len(proof) != len(signature):
            raise SaslExchangeError("Invalid client credentials")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key):
            raise SaslExchangeError("Invalid client credentials")
        self.user = credential.name if self._owner is None else self._owner
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, message, digest))


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise SaslExchangeError("the message is not valid base64") from error
