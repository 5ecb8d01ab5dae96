"""Batches that Python writes (`foreachBatch`): how Spark is told that one has failed.

When a query is stopped within a batch, Spark looks for an interrupt in the text of Python's exception, with a
regular expression that goes a call deeper with every character after the words `JAVA_ERROR`
(StreamExecution.PROXY_ERROR).  One stack trace of Java is enough for a StackOverflowError: the query's thread
dies, and neither "Stopped" nor a reason is left behind.  So these words are said only before an interrupt.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Any

Write = Callable[[Any, int], None]

JAVA_ERROR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
_JAVA_ERROR = re.compile(re.escape(JAVA_ERROR) + r"(?: \S+\s*\n: )?")
# The exceptions that Spark takes for the end of a query that is stopped.
_INTERRUPT = re.compile(
    r"^: (java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException)\b",
    re.MULTILINE,
)
# The logger of py4j that prints the traceback of every function that Java has called.
PROXY_LOGGER = "py4j.clientserver"


class BatchError(Exception):
    """A batch has failed in Java; the text has all tracebacks."""


def told(text: str) -> str:
    """What Spark can read of a traceback in which Java's errors appear."""
    interrupt = _INTERRUPT.search(text)
    plain = _JAVA_ERROR.sub("Py4JJavaError: ", text).rstrip()
    return f"{plain}\n{JAVA_ERROR} it\n: {interrupt[1]}" if interrupt is not None else plain


def telling(write: Write) -> Write:
    """The same function, with errors of Java in words that Spark can read."""

    @wraps(write)
    def written(rows: Any, batch: int) -> None:
        try:
            write(rows, batch)
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            if JAVA_ERROR not in text:
                raise
            raise BatchError(told(text)) from None

    return written


def let_batches_tell(writer: Any) -> None:
    """Whatever function the stream writer is given for its batches, it is a telling one."""
    original = getattr(writer, "foreachBatch", None)
    if original is None:
        return
    vars(writer)["foreachBatch"] = lambda write: original(telling(write))
    logging.getLogger(PROXY_LOGGER).addFilter(_is_not_told)


def _is_not_told(record: logging.LogRecord) -> bool:
    """Whether nobody else says it: the reason of a batch is its query's, and its tracebacks are in Spark's
    log."""
    return not (record.exc_info and isinstance(record.exc_info[1], BatchError))
