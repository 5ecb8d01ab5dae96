"""Deadlines, and retries until one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from barnabas.client.errors.base import RetriableError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.pool import backoff_s
from barnabas.config.settings import Settings
from barnabas.runtime.random import Random

T = TypeVar("T")


class Deadline:
    """A point in time on the loop's clock."""

    __slots__ = ("_at", "_loop", "timeout_ms")

    def __init__(self, timeout_ms: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout_ms = timeout_ms
        self._at = self._loop.time() + timeout_ms / 1000

    @property
    def left_ms(self) -> int:
        return max(0, int((self._at - self._loop.time()) * 1000))

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - self._loop.time())

    @property
    def passed(self) -> bool:
        return self._loop.time() >= self._at


class Retries:
    """The number of retries and the backoff between them (KIP-580)."""

    def __init__(self, settings: Settings, random: Random) -> None:
        self._first_ms: int = settings["retry.backoff.ms"]
        self._most_ms: int = settings["retry.backoff.max.ms"]
        self._most: int = settings.get("retries", 2**31 - 1)
        self._random = random

    def pause_s(self, failures: int) -> float:
        return backoff_s(self._first_ms, self._most_ms, failures, self._random)

    async def until(self, deadline: Deadline, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Return the first success; raises KafkaTimeoutError, with the last error, at the deadline."""
        failures = 0
        last: RetriableError | None = None
        while True:
            try:
                async with asyncio.timeout(deadline.left_s):
                    return await attempt()
            except RetriableError as error:
                last = error
            except TimeoutError:
                raise _too_late(deadline, operation, last) from last
            await self.wait_or_give_up(deadline, operation, failures, last)
            failures += 1

    async def wait_or_give_up(
        self, deadline: Deadline, operation: str, failures: int, error: RetriableError
    ) -> None:
        """Back off before the next attempt, if there is one."""
        pause_s = self.pause_s(failures)
        if failures >= self._most:
            raise error
        if pause_s >= deadline.left_s:
            raise _too_late(deadline, operation, error) from error
        await asyncio.sleep(pause_s)


def _too_late(deadline: Deadline, operation: str, error: Exception | None) -> KafkaTimeoutError:
    why = "" if error is None else f": {error}"
    return KafkaTimeoutError(f"{operation} did not complete within {deadline.timeout_ms:.0f} ms{why}")
