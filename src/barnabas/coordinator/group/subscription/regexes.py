"""Subscription patterns, resolved by the coordinator (KIP-848).

What lives here: the syntax of RE2, resolving patterns, and when a group's have to be resolved again.  What
may not: who may see which topic, which the one who asks brings along.

A pattern is valid if RE2 takes it, and stands for the topics whose whole name it matches.  RE2 takes time
linear in the name's length whatever the pattern is.  Python's own `re` does not: a member could stop the
broker with one pattern.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from typing import Protocol

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.subscription.subscription import count_one
from barnabas.metadata.image import Image

logger = logging.getLogger(__name__)

# Patterns of a group are not resolved more often than this, however often they or the topics change.
MIN_REFRESH_INTERVAL_MS = 10_000
# Compiled patterns that are kept.
MAX_COMPILED = 1_000
# What compiling one pattern may take.
MAX_PATTERN_BYTES = 8 * 1024 * 1024

# Whether the member that asks may know of a topic.
Sees = Callable[[str], bool]

# What RE2's library says, and how Apache Kafka's says the same.
_FAULTS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
# RE2's library for C++ has it, that for Java has not: one byte, not one character.
_ONE_BYTE = "\\C"


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@lru_cache(maxsize=MAX_COMPILED)
def compiled(pattern: str) -> Pattern:
    """ValueError with what is wrong."""
    # Few groups use patterns: those that do not need not pay for the library.
    import re2

    if _ONE_BYTE in pattern.replace("\\\\", ""):
        raise ValueError("invalid escape sequence")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        found: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(_fault(error.args[0])) from error
    return found


def _fault(told: str | bytes) -> str:
    text = told.decode("utf-8", "replace") if isinstance(told, bytes) else told
    reason = text.split(": ", 1)[0]
    return _FAULTS.get(reason, reason)


def check(pattern: str) -> None:
    """INVALID_REGULAR_EXPRESSION unless RE2 takes it."""
    try:
        compiled(pattern)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from error


def resolve(patterns: Iterable[str], image: Image, sees: Sees, now_ms: int) -> dict[str, ResolvedRegex]:
    """The topics of each pattern, as far as the one who asks may see them."""
    resolved = {}
    for pattern in patterns:
        try:
            matcher = compiled(pattern)
        except ValueError as error:
            logger.error("the pattern %r of a group matches nothing: %s", pattern, error)
            topics: Collection[str] = ()
        else:
            topics = [name for name in image.topic_ids if matcher.fullmatch(name)]
        seen = frozenset(name for name in topics if sees(name))
        resolved[pattern] = ResolvedRegex(seen, image.offset, now_ms)
    return resolved


def to_refresh(
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    *,
    now_ms: int,
    last_new_topics: int,
    refresh_interval_ms: int,
    is_new: bool,
) -> list[str]:
    """The patterns to resolve now that `new` is in the place of `old`; none if it is not yet time.

    `is_new`: nobody else uses the member's pattern.  `last_new_topics`: the offset of the metadata log at
    which topics were created last.
    """
    if not is_new and not group.regexes:
        return []
    # All patterns of a group are resolved together: any of them tells when that was.
    last = next(iter(group.resolved.values()), None)
    if last is not None and now_ms <= last.timestamp_ms + MIN_REFRESH_INTERVAL_MS:
        return []
    patterns = dict(group.regexes)
    count_one(patterns, old.regex, -1)
    count_one(patterns, new.regex, 1)
    is_wanted = (
        is_new
        or len(patterns) != len(group.resolved)
        or (last.version if last is not None else 0) < last_new_topics
        or last is None
        or now_ms > last.timestamp_ms + refresh_interval_ms
    )
    return list(patterns) if is_wanted else []
