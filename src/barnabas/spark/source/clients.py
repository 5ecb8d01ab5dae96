"""The clients of a Spark process: one loop, and one connection pool per set of `kafka.` options.

A worker process of Spark runs many tasks, one after the other; connecting for each would cost more than a
small micro-batch.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.options import consumer_options
from barnabas.config import ADMIN
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.runtime.loop.loop_thread import LoopThread
from barnabas.spark.given_options import OptionError

T = TypeVar("T")

# The maximum number of option sets with open connections; the oldest is evicted.
MAX_CLUSTERS = 8


class _Shared:
    """The clients of this process: a fork has its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = LoopThread("barnabas-spark")
        self.clusters: dict[tuple[tuple[str, str], ...], tuple[Settings, Cluster]] = {}


_shared: _Shared | None = None


def _process_clients() -> _Shared:
    global _shared  # noqa: PLW0603 - one per process is its purpose
    if _shared is None or _shared.pid != os.getpid():
        _shared = _Shared()
    return _shared


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for a coroutine on the process's loop."""
    return _process_clients().loop.run(work)


def submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Start a coroutine on the process's loop."""
    return _process_clients().loop.submit(work)


def cluster_for(client: Mapping[str, str]) -> tuple[Settings, Cluster]:
    """Return the settings and the connections for these options."""
    here = _process_clients()
    key = tuple(sorted(client.items()))
    if key not in here.clusters:
        if len(here.clusters) >= MAX_CLUSTERS:
            _, oldest = here.clusters.pop(next(iter(here.clusters)))
            here.loop.run(oldest.close())
        settings = consumer_settings(client)

        async def made() -> Cluster:
            return Cluster(settings)

        here.clusters[key] = (settings, here.loop.run(made()))
    return here.clusters[key]


def consumer_settings(client: Mapping[str, str]) -> Settings:
    """Parse the `kafka.` options as a consumer's; an error names the option."""
    try:
        return consumer_options(dict(client), {})
    except ConfigError as error:
        raise OptionError(f"option kafka.*: {error}") from None


def new_admin(client: Mapping[str, str]) -> Admin:
    """Return an admin client with the options that it has; must be called on the loop."""
    known = ADMIN.options()
    return Admin({name: value for name, value in client.items() if name in known})
