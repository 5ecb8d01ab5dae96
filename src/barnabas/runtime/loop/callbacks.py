"""Calling everyone who asked to be called: one that fails is neither silent nor hurts the others.

What lives here: that rule.  What may not: who is called, and why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


def call_each(callbacks: Iterable[Callable[[], None]]) -> None:
    """Call all of them, in order; then raise the first error.  Further ones are logged."""
    first: Exception | None = None
    for callback in callbacks:
        try:
            callback()
        except Exception as error:
            if first is None:
                first = error
            else:
                logger.exception("one more callback failed after %r", first)
    if first is not None:
        raise first
