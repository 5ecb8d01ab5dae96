"""SASL/PLAIN (RFC 4616) on a server: `[authorization id] NUL user NUL password`."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from barnabas.security.sasl.exchange import SaslAuthenticationError

MECHANISM = "PLAIN"
_USER_PREFIX = "user_"
_TOKENS = 3


def plain_users(options: Mapping[str, str]) -> dict[str, str]:
    """The users of a PlainLoginModule: `user_NAME="password"`."""
    return {
        name.removeprefix(_USER_PREFIX): password
        for name, password in options.items()
        if name.startswith(_USER_PREFIX)
    }


class PlainExchange:
    """A login against a table of passwords."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def evaluate(self, token: bytes) -> bytes:
        tokens = str(token, "utf-8", "replace").split("\0")
        if len(tokens) != _TOKENS:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}"
            )
        authorization_id, user, password = tokens
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._users.get(user)
        # The comparison takes the same time for an unknown user.
        is_equal = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_equal:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""
