"""Replicas, leaders and what keeps them in step."""

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

# A row stands on two lines, the facts and the words, which the formatter would tear apart.
# fmt: off
ROWS: tuple[Option, ...] = (
    Option("min.insync.replicas", INT, "1", "[1,...]", HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Default of the topic option: in-sync replicas that an acks=all write needs."),
    Option("unclean.leader.election.enable", BOOLEAN, "false", None, HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Default of the topic option: whether a replica outside the ISR may lead."),
    Option("unclean.leader.election.interval.ms", LONG, "300000", "[1,...]", MEDIUM, Feature.CONTROLLER, internal=True,
        doc="How often the controller looks for partitions that need an unclean election."),
    Option("replica.lag.time.max.ms", LONG, "30000", None, HIGH, Feature.REPLICATION,
        doc="Time without catching up after which a follower leaves the ISR."),
    Option("replica.fetch.wait.max.ms", INT, "500", None, HIGH, Feature.REPLICATION,
        doc="How long a leader may hold a follower's fetch that finds too little."),
    Option("replica.fetch.min.bytes", INT, "1", None, HIGH, Feature.REPLICATION,
        doc="Bytes a follower's fetch waits for."),
    Option("replica.fetch.max.bytes", INT, "1048576", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Bytes per partition that a follower asks for."),
    Option("replica.fetch.response.max.bytes", INT, "10485760", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Bytes that a follower asks for in all."),
    Option("replica.fetch.backoff.ms", INT, "1000", "[0,...]", MEDIUM, Feature.REPLICATION,
        doc="Pause of a follower after a failed fetch of a partition."),
    Option("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", None, HIGH, Feature.REPLICATION,
        doc="How often high watermarks are written down."),
    Option("replica.selector.class", STRING, None, None, MEDIUM, Feature.REPLICATION,
        doc="Who chooses the replica a consumer reads from (KIP-392)."),
    Option("replica.socket.receive.buffer.bytes", INT, "65536", None, HIGH, Feature.REPLICATION,
        doc="Receive buffer of a follower's connection to its leader."),
    Option("replica.socket.timeout.ms", INT, "30000", None, HIGH, Feature.REPLICATION,
        doc="Socket time-out of a follower's fetch; not shorter than replica.fetch.wait.max.ms."),
    Option("num.replica.fetchers", INT, "1", None, HIGH, Feature.REPLICATION, update_mode=CLUSTER_WIDE,
        doc="Connections with which a follower fetches from each leader."),
    Option("auto.leader.rebalance.enable", BOOLEAN, "true", None, HIGH, Feature.CONTROLLER,
        doc="Whether leadership goes back to preferred replicas by itself."),
    Option("leader.imbalance.check.interval.seconds", LONG, "300", "[1,...]", HIGH, Feature.CONTROLLER,
        doc="How often the controller looks for leaders that are not the preferred ones."),
    Option("leader.imbalance.per.broker.percentage", INT, "10", None, HIGH, Feature.ZOOKEEPER, only=ZOOKEEPER,
        doc="Share of a broker's partitions led elsewhere that is still let be."),
    Option("eligible.leader.replicas.enable", BOOLEAN, "false", None, HIGH, Feature.ZOOKEEPER, only=ZOOKEEPER,
        doc="Whether replicas known to hold all committed records may lead from outside the ISR (KIP-966)."),
)
