"""An executor on a reactor, for a core that has a process of its own."""

from __future__ import annotations

import sys

from barnabas.base.effects import Core
from barnabas.runtime.loop.executor import Executor, Exits, Store
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers


def executor_on(reactor: Reactor, core: Core, store: Store, exits: Exits) -> Executor:
    """The store is synced on another thread.  If it fails, the process ends with that as its message."""
    return Executor(
        core,
        clock=reactor.clock,
        timers=reactor.timers,
        store=store,
        workers=LoopWorkers(ThreadWorkers(), reactor.post),
        exits=exits,
        on_failure=lambda error: sys.exit(str(error)),
    )
