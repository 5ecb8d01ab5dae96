"""Errors that the code under test logs while a scenario runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.metadata_cluster.server import Violations, is_disk_error


class _LoggedErrors(logging.Handler):
    """An exception that the code under test logs and survives is a fault, unless the disk caused it."""

    def __init__(self, violations: Violations) -> None:
        super().__init__(logging.ERROR)
        self._violations = violations

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not is_disk_error(error) and not is_disk_error(error.__cause__ or error):
            self._violations.violated(InvariantError(f"{record.getMessage()}: {error!r}"))


@contextmanager
def logged_errors(violations: Violations) -> Iterator[None]:
    logger, handler = logging.getLogger("barnabas"), _LoggedErrors(violations)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
