"""Handlers that answer in steps, for tests that call them without a dispatch."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from barnabas.broker.network.request_steps import RequestWork
from barnabas.runtime.loop.timers import Timers


def begun(answer: Any) -> Any:
    """What a handler gave: steps are taken, as far as they go, and their value comes back or its promise."""
    if not isinstance(answer, GeneratorType):
        return answer
    # Time stands still: the first slice does not end.
    later, _ = RequestWork(Timers(), lambda: 0).start(answer)
    if not later.done:
        return later
    outcome: list[Any] = []
    later.then(outcome.append, _raise)
    return outcome[0]


def _raise(error: BaseException) -> None:
    raise error
