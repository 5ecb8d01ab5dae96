"""Text in a terminal: its width, and lines that end between words where it is too narrow.

A pipe or a file gets each line whole.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

from barnabas.cli.framework.exits import one_line

GAP = "  "
DEFAULT_WIDTH = 80
# Of a line behind an indentation, however narrow the terminal is.
LEAST_TEXT = 20


def terminal_width() -> int:
    """The width of the terminal; shutil has this too, and takes longer to import than a command to start."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    for stream in (sys.__stdout__, sys.__stderr__):
        try:
            columns = os.get_terminal_size(stream.fileno() if stream is not None else -1).columns
        except (OSError, ValueError):
            continue
        if columns > 0:
            return columns
    return DEFAULT_WIDTH


def filled(text: str, width: int, indent: str = "", below: str = "") -> str:
    """The words of a text on lines of this width; `below` begins those after the first."""
    if len(indent) + len(text) <= width:
        return indent + text
    import textwrap  # Only needed here.

    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=below,
        # So that a path or a command can be copied.
        break_long_words=False,
        break_on_hyphens=False,
    )


def folded(text: str, indent: str, stream: TextIO) -> str:
    """Text behind a mark such as `  do     `; on a terminal its further lines stand below its first."""
    if not stream.isatty():
        return indent + text
    width = max(terminal_width(), len(indent) + LEAST_TEXT)
    return filled(text, width, indent, " " * len(indent))


def tell(text: str) -> None:
    """A message on stderr."""
    line = one_line(text)
    print(filled(line, terminal_width(), below=GAP) if sys.stderr.isatty() else line, file=sys.stderr)


def broken_lines(parts: Sequence[str], stream: TextIO) -> str:
    """Parts of a line, with two spaces between; on a terminal where they do not fit, on more lines."""
    text = GAP.join(parts)
    if not stream.isatty() or len(text) <= terminal_width():
        return text
    lines = [parts[0]]
    for part in parts[1:]:
        longer = lines[-1] + GAP + part
        if len(longer) <= terminal_width():
            lines[-1] = longer
        else:
            lines.append(GAP + part)
    return "\n".join(lines)
