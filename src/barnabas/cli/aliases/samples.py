"""Sample configurations that `barnabas aliases` writes, by Apache Kafka's names; each starts unchanged.

Those that need more than one node, or ZooKeeper, come with what can start them.
"""

from __future__ import annotations

from collections.abc import Mapping

HOST = "localhost"
_NODE = """\
# {title}
# Format its folder once, then start it:
#   bin/kafka-storage.sh format -t $(bin/kafka-storage.sh random-uuid) -c {path}
#   bin/kafka-server-start.sh {path}

# What this node does, and its number in the cluster.
process.roles={roles}
node.id=1

# Who votes about the cluster's metadata: node.id@host:port.
controller.quorum.voters=1@{host}:{controller_port}

# Where it listens.  Only this machine reaches {host}; write another name, or none, to let others in.
listeners={listeners}
controller.listener.names=CONTROLLER

# Where it keeps its data.
log.dirs={folder}
"""
_BROKER = """\

# Topics that nobody describes further, and the internal ones: there is one broker for replicas to live on.
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1

# A new group begins at once.  Where many consumers start together, 3000 spares them rebalances.
group.initial.rebalance.delay.ms=0

# How long records are kept, and how large a file of a log becomes.
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
_PRODUCER = """\
# For console-producer --producer.config and producer-perf-test --producer.config.
bootstrap.servers={host}:{port}
compression.type=none
"""
_CONSUMER = """\
# For console-consumer --consumer.config and consumer-perf-test --consumer.config.
bootstrap.servers={host}:{port}
group.id=test-consumer-group
"""


def sample_files(port: int, data: str) -> Mapping[str, str]:
    """Text by path below the folder; brokers listen on `port`, controllers on the one after it."""
    controller_port = port + 1
    plain, controller = f"PLAINTEXT://{HOST}:{port}", f"CONTROLLER://{HOST}:{controller_port}"

    def node(path: str, title: str, roles: str, listeners: str, folder: str) -> str:
        return _NODE.format(
            title=title,
            path=path,
            roles=roles,
            listeners=listeners,
            folder=f"{data}/{folder}",
            host=HOST,
            controller_port=controller_port,
        )

    both, roles = f"{plain},{controller}", "broker,controller"
    title = "One node that is broker and controller."
    main, combined = "config/server.properties", "config/kraft/server.properties"
    alone = "config/kraft/controller.properties"
    return {
        main: node(main, title, roles, both, "kafka-logs") + _BROKER,
        combined: node(combined, title, roles, both, "kraft-combined-logs") + _BROKER,
        alone: node(alone, "A controller alone.", "controller", controller, "kraft-controller-logs"),
        "config/producer.properties": _PRODUCER.format(host=HOST, port=port),
        "config/consumer.properties": _CONSUMER.format(host=HOST, port=port),
    }
