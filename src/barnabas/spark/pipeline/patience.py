"""Starting queries where a machine is slow.

Spark gives a Python worker ten seconds from its start to its first word, and no setting changes that.  A
query starts several; many queries at once on two cores take longer than that.  So they start one after
another, and one that failed for this reason alone starts again.

What lives here: waiting, and trying again.  What may not: what a query is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

TOO_SLOW = "Python worker failed to connect back"
ATTEMPTS = 4
# A query that has not done its first batch by then lets the next one start beside it.
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.2


def started(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has done its first batch, or waits for rows; failed queries are for others to look at."""
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
