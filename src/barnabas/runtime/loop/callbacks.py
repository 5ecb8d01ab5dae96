"""Calls callbacks so that one that fails neither goes unnoticed nor affects the others."""

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
