"""Client-supplied text, quoted for a log line.

A name may have 32,767 characters, newlines among them: written unquoted, it could fill the disk or forge log
lines.
"""

from __future__ import annotations

from collections.abc import Iterable

# Topic names have at most 249 characters.
LONGEST_SHOWN = 249
MOST_SHOWN = 10
# Limit for a whole log line.
LONGEST_LINE = 8_000


def shown(text: str | None, longest: int = LONGEST_SHOWN) -> str:
    """On one line and of bounded length: escapes control characters, and counts the characters cut off."""
    if text is None:
        return "null"
    excess = len(text) - longest
    if excess > 0:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(character if character.isprintable() else _escaped(character) for character in text)
    return f"{text}... ({excess} more characters)" if excess > 0 else text


def shown_all(texts: Iterable[str]) -> str:
    """Several texts separated by commas; only the first few if there are many."""
    listed = list(texts)
    line = ", ".join(shown(text) for text in listed[:MOST_SHOWN])
    excess = len(listed) - MOST_SHOWN
    return f"{line} and {excess} more" if excess > 0 else line


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
