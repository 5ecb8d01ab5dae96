"""Group options, which an administrator sets at run time."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import (
    INT,
    KRAFT,
    MEDIUM,
    STRING,
    Option,
)

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("consumer.heartbeat.interval.ms", INT, "5000", "[1,...]", MEDIUM, Feature.GROUPS, only=KRAFT,
        doc="Heartbeat interval of this group's members."),
    Option("consumer.session.timeout.ms", INT, "45000", "[1,...]", MEDIUM, Feature.GROUPS, only=KRAFT,
        doc="Session timeout of this group's members."),
    Option("share.auto.offset.reset", STRING, "latest", "[latest, earliest, by_duration:PnDTnHnMn.nS]", MEDIUM, Feature.SHARE_GROUPS, only=KRAFT,
        doc="Where a share group starts in a partition: earliest, latest, or by duration."),
    Option("share.heartbeat.interval.ms", INT, "5000", "[1,...]", MEDIUM, Feature.SHARE_GROUPS, only=KRAFT,
        doc="Heartbeat interval of this share group's members."),
    Option("share.isolation.level", STRING, "read_uncommitted", "[read_committed, read_uncommitted]", MEDIUM, Feature.SHARE_GROUPS, only=KRAFT,
        doc="Whether this share group receives records of open and aborted transactions."),
    Option("share.record.lock.duration.ms", INT, "30000", "[1000,...]", MEDIUM, Feature.SHARE_GROUPS, only=KRAFT,
        doc="How long a record acquired by this share group stays locked."),
    Option("share.session.timeout.ms", INT, "45000", "[1,...]", MEDIUM, Feature.SHARE_GROUPS, only=KRAFT,
        doc="Session timeout of this share group's members."),
    Option("streams.heartbeat.interval.ms", INT, "5000", "[1,...]", MEDIUM, Feature.STREAMS_GROUPS, only=KRAFT,
        doc="Heartbeat interval of this streams group's members."),
    Option("streams.num.standby.replicas", INT, "0", "[0,...]", MEDIUM, Feature.STREAMS_GROUPS, only=KRAFT,
        doc="Standby replicas of each task's state in this streams group."),
    Option("streams.session.timeout.ms", INT, "45000", "[1,...]", MEDIUM, Feature.STREAMS_GROUPS, only=KRAFT,
        doc="Session timeout of this streams group's members."),
)
