"""Dynamic-only broker options: an administrator sets them at run time; they cannot be set in a file."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import CLUSTER_WIDE, LONG, MEDIUM, Option

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("leader.replication.throttled.rate", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Bytes per second that a leader sends to throttled replicas."),
    Option("follower.replication.throttled.rate", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Bytes per second that a follower fetches for throttled replicas."),
    Option("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.OTHER_QUOTAS, update_mode=CLUSTER_WIDE,
        doc="Bytes per second at which replicas move between log directories."),
)
