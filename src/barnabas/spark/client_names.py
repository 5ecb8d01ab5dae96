"""Names of the options behind `kafka.`: an unknown one is an error."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from barnabas.config import ADMIN, CONSUMER, PRODUCER

CLIENT_PREFIX = "kafka."


def wrong_name(names: Iterable[str]) -> str | None:
    """Return what is wrong with the first name that no client knows.  Options of every type of client pass,
    as programs share options between readers and writers."""
    known = {**CONSUMER.options(), **PRODUCER.options(), **ADMIN.options()}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {CLIENT_PREFIX}{close[0]}?" if close else "see Apache Kafka's documentation"
            return f"{CLIENT_PREFIX}{name} is not an option of a client; {hint}"
    return None
