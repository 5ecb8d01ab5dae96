"""Promises of many operations, taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from barnabas.runtime.loop.promise import Promise

T = TypeVar("T")


def gather(promises: Sequence[Promise[T]]) -> Promise[list[T]]:
    """Completed with all values once all are there; fails with the first error, but only then."""
    together: Promise[list[T]] = Promise()
    left = len(promises)
    if not left:
        together.set([])
        return together

    def settled(_: object) -> None:
        nonlocal left
        left -= 1
        if left:
            return
        error = next((each.error for each in promises if each.error is not None), None)
        if error is not None:
            together.fail(error)
        else:
            together.set([each.value for each in promises])

    for promise in promises:
        promise.then(settled, settled)
    return together
