"""Names of the options behind `kafka.`: one that no client knows is a mistake that must not be passed over.

What lives here: which names there are.  What may not: what they mean (config).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from barnabas.config import ADMIN, CONSUMER, PRODUCER

CLIENT_PREFIX = "kafka."


def wrong_name(names: Iterable[str]) -> str | None:
    """What is wrong with the first that no client knows.  Those of every kind of client pass:
    programs give their readers and writers the same options."""
    known = {**CONSUMER.options(), **PRODUCER.options(), **ADMIN.options()}
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {CLIENT_PREFIX}{close[0]}?" if close else "see Apache Kafka's documentation"
            return f"{CLIENT_PREFIX}{name} is no option of a client; {hint}"
    return None
