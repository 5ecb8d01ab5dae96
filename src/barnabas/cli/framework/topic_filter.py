"""Which topics a --topic flag means: a regular expression, or several with commas between."""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.base.topic_names import is_internal
from barnabas.cli.framework.exits import UsageError


class TopicFilter:
    """Lets names through that match as a whole; blanks and quotes around the expression do not count."""

    def __init__(self, expression: str) -> None:
        plain = expression.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
        try:
            self._pattern = re.compile(plain)
        except re.error as error:
            raise UsageError(f"{plain} is an invalid regex. ({error})") from error

    def allows(self, name: str, *, exclude_internal: bool = False) -> bool:
        return self._pattern.fullmatch(name) is not None and not (exclude_internal and is_internal(name))


def matching_topics(names: Iterable[str], expression: str | None, *, exclude_internal: bool) -> list[str]:
    """Those of the names, sorted, that the expression lets through; all without one."""
    chosen = TopicFilter(expression) if expression is not None else None
    return [
        name
        for name in sorted(names)
        if (chosen is None or chosen.allows(name)) and not (exclude_internal and is_internal(name))
    ]
