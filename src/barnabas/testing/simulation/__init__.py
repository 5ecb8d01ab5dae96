"""Simulations: scenarios that run our code in seeded worlds and check it after every event.

    python -m barnabas.testing.simulation --seeds 1000

A scenario is a function that takes a `World`, builds nodes in it, runs it and raises when an invariant is
violated.  Put it in a module of `scenarios/` with `@scenario`, and the bugs it must find beside it with
`@planted`.

Tests of applications run in such worlds with `@given_seeds`.
"""

from typing import TYPE_CHECKING, Any

from barnabas.testing.simulation.registry import planted, scenario

if TYPE_CHECKING:
    from barnabas.testing.simulation.applications.seeds import given_seeds
    from barnabas.testing.simulation.applications.world import ApplicationWorld

__all__ = ["ApplicationWorld", "given_seeds", "planted", "scenario"]


def __getattr__(name: str) -> Any:
    """Imported on first use: scenarios need none of it."""
    if name == "given_seeds":
        from barnabas.testing.simulation.applications.seeds import given_seeds

        return given_seeds
    if name == "ApplicationWorld":
        from barnabas.testing.simulation.applications.world import ApplicationWorld

        return ApplicationWorld
    raise AttributeError(f"barnabas.testing.simulation has no {name}")
