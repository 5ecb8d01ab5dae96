"""Flags of Apache Kafka's tools that ours do not take, each with its reason: for the parsers and the docs."""

from __future__ import annotations

# A list that grows past this would mean that scripts no longer run unchanged.
MOST = 15

# Command and flag: why it is refused, and what to do instead.
REFUSED: dict[tuple[str, str], str] = {}


def reason_for(program: str, flag: str) -> str | None:
    """Why `barnabas COMMAND` refuses a flag; None if it is simply unknown."""
    return REFUSED.get((program.removeprefix("barnabas "), flag))
