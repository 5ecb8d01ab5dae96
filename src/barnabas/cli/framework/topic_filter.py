"""The topics that a --topic flag matches: comma-separated regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.base.topic_names import is_internal
from barnabas.cli.framework.exits import UsageError


class TopicFilter:
    """Matches whole names; blanks, and quotes around the expression, are ignored."""

    def __init__(self, expression: str) -> None:
        plain = expression.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
        try:
            self._pattern = re.compile(plain)
        except re.error as error:
            raise UsageError(f"{plain} is an invalid regex. ({error})") from error

    def allows(self, name: str, *, exclude_internal: bool = False) -> bool:
        return self._pattern.fullmatch(name) is not None and not (exclude_internal and is_internal(name))


def matching_topics(names: Iterable[str], expression: str | None, *, exclude_internal: bool) -> list[str]:
    """The names that match the expression, sorted; all names without an expression."""
    chosen = TopicFilter(expression) if expression is not None else None
    return [
        name
        for name in sorted(names)
        if (chosen is None or chosen.allows(name)) and not (exclude_internal and is_internal(name))
    ]
