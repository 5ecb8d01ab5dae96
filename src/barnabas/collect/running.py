"""Running a collector in a process of its own.

What lives here: its loop, and signals.  What may not: what it collects.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

from barnabas.collect.collector import Collector


def run_until_signalled(make: Callable[[], Awaitable[Collector]]) -> Collector:
    """Run the collector until its sources end, or SIGINT or SIGTERM: what was read is written then, too."""
    return asyncio.run(_run(make))


async def _run(make: Callable[[], Awaitable[Collector]]) -> Collector:
    loop = asyncio.get_running_loop()
    collector = await make()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, collector.stop)
    await collector.run()
    return collector
