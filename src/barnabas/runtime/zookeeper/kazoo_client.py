"""The client of a real ensemble, on kazoo.

kazoo is an extra: it is imported by the first `start`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.config.errors import ConfigError
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.zookeeper.options import ZooKeeperOptions, parse_connect
from barnabas.runtime.zookeeper.session import Session, SessionListener
from barnabas.runtime.zookeeper.session_client import SessionClient

if TYPE_CHECKING:
    from barnabas.runtime.zookeeper.kazoo_session import KazooSession


class KazooZooKeeperClient(SessionClient):
    """`post` runs an action on the loop's thread, whoever calls it."""

    def __init__(
        self,
        options: ZooKeeperOptions,
        *,
        post: Callable[[Callable[[], None]], None],
        timers: TimerService,
        clock: Clock,
    ) -> None:
        servers, _ = parse_connect(options.connect)

        def new_session(listener: SessionListener) -> Session:
            return kazoo_sessions()(servers, options.session_timeout_ms, listener, post, options.security)

        super().__init__(options, new_session, timers=timers, clock=clock)


def kazoo_sessions() -> type[KazooSession]:
    """The class; ConfigError if kazoo is not installed."""
    try:
        from barnabas.runtime.zookeeper.kazoo_session import KazooSession
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "kazoo":
            raise
        raise ConfigError(
            "ZooKeeper mode needs the Python package kazoo: pip install 'barnabas[zookeeper]'"
        ) from error
    return KazooSession
