"""Why no records arrive: no cluster, no topic, or no such partition."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.base.errors import ErrorCode
from barnabas.cli.framework.connecting import reach
from barnabas.client.sync import Admin

# Short, because the user has already waited.
PATIENCE_MS = 3_000
# The consumer properties that an admin client needs.
_SHARED = ("bootstrap.servers", "security.", "ssl.", "sasl.", "request.timeout.ms", "socket.")


def explain_silence(
    properties: Mapping[str, object], program: str, topic: str | None, partition: int | None
) -> str | None:
    """A line that names what is missing, or None.  Raises CommandError if no broker responds."""
    given = {name: value for name, value in properties.items() if name.startswith(_SHARED)}
    with Admin(given, client_id="console-consumer") as admin:
        reach(admin, program, str(properties["bootstrap.servers"]), PATIENCE_MS)
        if topic is None:
            return None
        described = admin.describe_topics([topic])
    error = described.error_of(topic)
    if error is not None:
        if getattr(error, "code", None) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"{program}: the topic {topic} does not exist (barnabas topics --list shows those that do)"
        raise error
    count = len(described[topic].partitions)
    if partition is not None and partition >= count:
        return f"{program}: the topic {topic} has {count} partitions, but no partition {partition}"
    return None
