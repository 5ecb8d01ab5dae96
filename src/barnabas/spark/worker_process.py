"""The Python processes in which Spark runs tasks, one after the other."""

from __future__ import annotations

import gc

_is_settled = False


def settle() -> None:
    """Take what is imported by now out of the garbage collector's sight, once in a process.

    Spark's workers collect all garbage after every task, before they take the next one.  To look each time at
    the objects of numpy, pandas and pyarrow, which never go, held up the tasks of small batches by 40 ms.
    """
    global _is_settled  # noqa: PLW0603 - a fact about the process
    if not _is_settled:
        gc.freeze()
        _is_settled = True
