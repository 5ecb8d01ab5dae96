"""`given_seeds`: a test that runs once for each seed, in a virtual world of its own."""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.testing.simulation.applications.world import ApplicationWorld

# Plays one seed again.
SEED_VARIABLE = "BARNABAS_SEED"


def given_seeds(count: int, *, first: int = 0, brokers: int = 1) -> Callable[[Callable[..., Any]], Any]:
    """Runs a coroutine function with the worlds of so many seeds, until one fails.

        @given_seeds(200)
        async def test_every_order_is_processed(world):
            await world.create_topic("orders")
            world.start("worker", worker)
            ...

    The error names the seed; with BARNABAS_SEED=N in the environment only that one is played, the same again.
    """

    def decorate(test: Callable[[ApplicationWorld], Awaitable[Any]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            given = os.environ.get(SEED_VARIABLE)
            seeds = range(first, first + count) if given is None else [int(given)]
            for seed in seeds:
                play(test, seed, brokers=brokers)

        # pytest must not take the world for a fixture.
        del run.__wrapped__
        return run

    return decorate


def play(
    test: Callable[[ApplicationWorld], Awaitable[Any]], seed: int, *, brokers: int = 1
) -> ApplicationWorld:
    """One seed; its error gets a note with the seed and how to play it again."""
    world = ApplicationWorld(seed, brokers=brokers)
    try:
        world.run(test)
    except Exception as error:
        error.add_note(f"seed {seed} fails; to play it again: {SEED_VARIABLE}={seed} pytest …")
        raise
    return world
