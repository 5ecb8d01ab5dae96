"""Topic options.  A topic option that is not set falls back to its broker synonyms, nearest first."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import (
    BOOLEAN,
    DOUBLE,
    INT,
    KRAFT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ZOOKEEPER,
    Option,
)

CODECS = "[uncompressed, zstd, lz4, snappy, gzip, producer]"
THROTTLED = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
# Release names that inter.broker.protocol.version and the message format options accept in ZooKeeper mode.
RELEASES = (
    "[0.8.0, 0.8.1, 0.8.2, 0.9.0, 0.10.0-IV0, 0.10.0-IV1, 0.10.1-IV0, 0.10.1-IV1, 0.10.1-IV2, "
    "0.10.2-IV0, 0.11.0-IV0, 0.11.0-IV1, 0.11.0-IV2, 1.0-IV0, 1.1-IV0, 2.0-IV0, 2.0-IV1, 2.1-IV0, "
    "2.1-IV1, 2.1-IV2, 2.2-IV0, 2.2-IV1, 2.3-IV0, 2.3-IV1, 2.4-IV0, 2.4-IV1, 2.5-IV0, 2.6-IV0, "
    "2.7-IV0, 2.7-IV1, 2.7-IV2, 2.8-IV0, 2.8-IV1, 3.0-IV0, 3.0-IV1, 3.1-IV0, 3.2-IV0, 3.3-IV0, "
    "3.3-IV1, 3.3-IV2, 3.3-IV3, 3.4-IV0, 3.5-IV0, 3.5-IV1, 3.5-IV2, 3.6-IV0, 3.6-IV1, 3.6-IV2, "
    "3.7-IV0, 3.7-IV1, 3.7-IV2, 3.7-IV3, 3.7-IV4, 3.8-IV0, 3.9-IV0, 4.0-IV0, 4.0-IV1]"
)

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("cleanup.policy", LIST, "delete", "[compact, delete]", MEDIUM, Feature.RETENTION, synonyms=("log.cleanup.policy",),
        doc="Cleanup policy of old segments: delete them, compact them to the latest record of each key, or both."),
    Option("compression.gzip.level", INT, "-1", "[1,...,9] or -1", MEDIUM, Feature.LOG, synonyms=("compression.gzip.level",),
        doc="Compression level of gzip when the broker itself compresses; -1 is the codec's own default."),
    Option("compression.lz4.level", INT, "9", "[1,...,17]", MEDIUM, Feature.LOG, synonyms=("compression.lz4.level",),
        doc="Compression level of lz4 when the broker itself compresses."),
    Option("compression.type", STRING, "producer", CODECS, MEDIUM, Feature.LOG, synonyms=("compression.type",),
        doc="Codec of stored batches; `producer` keeps the codec of the producer."),
    Option("compression.zstd.level", INT, "3", "[-131072,...,22]", MEDIUM, Feature.LOG, synonyms=("compression.zstd.level",),
        doc="Compression level of zstd when the broker itself compresses; negative levels trade size for speed."),
    Option("delete.retention.ms", LONG, "86400000", "[0,...]", MEDIUM, Feature.COMPACTION, synonyms=("log.cleaner.delete.retention.ms",),
        doc="How long a compacted log keeps a tombstone or a transaction marker, so that a consumer that starts at the beginning still sees it."),
    Option("file.delete.delay.ms", LONG, "60000", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.segment.delete.delay.ms",),
        doc="Delay before the files of a segment, renamed to .deleted, are removed."),
    Option("flush.messages", LONG, "9223372036854775807", "[1,...]", MEDIUM, Feature.LOG, synonyms=("log.flush.interval.messages",),
        doc="Records after which the log is flushed; durability usually comes from replication, so the default never does."),
    Option("flush.ms", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        doc="Age of the oldest unflushed record at which the log is flushed."),
    Option("follower.replication.throttled.replicas", LIST, "", THROTTLED, MEDIUM, Feature.REPLICATION,
        doc="Replicas that are throttled on the follower side: partition:broker pairs, or * for all."),
    Option("index.interval.bytes", INT, "4096", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.index.interval.bytes",),
        doc="Bytes of batches between two entries of the offset index."),
    Option("internal.segment.bytes", INT, None, None, MEDIUM, Feature.LOG, only=KRAFT, internal=True,
        doc="Segment size for tests, exempt from the lower bound of segment.bytes."),
    Option("leader.replication.throttled.replicas", LIST, "", THROTTLED, MEDIUM, Feature.REPLICATION,
        doc="Replicas that are throttled on the leader side: partition:broker pairs, or * for all."),
    Option("local.retention.bytes", LONG, "-2", "[-2,...]", MEDIUM, Feature.TIERED_STORAGE, synonyms=("log.local.retention.bytes",),
        doc="Bytes of a tiered partition kept on local disk; -2 means retention.bytes."),
    Option("local.retention.ms", LONG, "-2", "[-2,...]", MEDIUM, Feature.TIERED_STORAGE, synonyms=("log.local.retention.ms",),
        doc="Age up to which a tiered partition's segments stay on local disk; -2 means retention.ms."),
    Option("max.compaction.lag.ms", LONG, "9223372036854775807", "[1,...]", MEDIUM, Feature.COMPACTION, synonyms=("log.cleaner.max.compaction.lag.ms",),
        doc="Maximum time a record remains uncompacted, even in a log that is hardly dirty."),
    Option("max.message.bytes", INT, "1048588", "[0,...]", MEDIUM, Feature.LOG, synonyms=("message.max.bytes",),
        doc="Maximum size of a record batch, after compression."),
    Option("message.downconversion.enable", BOOLEAN, "true", None, LOW, Feature.NONE, synonyms=("log.message.downconversion.enable",), only=ZOOKEEPER,
        doc="Whether batches are rewritten in an older format for a consumer that sends an old Fetch version."),
    Option("message.format.version", STRING, "3.0-IV1", RELEASES, MEDIUM, Feature.NONE, synonyms=("log.message.format.version",), only=ZOOKEEPER,
        doc="Format of stored records by release name; since 3.0 only 3.0 and later have a meaning: format v2."),
    Option("message.timestamp.after.max.ms", LONG, "3600000", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.message.timestamp.after.max.ms",), zookeeper={"default": "9223372036854775807"},
        doc="How far a record's timestamp may be ahead of the broker's clock before the record is rejected."),
    Option("message.timestamp.before.max.ms", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.message.timestamp.before.max.ms",),
        doc="How far a record's timestamp may be behind the broker's clock before the record is rejected."),
    Option("message.timestamp.difference.max.ms", LONG, "9223372036854775807", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.message.timestamp.difference.max.ms",), only=ZOOKEEPER,
        doc="Older, two-sided form of the before and after limits, which take precedence."),
    Option("message.timestamp.type", STRING, "CreateTime", "[CreateTime, LogAppendTime]", MEDIUM, Feature.LOG, synonyms=("log.message.timestamp.type",),
        doc="Timestamp of a record: the producer's (CreateTime) or the broker's at append (LogAppendTime)."),
    Option("min.cleanable.dirty.ratio", DOUBLE, "0.5", "[0,...,1]", MEDIUM, Feature.COMPACTION, synonyms=("log.cleaner.min.cleanable.ratio",),
        doc="Minimum ratio of the dirty part of a log at which the cleaner compacts it."),
    Option("min.compaction.lag.ms", LONG, "0", "[0,...]", MEDIUM, Feature.COMPACTION, synonyms=("log.cleaner.min.compaction.lag.ms",),
        doc="Minimum time that a record remains uncompacted."),
    Option("min.insync.replicas", INT, "1", "[1,...]", MEDIUM, Feature.REPLICATION, synonyms=("min.insync.replicas",),
        doc="In-sync replicas that an acks=all write needs; with fewer the write is rejected."),
    Option("preallocate", BOOLEAN, "false", None, MEDIUM, Feature.LOG, synonyms=("log.preallocate",),
        doc="Whether the file of a new segment is preallocated."),
    Option("remote.log.copy.disable", BOOLEAN, "false", None, MEDIUM, Feature.TIERED_STORAGE,
        doc="Stops copying to the remote tier; remote segments stay readable."),
    Option("remote.log.delete.on.disable", BOOLEAN, "false", None, MEDIUM, Feature.TIERED_STORAGE,
        doc="Whether remote segments are deleted when tiering of the topic is disabled."),
    Option("remote.storage.enable", BOOLEAN, "false", None, MEDIUM, Feature.TIERED_STORAGE,
        doc="Whether the topic's inactive segments are copied to the remote tier."),
    Option("retention.bytes", LONG, "-1", None, MEDIUM, Feature.RETENTION, synonyms=("log.retention.bytes",),
        doc="Size of a partition above which its oldest segments are deleted; -1 means no limit."),
    Option("retention.ms", LONG, "604800000", "[-1,...]", MEDIUM, Feature.RETENTION, synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        doc="Age of a segment's latest record at which the segment is deleted; -1 means no limit."),
    Option("segment.bytes", INT, "1073741824", "[1048576,...]", MEDIUM, Feature.LOG, synonyms=("log.segment.bytes",), zookeeper={"valid": "[14,...]"},
        doc="Size at which a segment is rolled."),
    Option("segment.index.bytes", INT, "10485760", "[4,...]", MEDIUM, Feature.LOG, synonyms=("log.index.size.max.bytes",),
        doc="Maximum size of an index file; a full index rolls the segment too."),
    Option("segment.jitter.ms", LONG, "0", "[0,...]", MEDIUM, Feature.LOG, synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
        doc="Random time subtracted from segment.ms, so that many partitions do not roll at once."),
    Option("segment.ms", LONG, "604800000", "[1,...]", MEDIUM, Feature.LOG, synonyms=("log.roll.ms", "log.roll.hours"),
        doc="Age at which a segment is rolled even if it is not full."),
    Option("unclean.leader.election.enable", BOOLEAN, "false", None, MEDIUM, Feature.REPLICATION, synonyms=("unclean.leader.election.enable",),
        doc="Whether a replica outside the ISR may become leader as a last resort, at the cost of data loss."),
)
