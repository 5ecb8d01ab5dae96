"""OAUTHBEARER on a node: which tokens a listener accepts, the issuer's keys, and the node's own tokens.

Whatever blocks (a file, a request to the issuer) runs on a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client.login.oauth_login import Fetched, OAuthLogin, RefreshRule, extensions_of
from barnabas.client.login.token_source import TokenSource, read_source, read_timeouts, read_trusted
from barnabas.config.errors import ConfigError
from barnabas.config.node import oauth
from barnabas.config.node.sasl_listeners import listener_value
from barnabas.config.settings import Settings
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.network.web_call import MAX_RESPONSE_BYTES, java_property, web_call
from barnabas.runtime.random import Random
from barnabas.security.oauth.jwt import TokenError
from barnabas.security.oauth.validators import ClaimRules, SignedValidator, TokenValidator, UnsecuredValidator

if TYPE_CHECKING:
    from barnabas.security.oauth.keys import SigningKey

logger = logging.getLogger(__name__)


class IssuerKeys:
    """The keys of an issuer: read at the start, after a while, and when a token names an unknown one."""

    def __init__(
        self,
        read: Callable[[], tuple[SigningKey, ...]],
        place: str,
        *,
        refresh_ms: int,
        backoff_ms: int,
        backoff_max_ms: int,
        workers: WorkerPool,
    ) -> None:
        self._read = read
        self._place = place
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = max(backoff_ms, backoff_max_ms)
        self._workers = workers
        self._keys: tuple[SigningKey, ...] = ()
        self._failures = 0
        self._is_reading = False
        # When they were asked for the last time.
        self._asked_ms: int | None = None
        self.first: Promise[None] = Promise()

    def current(self, now_ms: int) -> tuple[SigningKey, ...]:
        """The keys as they are known; whether there are new ones is found out meanwhile."""
        if self._asked_ms is None or now_ms - self._asked_ms >= self._refresh_ms:
            self.look(now_ms)
        return self._keys

    def failed(self, error: TokenError, now_ms: int) -> None:
        """A token was refused: perhaps for a key that is new."""
        from barnabas.security.oauth.keys import UnknownKeyError

        if isinstance(error, UnknownKeyError):
            self.look(now_ms)

    def look(self, now_ms: int) -> None:
        """Reads them again, but not too often: a stranger can name as many keys as it likes."""
        wait_ms = min(self._backoff_ms << min(self._failures, 16), self._backoff_max_ms)
        if self._keys:
            wait_ms = self._backoff_max_ms
        if self._is_reading or (self._asked_ms is not None and 0 <= now_ms - self._asked_ms < wait_ms):
            return
        self._is_reading, self._asked_ms = True, now_ms
        self._workers.submit(self._read, self._took)

    def _took(self, keys: object, error: BaseException | None) -> None:
        self._is_reading = False
        if error is None:
            self._failures = 0
            self._keys = keys  # type: ignore[assignment]
        else:
            self._failures += 1
            logger.error("the keys of the issuer (%s) could not be read: %s", self._place, error)
        if not self.first.done:
            self.first.set(None)


def _reader(
    place: str, path: str | None, settings: Settings, module: Mapping[str, str]
) -> Callable[[], object]:
    from barnabas.security.oauth.keys import read_keys

    timeouts, trusted = read_timeouts(settings), read_trusted(module)

    def read() -> tuple[SigningKey, ...]:
        if path is None:
            return read_keys(web_call(place, timeouts=timeouts, trusted=trusted))
        with Path(path).open("rb") as file:
            return read_keys(file.read(MAX_RESPONSE_BYTES))

    return read


def token_validator(
    settings: Settings, listener: str, module: Mapping[str, str], clock: Clock, workers: WorkerPool
) -> tuple[TokenValidator, Promise[None]]:
    """What a listener accepts, and a promise that is done when its keys were read, or could not be."""
    url = listener_value(settings, listener, oauth.JWKS_URL)
    handler = oauth.handler_of(settings, listener, oauth.SERVER_HANDLER)
    if handler == oauth.UNSECURED_HANDLER or (handler is None and url is None):
        logger.warning(
            "the listener %s accepts tokens without a signature: whoever reaches it may be anybody. Set %s",
            listener,
            oauth.JWKS_URL,
        )
        return UnsecuredValidator(module), Promise.of(None)
    if url is None:
        raise ConfigError(f"{oauth.JWKS_URL} is missing: it says where the keys of the issuer are")
    path = oauth.file_of(url, oauth.JWKS_URL)
    if path is None:
        oauth.check_url(url, oauth.allowed_urls(settings, java_property), oauth.JWKS_URL)
    try:
        from barnabas.security.oauth.keys import check_signature
    except ImportError as error:
        raise ConfigError(
            "signatures of tokens need the package cryptography: pip install 'barnabas[security]'"
        ) from error
    read = _reader(url, path, settings, module)
    if path is not None:
        # A file that is missing or damaged is told at the start.
        try:
            read()
        except (OSError, TokenError) as error:
            raise ConfigError(f"{oauth.JWKS_URL} ({url}): {error}") from error
    keys = IssuerKeys(
        read,  # type: ignore[arg-type]
        url,
        refresh_ms=settings["sasl.oauthbearer.jwks.endpoint.refresh.ms"],
        backoff_ms=settings["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"],
        backoff_max_ms=settings["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"],
        workers=workers,
    )
    keys.look(clock.wall_ms())
    rules = ClaimRules(
        listener_value(settings, listener, "sasl.oauthbearer.expected.issuer"),
        tuple(listener_value(settings, listener, "sasl.oauthbearer.expected.audience") or ()),
        listener_value(settings, listener, "sasl.oauthbearer.clock.skew.seconds"),
        listener_value(settings, listener, "sasl.oauthbearer.sub.claim.name"),
        listener_value(settings, listener, "sasl.oauthbearer.scope.claim.name"),
    )
    return SignedValidator(rules, check_signature, keys.current, keys.failed), keys.first


def node_login(
    settings: Settings,
    listener: str,
    module: Mapping[str, str],
    clock: Clock,
    workers: WorkerPool,
    random: Random,
) -> OAuthLogin:
    """How a node gets the token with which it logs in to others."""
    handler = oauth.handler_of(settings, listener, oauth.LOGIN_HANDLER)
    source = read_source(settings, handler, module, clock.wall_ms)
    fetch = partial(_on_worker, workers, source)
    return OAuthLogin(fetch, RefreshRule.read(settings), extensions_of(module), clock.wall_ms, random)


def _on_worker(workers: WorkerPool, source: TokenSource, fetched: Fetched) -> None:
    workers.submit(source, fetched)  # type: ignore[arg-type]
