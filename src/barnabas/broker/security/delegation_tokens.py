"""Delegation tokens on a broker (KIP-48): who may ask for them, what is shown of them, and logins by them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.base.principals import ANONYMOUS
from barnabas.broker.network.request_context import RequestContext
from barnabas.config.option import Mode
from barnabas.config.settings import Settings
from barnabas.metadata.image import Image
from barnabas.metadata.scram import SALT_BYTES, ScramMechanism
from barnabas.protocol.records.metadata import DelegationTokenRecord, UserScramCredentialRecord
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.random import Random
from barnabas.security.delegation_tokens import is_over, token_hmac, token_keys
from barnabas.security.sasl.scram import TokenCredential

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

logger = logging.getLogger(__name__)

SECRET_KEY = "delegation.token.secret.key"
# The timestamps of an error response.
ERROR_TIMESTAMP_MS = -1
# A worker derives the keys of so many tokens in one call.
_TOKENS_PER_CALL = 50

_Key = tuple[ScramMechanism, str]


def secret_of(settings: Settings) -> bytes | None:
    """The key that signs tokens; None if they are not enabled, or in ZooKeeper mode."""
    given = settings[SECRET_KEY]
    if given is None or not given.value or settings.mode is Mode.ZOOKEEPER:
        return None
    return str(given.value).encode()


def may_ask(broker: Broker, context: RequestContext) -> bool:
    """Only who has logged in by other means than a token may do anything with tokens."""
    protocol = broker.node.listeners.protocols.get(context.listener, "PLAINTEXT")
    if context.by_token or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or context.principal != ANONYMOUS


def is_unbuilt(broker: Broker) -> bool:
    """In ZooKeeper mode there are no tokens; in KRaft mode the controller decides."""
    return broker.node.mode is Mode.ZOOKEEPER


def refusal_of(broker: Broker, context: RequestContext) -> ErrorCode | None:
    """The error of a request that this broker does not pass on."""
    if not may_ask(broker, context):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if broker.security.tokens.secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return None


class BrokerTokens:
    """The tokens of the image, with the keys by which they log in; workers derive those as tokens appear."""

    def __init__(self, settings: Settings, random: Random, clock: Clock, workers: WorkerPool) -> None:
        self.secret = secret_of(settings)
        self._random = random
        self._clock = clock
        self._workers = workers
        self._tokens: Mapping[str, DelegationTokenRecord] = {}
        self._keys: dict[_Key, UserScramCredentialRecord] = {}
        self._mechanisms: tuple[ScramMechanism, ...] = ()

    def serve(self, mechanisms: frozenset[str]) -> None:
        """The mechanisms of the listeners, for which there must be keys."""
        self._mechanisms = tuple(each for each in ScramMechanism if each.mechanism_name in mechanisms)

    def take(self, image: Image) -> None:
        """Called with each committed image."""
        if self.secret is None or image.tokens is self._tokens:
            return
        before, self._tokens = self._tokens, image.tokens
        for token_id in before:
            if token_id not in image.tokens:
                for mechanism in ScramMechanism:
                    self._keys.pop((mechanism, token_id), None)
        missing = [token_id for token_id in image.tokens if token_id not in before]
        for start in range(0, len(missing), _TOKENS_PER_CALL):
            self._derive(missing[start : start + _TOKENS_PER_CALL])

    def hmac_of(self, token_id: str) -> bytes:
        assert self.secret is not None, "tokens are shown where they are enabled"
        return token_hmac(self.secret, token_id)

    def credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """The keys of a token that is not over."""
        token = self._tokens.get(token_id)
        if token is None or self.secret is None or is_over(token, self._clock.wall_ms()):
            return None
        keys = self._keys.get((mechanism, token_id))
        if keys is None:
            # A client is faster than the worker.
            keys = token_keys(self.secret, token_id, mechanism, self._random.bytes(SALT_BYTES))
            self._keys[mechanism, token_id] = keys
        _, _, owner = token.owner.partition(":")
        return TokenCredential(keys, owner, min(token.expiration_timestamp, token.max_timestamp))

    def _derive(self, token_ids: list[str]) -> None:
        assert self.secret is not None, "checked before"
        wanted = [
            (mechanism, token_id, self._random.bytes(SALT_BYTES))
            for token_id in token_ids
            for mechanism in self._mechanisms
        ]
        if wanted:
            self._workers.submit(partial(_keys_of, self.secret, wanted), self._derived)

    def _derived(self, keys: object, error: BaseException | None) -> None:
        if error is not None:
            logger.warning("keys of delegation tokens are derived when they are needed: %s", error)
            return
        assert isinstance(keys, dict), "the worker returns the keys"
        for key, record in keys.items():
            if key[1] in self._tokens:
                self._keys.setdefault(key, record)


def _keys_of(
    secret: bytes, wanted: list[tuple[ScramMechanism, str, bytes]]
) -> dict[_Key, UserScramCredentialRecord]:
    return {
        (mechanism, token_id): token_keys(secret, token_id, mechanism, salt)
        for mechanism, token_id, salt in wanted
    }
