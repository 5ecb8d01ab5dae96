"""Starting queries on slow machines.

Spark gives a Python worker ten seconds to connect, which cannot be configured.  A query starts several
workers; many queries at once on two cores take longer than that.  So they start one after another, and one
that failed for this reason alone is restarted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TOO_SLOW = "Python worker failed to connect back"
ATTEMPTS = 4
# After this time the next query starts even if this one has not completed its first batch.
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.2


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query and wait for its first batch, or until it waits for rows; callers handle failed
    queries."""
    for _ in range(ATTEMPTS - 1):
        query = start()
        _wait_for_first_batch(query)
        failure = query.exception()
        if failure is None or TOO_SLOW not in str(failure):
            return query
    return start()


def _wait_for_first_batch(query: StreamingQuery) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while query.isActive and query.lastProgress is None and time.monotonic() < end_s:
        if str(query.status["message"]).startswith("Waiting for"):
            return
        time.sleep(LOOK_EVERY_S)
