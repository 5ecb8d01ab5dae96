"""Options that a broker has only while it runs: an administrator sets them, no file holds them."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import CLUSTER_WIDE, LONG, MEDIUM, Option

# A row stands on two lines, the facts and the words, which the formatter would tear apart.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("leader.replication.throttled.rate", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.OTHER_QUOTAS, update_mode=CLUSTER_WIDE,
        doc="Bytes per second that a leader sends to throttled replicas."),
    Option("follower.replication.throttled.rate", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.OTHER_QUOTAS, update_mode=CLUSTER_WIDE,
        doc="Bytes per second that a follower fetches for throttled replicas."),
    Option("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.OTHER_QUOTAS, update_mode=CLUSTER_WIDE,
        doc="Bytes per second with which replicas move between data folders."),
)
