"""The sample configurations that `barnabas aliases` writes under Apache Kafka's names; each works unchanged.

Samples that need several nodes or ZooKeeper are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

HOST = "localhost"
_NODE = """\
# {title}
# Format the data folder once, then start the node:
#   bin/kafka-storage.sh format -t $(bin/kafka-storage.sh random-uuid) -c {path}
#   bin/kafka-server-start.sh {path}

# The roles of this node, and its id in the cluster.
process.roles={roles}
node.id=1

# The voters of the controller quorum: node.id@host:port.
controller.quorum.voters=1@{host}:{controller_port}

# The listeners.  Only this machine can reach {host}; use another host name, or none, for remote clients.
listeners={listeners}
controller.listener.names=CONTROLLER

# The data folder.
log.dirs={folder}
"""
_BROKER = """\

# Defaults for new topics, and the internal topics: a single broker holds a single replica.
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1

# A new group starts at once.  If many consumers start together, 3000 avoids rebalances.
group.initial.rebalance.delay.ms=0

# Retention time, and the size of a segment.
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
    """Text by relative path; brokers listen on `port`, controllers on `port` + 1."""
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
