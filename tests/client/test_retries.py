"""Deadlines, and trying again until one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import errors as client_errors
from barnabas.client.options import producer_options
from barnabas.client.retries import Deadline, Retries
from barnabas.runtime.random import SeededRandom

Run = Callable[[Any], Any]


def retries(**options: Any) -> Retries:
    return Retries(producer_options(None, {"bootstrap_servers": "a:1", **options}), SeededRandom(1))


class Attempts:
    """Fails this many times."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.made = 0

    async def __call__(self) -> str:
        self.made += 1
        if self.left:
            self.left -= 1
            raise client_errors.LeaderNotAvailableError("not yet")
        return "done"


def test_it_is_tried_until_it_works(run: Run) -> None:
    async def work() -> None:
        attempts = Attempts(3)
        assert await retries(retry_backoff_ms=1).until(Deadline(60_000), "it", attempts) == "done"
        assert attempts.made == 4

    run(work())


def test_so_many_retries_and_no_more(run: Run) -> None:
    async def work() -> None:
        attempts = Attempts(3)
        with pytest.raises(client_errors.LeaderNotAvailableError):
            await retries(retry_backoff_ms=1, retries=2).until(Deadline(60_000), "it", attempts)
        assert attempts.made == 3

    run(work())


def test_a_pause_beyond_the_deadline_is_not_waited_for(run: Run) -> None:
    async def work() -> None:
        attempts = Attempts(9)
        patient = retries(retry_backoff_ms=900_000, retry_backoff_max_ms=900_000)
        with pytest.raises(
            client_errors.KafkaTimeoutError, match=r"it did not complete within 600000 ms.*not yet"
        ):
            await patient.until(Deadline(600_000), "it", attempts)
        assert attempts.made == 1

    run(work())


def test_an_attempt_that_takes_too_long_is_ended(run: Run) -> None:
    import asyncio

    async def work() -> None:
        with pytest.raises(client_errors.KafkaTimeoutError, match="it did not complete within 20 ms"):
            await retries().until(Deadline(20), "it", asyncio.Event().wait)

    run(work())
