"""What the connections of one SASL listener share: its mechanisms and where their users are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from barnabas.config.errors import ConfigError
from barnabas.config.node.sasl_listeners import (
    MAX_RECEIVE,
    jaas_name,
    jaas_of,
    listener_value,
    max_session_ms,
    mechanisms_of,
)
from barnabas.config.settings import Settings
from barnabas.metadata.scram import ScramMechanism
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import Random
from barnabas.security.sasl import oauthbearer, plain
from barnabas.security.sasl.exchange import SaslExchange
from barnabas.security.sasl.jaas import parse_jaas
from barnabas.security.sasl.scram import Lookup, ScramExchange, TokenLookup, no_tokens

NONCE_BYTES = 20
_SCRAM = {mechanism.mechanism_name: mechanism for mechanism in ScramMechanism}


class LoginServices(NamedTuple):
    """What logins need of their node."""

    lookup: Lookup
    random: Random
    clock: Clock
    workers: WorkerPool
    # Delegation tokens (KIP-48).
    tokens: TokenLookup = no_tokens


class ListenerSasl:
    """The mechanisms of a listener, each with a way to begin an exchange."""

    def __init__(self, settings: Settings, listener: str, services: LoginServices) -> None:
        # Done when everything is there that logins need, or it is known that it is not.
        self.prepared: Promise[None] = Promise.of(None)
        self.wall_ms = services.clock.wall_ms
        self.max_receive_bytes: int = listener_value(settings, listener, MAX_RECEIVE)
        self.failure_delay_ms: int = settings["connection.failed.authentication.delay.ms"]
        self.max_session_ms: Mapping[str, int] = {
            name: max_session_ms(settings, listener, name) for name in mechanisms_of(settings, listener)
        }
        self.mechanisms: Mapping[str, Callable[[], SaslExchange]] = {
            name: self._exchange(settings, listener, name, services)
            for name in mechanisms_of(settings, listener)
        }

    def _exchange(
        self, settings: Settings, listener: str, mechanism: str, services: LoginServices
    ) -> Callable[[], SaslExchange]:
        if mechanism in _SCRAM:
            kind, lookup, tokens = _SCRAM[mechanism], services.lookup, services.tokens
            random = services.random
            return lambda: ScramExchange(kind, lookup, random.bytes(NONCE_BYTES).hex(), tokens)
        name = jaas_name(listener, mechanism)
        text = jaas_of(settings, listener, mechanism)
        if text is None:
            whose = "login module" if mechanism == oauthbearer.MECHANISM else "users"
            raise ConfigError(f"The {whose} of {mechanism} on the listener {listener} is missing; set {name}")
        try:
            options = parse_jaas(text).options
            if mechanism == oauthbearer.MECHANISM:
                return self._oauth_exchange(settings, listener, options, services)
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"{name}: {error}") from error
        return partial(plain.PlainExchange, plain.plain_users(options))

    def _oauth_exchange(
        self, settings: Settings, listener: str, options: Mapping[str, str], services: LoginServices
    ) -> Callable[[], SaslExchange]:
        # Nodes without tokens do not load what these need.
        from barnabas.broker.security.oauth_setup import token_validator

        clock = services.clock
        validator, self.prepared = token_validator(settings, listener, options, clock, services.workers)
        return lambda: oauthbearer.OAuthExchange(validator, clock.wall_ms)
