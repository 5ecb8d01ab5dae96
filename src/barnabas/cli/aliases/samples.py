"""The sample configurations that `barnabas aliases` writes under Apache Kafka's names; all work unchanged."""

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

# A new group starts at once.  If many consumers start together, 3000 avoids rebalances.
group.initial.rebalance.delay.ms=0

# Retention time, and the size of a segment.
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
_ON_ZOOKEEPER = """\
# A broker of a cluster on ZooKeeper.  Start ZooKeeper, then the broker:
#   bin/zookeeper-server-start.sh -daemon config/zookeeper.properties
#   bin/kafka-server-start.sh config/server.properties

# The id of this broker, another one for each broker of a cluster; -1 takes one that is free.
broker.id=0

# The listener.  Only this machine can reach {host}; use another host name, or none, for remote clients.
listeners={listener}

# The data folder.
log.dirs={folder}

# The servers of ZooKeeper, host:port with commas, and the path of this cluster if several share them.
zookeeper.connect={host}:{zookeeper_port}
zookeeper.connection.timeout.ms=18000
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


_ZOOKEEPER = """\
# One ZooKeeper server.  Start it with:
#   bin/zookeeper-server-start.sh config/zookeeper.properties

# The folder of its data, and the port of its clients.
dataDir={data}/zookeeper
clientPort={port}

# No limit of connections from one address.
maxClientCnxns=0
"""
_ZOO_CFG = """\
# A sample: copy it to conf/zoo.cfg, then start the server with bin/zkServer.sh start.

# The length of a tick in milliseconds; how many of them followers may take to connect, and to lag behind.
tickTime=2000
initLimit=10
syncLimit=5

# The folder of the server's data, and the port of its clients.
dataDir={data}/zookeeper
clientPort={port}

# An ensemble: one line for each server, the same on all of them; each has its own number in dataDir/myid.
#server.1=worker1:2888:3888
#server.2=worker2:2888:3888
#server.3=worker3:2888:3888
"""


def sample_files(port: int, zookeeper_port: int, data: str) -> Mapping[str, str]:
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
        main: _ON_ZOOKEEPER.format(
            host=HOST, listener=plain, zookeeper_port=zookeeper_port, folder=f"{data}/kafka-logs"
        )
        + _BROKER,
        combined: node(combined, title, roles, both, "kraft-combined-logs") + _BROKER,
        alone: node(alone, "A controller alone.", "controller", controller, "kraft-controller-logs"),
        "config/zookeeper.properties": _ZOOKEEPER.format(data=data, port=zookeeper_port),
        "conf/zoo_sample.cfg": _ZOO_CFG.format(data=data, port=zookeeper_port),
        "config/producer.properties": _PRODUCER.format(host=HOST, port=port),
        "config/consumer.properties": _CONSUMER.format(host=HOST, port=port),
    }
