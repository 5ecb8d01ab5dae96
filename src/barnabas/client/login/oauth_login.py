"""Logging in by OAuth tokens: one token for all connections, fetched before it is needed and renewed in time.

Without IO of its own: the source of tokens runs where its owner says, a client's loop or a broker's workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from barnabas.config.settings import Settings
from barnabas.runtime.random import Random
from barnabas.security.oauth.jwt import OAuthToken
from barnabas.security.sasl import oauthbearer
from barnabas.security.sasl.client import ClientExchange

_MS = 1000
_EXTENSION_PREFIXES = ("extension_", "unsecuredLoginExtension_")
# More connections do not wait for one token.
MAX_WAITING = 10_000

Fetched = Callable[[OAuthToken | None, BaseException | None], None]
Ready = Callable[[Exception | None], None]


class RefreshRule(NamedTuple):
    """When a token is renewed (`sasl.login.refresh.*`)."""

    factor: float
    jitter: float
    min_period_ms: int
    buffer_ms: int
    # After a failure nobody is asked for so long, and longer after each further one.
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000

    @classmethod
    def read(cls, settings: Settings) -> RefreshRule:
        return cls(
            settings["sasl.login.refresh.window.factor"],
            settings["sasl.login.refresh.window.jitter"],
            settings["sasl.login.refresh.min.period.seconds"] * _MS,
            settings["sasl.login.refresh.buffer.seconds"] * _MS,
            settings["sasl.login.retry.backoff.ms"],
            settings["sasl.login.retry.backoff.max.ms"],
        )

    def renewed_at(self, token: OAuthToken, now_ms: int, chance: float) -> int:
        """A part of the token's life, but some time before its end, and not at once."""
        lifetime_ms = token.expires_ms - now_ms
        usual = int(lifetime_ms * (self.factor + self.jitter * chance))
        if self.min_period_ms + self.buffer_ms >= lifetime_ms:
            # As in Apache Kafka: a token that is too short for these limits has none.
            return now_ms + usual
        return now_ms + max(min(usual, lifetime_ms - self.buffer_ms), self.min_period_ms)


class OAuthLogin:
    """The logins of one client, or of one node towards others."""

    mechanism = oauthbearer.MECHANISM

    def __init__(
        self,
        fetch: Callable[[Fetched], None],
        rule: RefreshRule,
        extensions: Mapping[str, str],
        now_ms: Callable[[], int],
        random: Random,
    ) -> None:
        """`fetch` gets a token and reports it on the loop."""
        self._fetch = fetch
        self._rule = rule
        self._extensions = oauthbearer.check_extensions(extensions)
        self._now_ms = now_ms
        self._random = random
        self._token: OAuthToken | None = None
        self._renewed_at_ms = 0
        self._waiting: list[Ready] = []
        self._failures = 0
        self._failure: Exception | None = None
        self._asked_again_ms = 0

    def __repr__(self) -> str:
        """Without the token."""
        return f"OAuthLogin({self._token})"

    def prepare(self, ready: Ready) -> None:
        """Calls `ready` when there is a token, at once if there is a fresh one."""
        if self._token is not None and self._now_ms() < self._renewed_at_ms:
            ready(None)
            return
        if self._failure is not None and self._now_ms() < self._asked_again_ms:
            ready(self._failure)
            return
        if len(self._waiting) >= MAX_WAITING:
            ready(RuntimeError(f"{MAX_WAITING} connections wait for a token"))
            return
        self._waiting.append(ready)
        if len(self._waiting) == 1:
            self._fetch(self._fetched)

    def _fetched(self, token: OAuthToken | None, error: BaseException | None) -> None:
        now_ms = self._now_ms()
        failure = error if error is None or isinstance(error, Exception) else RuntimeError(str(error))
        if token is not None:
            self._token, self._failures = token, 0
            self._renewed_at_ms = self._rule.renewed_at(token, now_ms, self._random.fraction())
        elif self._token is not None and now_ms < self._token.expires_ms:
            # The former one still serves; the next attempt is not at once.
            failure = None
            self._renewed_at_ms = min(now_ms + self._rule.min_period_ms, self._token.expires_ms)
        self._failure = failure
        if failure is not None:
            backoff_ms = self._rule.backoff_ms << min(self._failures, 16)
            self._asked_again_ms = now_ms + min(backoff_ms, self._rule.backoff_max_ms)
            self._failures += 1
        waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready(failure)

    def begin(self) -> ClientExchange:
        assert self._token is not None, "prepare comes first"
        return oauthbearer.OAuthClient(self._token, self._extensions)


def extensions_of(module: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions of a login module (KIP-342)."""
    return {
        name.removeprefix(prefix): value
        for name, value in module.items()
        for prefix in _EXTENSION_PREFIXES
        if name.startswith(prefix)
    }
