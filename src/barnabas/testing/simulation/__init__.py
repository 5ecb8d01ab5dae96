"""Simulations: scenarios that run our code in seeded worlds and check it after every event.

    python -m barnabas.testing.simulation --seeds 1000

A scenario is a function that takes a `World`, builds nodes in it, runs it and raises when an invariant is
violated.  Put it in a module of `scenarios/` with `@scenario`, and the bugs it must find beside it with
`@planted`.
"""

from barnabas.testing.simulation.registry import planted, scenario

__all__ = ["planted", "scenario"]
