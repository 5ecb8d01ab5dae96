"""Text that a client gave, as it may stand in a line of the log.

What lives here: the one way to quote it.  A name may have thirty-two thousand characters, newlines among
them: written as it is, it would fill the disk, or forge lines that nobody logged.
"""

from __future__ import annotations

from collections.abc import Iterable

# Topic names have at most 249 characters.
LONGEST_SHOWN = 249
MOST_SHOWN = 10
# Of a whole line, whatever is in it.
LONGEST_LINE = 8_000


def shown(text: str | None, longest: int = LONGEST_SHOWN) -> str:
    """On one line and of bounded length: control characters are escaped, and what is cut off is counted."""
    if text is None:
        return "null"
    rest = len(text) - longest
    if rest > 0:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(one if one.isprintable() else _escaped(one) for one in text)
    return f"{text}... ({rest} more characters)" if rest > 0 else text


def shown_all(texts: Iterable[str]) -> str:
    """Several, separated by commas; of very many the first few."""
    known = list(texts)
    line = ", ".join(shown(text) for text in known[:MOST_SHOWN])
    more = len(known) - MOST_SHOWN
    return f"{line} and {more} more" if more > 0 else line


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
