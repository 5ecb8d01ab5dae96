"""Running a collector in its own process: its loop and signals."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from barnabas.collect.collector import DRAIN_S, Collector

logger = logging.getLogger(__name__)

# A stop that takes longer than this is announced.
ANNOUNCE_AFTER_S = 1.0


def run_until_signalled(make: Callable[[], Awaitable[Collector]]) -> Collector:
    """Run the collector until its sources end, or SIGINT or SIGTERM: what was read is still delivered.

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

    def announce() -> None:
        if collector.lines_waiting and not running.done():
            logger.warning(
                "stopping when %d lines are written, after %d s at the latest; a second signal stops at once",
                collector.lines_waiting,
                DRAIN_S,
            )

    def signalled() -> None:
        if collector.is_stopped:
            running.cancel()
        else:
            collector.stop()
            # Usually everything is delivered in a moment, and there is nothing to announce.
            loop.call_later(ANNOUNCE_AFTER_S, announce)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)
    try:
        await running
    except asyncio.CancelledError:
        logger.warning(
            "%d lines are not written; those of files are sent at the next start", collector.lines_waiting
        )
        raise
    return collector
