"""Error summaries in one line, from Spark's long texts and from user functions."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import barnabas
from barnabas.spark.pipeline.definition import PipelineError

TRACEBACK = "Traceback (most recent call last):"
# Spark's line of a query that ended by an error without a message.
_SAYS_NOTHING = re.compile(r"terminated with exception:\s*(SQLSTATE: \w+)?\s*(\(no cause message\))?$")
_OURS = str(Path(barnabas.__file__).parent)


def reason(failure: BaseException) -> str:
    """Return the line of a Spark error that says why: the end of its last traceback, if it has one; or the
    name of a Java error that says nothing, such as a StackOverflowError."""
    raw = str(failure).splitlines()
    lines = [line.strip() for line in raw if line.strip()]
    ends = list(_ends_of_tracebacks(raw))
    causes = ends or [line for line in lines if "Error: " in line and not line.startswith(("at ", "File "))]
    said = (causes or lines or [repr(failure)])[-1 if causes else 0]
    cause = getattr(failure, "_cause", None) if _SAYS_NOTHING.search(said) else None
    return reason(cause) if cause is not None else said


def _ends_of_tracebacks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the first lines after the indented ones; errors of any class may appear there."""
    is_within = False
    for line in lines:
        if TRACEBACK in line:
            is_within = True
        elif is_within and line.strip() and not line[0].isspace():
            is_within = False
            yield line.strip()


def java_reason(failure: BaseException) -> str:
    """Return Java's message, without its stack trace."""
    said = str(getattr(failure, "java_exception", failure)).splitlines()
    return said[0].strip() if said else repr(failure)


def fault_of(function: Callable[..., Any], error: Exception) -> str:
    """Describe an error in a user's function, with the line that caused it."""
    if isinstance(error, PipelineError):
        return str(error)
    # Java's message follows a line that only says that Java was called.
    is_java = hasattr(error, "java_exception")
    said = java_reason(error) if is_java else f"{type(error).__name__}: {error}".splitlines()[0]
    place = _place(function, error)
    return f"{place}: {said}" if place else said


def _place(function: Callable[..., Any], error: Exception) -> str:
    """Return the last line in the function's own file, or else in any file that is neither ours nor
    Spark's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(function, "__code__", None), "co_filename", "")
    own_frames = [frame for frame in frames if frame.filename == own and not own.startswith(_OURS)]
    own_frames = own_frames or [frame for frame in frames if not _is_library(frame.filename)]
    return f"{own_frames[-1].filename}:{own_frames[-1].lineno}" if own_frames else ""


def _is_library(file: str) -> bool:
    return file.startswith((_OURS, "<")) or not {"pyspark", "py4j", "site-packages"}.isdisjoint(
        Path(file).parts
    )
