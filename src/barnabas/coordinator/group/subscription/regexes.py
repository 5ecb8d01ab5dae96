"""Subscription patterns, resolved by the coordinator (KIP-848).

A pattern is valid if RE2 accepts it, and matches the topics whose whole name it matches.  RE2 runs in time
linear in the length of the name, for any pattern.  Python's `re` does not: one member could block the broker
with a pattern.
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

# The minimum interval between resolutions of a group's patterns, even if patterns or topics change.
MIN_REFRESH_INTERVAL_MS = 10_000
# The maximum number of cached compiled patterns.
MAX_CACHED_PATTERNS = 1_000
# The memory limit for compiling one pattern.
MAX_PATTERN_BYTES = 8 * 1024 * 1024

# Whether the member may see a topic.
Sees = Callable[[str], bool]

# The messages of the RE2 library, and the equivalent ones in Apache Kafka.
_ERROR_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
# Matches a single byte; supported by RE2 for C++ but not by the Java library.
_MATCH_BYTE = "\\C"


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


@lru_cache(maxsize=MAX_CACHED_PATTERNS)
def compiled(pattern: str) -> Pattern:
    """Raises ValueError with the reason if the pattern is invalid."""
    # Imported lazily: few groups use patterns.
    import re2

    if _MATCH_BYTE in pattern.replace("\\\\", ""):
        raise ValueError("invalid escape sequence")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        compiled_pattern: Pattern = re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(_error_message(error.args[0])) from error
    return compiled_pattern


def _error_message(message: str | bytes) -> str:
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    reason = text.split(": ", 1)[0]
    return _ERROR_MESSAGES.get(reason, reason)


def check(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION if RE2 rejects the pattern."""
    try:
        compiled(pattern)
    except ValueError as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {error}.",
        ) from error


def resolve(patterns: Iterable[str], image: Image, sees: Sees, now_ms: int) -> dict[str, ResolvedRegex]:
    """The topics that match each pattern, limited to those that the member may see."""
    resolved = {}
    for pattern in patterns:
        try:
            matcher = compiled(pattern)
        except ValueError as error:
            logger.error("invalid pattern %r of a group matches no topics: %s", pattern, error)
            topics: Collection[str] = ()
        else:
            topics = [name for name in image.topic_ids if matcher.fullmatch(name)]
        visible = frozenset(name for name in topics if sees(name))
        resolved[pattern] = ResolvedRegex(visible, image.offset, now_ms)
    return resolved


def patterns_to_refresh(
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    *,
    now_ms: int,
    last_new_topics: int,
    refresh_interval_ms: int,
    is_new: bool,
) -> list[str]:
    """The patterns to resolve after `new` replaced `old`; empty if it is not due.

    `is_new`: no other member uses the member's pattern.  `last_new_topics`: the metadata log offset at which
    topics were last created.
    """
    if not is_new and not group.regexes:
        return []
    # All patterns of a group are resolved together, so any of them has the time of the last resolution.
    last = next(iter(group.resolved.values()), None)
    if last is not None and now_ms <= last.timestamp_ms + MIN_REFRESH_INTERVAL_MS:
        return []
    patterns = dict(group.regexes)
    count_one(patterns, old.regex, -1)
    count_one(patterns, new.regex, 1)
    is_due = (
        is_new
        or len(patterns) != len(group.resolved)
        or (last.version if last is not None else 0) < last_new_topics
        or last is None
        or now_ms > last.timestamp_ms + refresh_interval_ms
    )
    return list(patterns) if is_due else []
