"""How a client protects its connections and logs in: `security.protocol`, `ssl.*` and `sasl.*`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.login.handshake import Login
from barnabas.config.errors import ConfigError
from barnabas.config.node.sasl_listeners import JAAS, has_sasl, has_tls
from barnabas.config.settings import Settings
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.random import Random

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls


class ClientSecurity:
    """What every connection of one client needs; files are read once, when the client is made."""

    def __init__(self, settings: Settings, random: Random) -> None:
        protocol = str(settings["security.protocol"]).upper()
        self.tls: Tls | None = _tls(settings) if has_tls(protocol) else None
        self.login: Login | None = None
        if has_sasl(protocol):
            self.login = _login(settings, random)


def _login(settings: Settings, random: Random) -> Login:
    # Clients that do not log in load nothing of it.
    from barnabas.config.node.oauth import MECHANISM
    from barnabas.security.sasl.client import read_login

    given = settings[JAAS]
    jaas = None if given is None else given.value
    if settings["sasl.mechanism"] == MECHANISM:
        return _oauth_login(settings, jaas, random)
    return read_login(settings["sasl.mechanism"], jaas, JAAS, random.bytes)


def _oauth_login(settings: Settings, jaas: str | None, random: Random) -> Login:
    # Clients without tokens do not load what these need.
    from barnabas.client.login.oauth_login import OAuthLogin, RefreshRule, extensions_of
    from barnabas.client.login.token_fetch import fetch_of
    from barnabas.config.node.oauth import LOGIN_HANDLER
    from barnabas.security.sasl.jaas import parse_jaas

    handler = settings[LOGIN_HANDLER]
    try:
        # A program that makes its tokens itself needs no login module.
        module = {} if jaas is None else parse_jaas(jaas).options
        fetch = fetch_of(settings, handler, module)
        return OAuthLogin(
            fetch, RefreshRule.read(settings), extensions_of(module), SystemClock().wall_ms, random
        )
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{JAAS}: {error}") from error


def _tls(settings: Settings) -> Tls:
    # Clients without TLS do not load OpenSSL for it.
    from barnabas.runtime.tls.context import Tls
    from barnabas.runtime.tls.options import read_tls_options

    return Tls(read_tls_options(settings), server=False)
