"""The exchange of one SASL mechanism on a server: tokens in, tokens out, a user name at the end.  Pure.

`SaslAuthenticationError` has a message for the client; a `SaslExchangeError` may say more than a stranger
should know, so the client gets a message without details (KIP-152).
"""

from __future__ import annotations

from typing import Protocol


class SaslAuthenticationError(Exception):
    """The login failed; the client is told the message."""


class SaslExchangeError(Exception):
    """The login failed; only the mechanism is told."""


class SaslExchange(Protocol):
    """One login by one mechanism."""

    @property
    def user(self) -> str | None:
        """The user, once the exchange has succeeded."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """When what was shown ends, in milliseconds of wall time; a session ends with it (KIP-368)."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether it was a delegation token, with which no others can be made (KIP-48)."""
        ...

    def evaluate(self, token: bytes) -> bytes:
        """Takes the client's next token and returns the response; raises one of the errors above."""
        ...
