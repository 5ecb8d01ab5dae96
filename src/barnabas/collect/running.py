"""Running a collector in a process of its own.

What lives here: its loop, and signals.  What may not: what it collects.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from barnabas.collect.collector import DRAIN_S, Collector

logger = logging.getLogger(__name__)

# How long a stop may take without a word.
TELL_AFTER_S = 1.0


def run_until_signalled(make: Callable[[], Awaitable[Collector]]) -> Collector:
    """Run the collector until its sources end, or SIGINT or SIGTERM: what was read is written then, too.

    A second signal ends it at once (KeyboardInterrupt).
    """
    try:
        return asyncio.run(_run(make))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run(make: Callable[[], Awaitable[Collector]]) -> Collector:
    loop = asyncio.get_running_loop()
    collector = await make()
    running = asyncio.ensure_future(collector.run())

    def tell() -> None:
        if collector.lines_waiting and not running.done():
            logger.warning(
                "stopping when %d lines are written, after %d s at the latest; once more stops at once",
                collector.lines_waiting,
                DRAIN_S,
            )

    def heard() -> None:
        if collector.is_stopped:
            running.cancel()
        else:
            collector.stop()
            # Most often all is written in a moment, and there is nothing to tell.
            loop.call_later(TELL_AFTER_S, tell)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, heard)
    try:
        await running
    except asyncio.CancelledError:
        logger.warning(
            "%d lines are not written; those of files are sent at the next start", collector.lines_waiting
        )
        raise
    return collector
