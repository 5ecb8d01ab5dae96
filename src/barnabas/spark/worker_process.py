"""The Python processes in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc

_is_settled = False


def settle() -> None:
    """Exclude the current objects from garbage collection, once per process.

    Spark's workers collect all garbage after every task, before they accept the next one.  Scanning the
    permanent objects of numpy, pandas and pyarrow each time delayed the tasks of small batches by 40 ms.
    """
    global _is_settled  # noqa: PLW0603 - a fact about the process
    if not _is_settled:
        gc.freeze()
        _is_settled = True
