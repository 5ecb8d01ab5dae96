"""Waiting for a condition, with an error that says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from barnabas.runtime.loop.reactor_thread import wait_until
from barnabas.testing.kit.errors import WaitTimeoutError

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 10.0


def wait_for(
    condition: Callable[[], T],
    timeout: float = DEFAULT_TIMEOUT_S,
    *,
    what: str | None = None,
    why: Callable[[], str] | None = None,
) -> T:
    """Looks again and again until the condition returns something true, which is returned.

    An AssertionError that it raises means that it does not hold yet.  When the time is over, WaitTimeoutError
    says `what` is not as it should be, and `why`: by default, the last AssertionError or value.
    """
    last: T | None = None
    refusal: AssertionError | None = None

    def holds() -> bool:
        nonlocal last, refusal
        try:
            last, refusal = condition(), None
        except AssertionError as error:
            refusal = error
        return refusal is None and bool(last)

    if wait_until(holds, timeout):
        assert last is not None
        return last
    if why is not None:
        reason = why()
    else:
        reason = f"it returns {last!r}" if refusal is None else str(refusal) or "its assertion fails"
    failure = what or f"{getattr(condition, '__name__', 'the condition')} does not hold"
    raise WaitTimeoutError(f"{failure} after {timeout:g} s: {reason}") from refusal
