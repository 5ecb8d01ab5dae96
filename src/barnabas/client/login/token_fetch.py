"""Runs a client's source of tokens: on a thread, or on the loop if it is a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

from barnabas.client.errors.base import ClientError
from barnabas.client.errors.cluster import SaslAuthenticationFailedError
from barnabas.client.login.oauth_login import Fetched
from barnabas.client.login.token_source import accept_token, read_source
from barnabas.config.node import oauth
from barnabas.config.settings import Settings
from barnabas.runtime.clock import SystemClock
from barnabas.security.oauth.jwt import OAuthToken


def fetch_of(settings: Settings, handler: object, module: Mapping[str, str]) -> Callable[[Fetched], None]:
    """`handler` is `sasl.login.callback.handler.class`: one of Apache Kafka's names, or a function of the
    program that returns a token."""
    now_ms = SystemClock().wall_ms
    if not callable(handler):
        source = read_source(settings, None if handler is None else str(handler), module, now_ms)
        return lambda fetched: _run(asyncio.to_thread(source), fetched)
    claims = (
        str(settings["sasl.oauthbearer.sub.claim.name"]),
        str(settings["sasl.oauthbearer.scope.claim.name"]),
    )
    function = cast("Callable[[], Any]", handler)

    async def ask() -> OAuthToken:
        if inspect.iscoroutinefunction(function):
            text = await function()
        else:
            text = await asyncio.to_thread(function)
        if not isinstance(text, str):
            raise SaslAuthenticationFailedError(
                f"{oauth.LOGIN_HANDLER} must return the token as a str, and returned {type(text).__name__}"
            )
        return accept_token(text, claims, now_ms())

    return lambda fetched: _run(ask(), fetched)


def _run(work: Any, fetched: Fetched) -> None:
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: _report(done, fetched))


def _report(task: asyncio.Future[OAuthToken], fetched: Fetched) -> None:
    if task.cancelled():
        fetched(None, SaslAuthenticationFailedError("the client was closed while it waited for a token"))
        return
    error = task.exception()
    if error is None:
        fetched(task.result(), None)
    elif isinstance(error, ClientError):
        fetched(None, error)
    else:
        failure = SaslAuthenticationFailedError(
            f"the token could not be had: {type(error).__name__}: {error}"
        )
        failure.__cause__ = error
        fetched(None, failure)
