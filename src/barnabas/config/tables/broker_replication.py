"""Replication and leader election."""

from __future__ import annotations

from barnabas.config.features import Feature
from barnabas.config.option import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LONG,
    MEDIUM,
    STRING,
    ZOOKEEPER,
    Option,
)

# Each row takes two lines, one for its fields and one for its doc; the formatter would break them up.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("min.insync.replicas", INT, "1", "[1,...]", HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Default of the topic option: in-sync replicas that an acks=all write needs."),
    Option("unclean.leader.election.enable", BOOLEAN, "false", None, HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Default of the topic option: whether a replica outside the ISR may become leader."),
    Option("unclean.leader.election.interval.ms", LONG, "300000", "[1,...]", MEDIUM, Feature.CONTROLLER, internal=True,
        doc="How often the controller checks for partitions that need an unclean leader election."),
    Option("replica.lag.time.max.ms", LONG, "30000", None, HIGH, Feature.REPLICATION,
        doc="Time without catching up after which a follower leaves the ISR."),
    Option("replica.fetch.wait.max.ms", INT, "500", None, HIGH, Feature.REPLICATION,
        doc="How long a leader may delay a follower's fetch that does not reach its minimum size."),
    Option("replica.fetch.min.bytes", INT, "1", None, HIGH, Feature.REPLICATION,
        doc="Minimum bytes of a fetch response to a follower."),
    Option("replica.fetch.max.bytes", INT, "1048576", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Bytes per partition that a follower requests."),
    Option("replica.fetch.response.max.bytes", INT, "10485760", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Total bytes that a follower requests in one fetch."),
    Option("replica.fetch.backoff.ms", INT, "1000", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Backoff of a follower after a failed fetch of a partition."),
    Option("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", None, HIGH, Feature.REPLICATION,
        doc="How often high watermarks are checkpointed."),
    Option("replica.selector.class", STRING, None, None, MEDIUM, Feature.REPLICATION,
        doc="Class that selects the replica a consumer reads from (KIP-392)."),
    Option("replica.socket.receive.buffer.bytes", INT, "65536", None, HIGH, Feature.NONE,
        doc="Receive buffer of a follower's connection to its leader."),
    Option("replica.socket.timeout.ms", INT, "30000", None, HIGH, Feature.REPLICATION,
        doc="Socket timeout of a follower's fetch; not shorter than replica.fetch.wait.max.ms."),
    Option("num.replica.fetchers", INT, "1", None, HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Fetchers of a follower per leader."),
    Option("auto.leader.rebalance.enable", BOOLEAN, "true", None, HIGH, Feature.CONTROLLER,
        doc="Whether leadership moves back to the preferred replicas automatically."),
    Option("leader.imbalance.check.interval.seconds", LONG, "300", "[1,...]", HIGH, Feature.CONTROLLER,
        doc="How often the controller checks for leaders that are not the preferred ones."),
    Option("leader.imbalance.per.broker.percentage", INT, "10", None, HIGH, Feature.ZOOKEEPER, only=ZOOKEEPER,
        doc="Tolerated percentage of a broker's partitions that other brokers lead."),
    Option("eligible.leader.replicas.enable", BOOLEAN, "false", None, HIGH, Feature.NONE, only=ZOOKEEPER,
        doc="Whether eligible leader replicas, which hold all committed records, may become leader from outside the ISR (KIP-966)."),
)
