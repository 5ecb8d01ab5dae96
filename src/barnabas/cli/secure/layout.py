"""What `secure init` writes: the files of each node and of each user, as texts.  Pure.

Every listener is SASL_SSL.  Users log in by SCRAM-SHA-512; nodes as the user `node`, towards brokers by the
same mechanism.  Controllers log in to each other by PLAIN, since SCRAM's users are in the metadata that they
have yet to agree on, and show a certificate.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import NamedTuple

NODE_USER, ADMIN = "node", "admin"
MECHANISM = "SCRAM-SHA-512"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PORTS_OF_A_NODE = 2
_NODE_PROPERTIES = """\
# Written by `barnabas secure init`.  Readable by the user that runs the node only: it has passwords.
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller_port}
listener.security.protocol.map=SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL
security.inter.broker.protocol=SASL_SSL

# Certificates: replace the file and alter ssl.keystore.location to load it without a restart.
ssl.keystore.type=PEM
ssl.keystore.location={folder}/node.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.controller.ssl.client.auth=required

# Logins: users and brokers by SCRAM, controllers by PLAIN (always within TLS).
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={scram} required username="node" password="{password}";
listener.name.controller.sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.controller.plain.sasl.jaas.config={plain} required username="node" \
password="{controller_password}" user_node="{controller_password}";

# Who may do what: nobody anything without an ACL, but these.
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:node;User:admin

default.replication.factor={replicas}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
log.dirs={folder}/data
"""
_CLIENT_PROPERTIES = """\
# Written by `barnabas secure init`, for --command-config and for clients.
bootstrap.servers={servers}
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={scram} required username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
"""
_FORMAT = """\
#!/bin/sh
# Written by `barnabas secure init`: formats the data folder of this node, once, before its first start.
# The users' passwords are salted and hashed, so that nobody sees them in the list of processes.
exec ${{BARNABAS:-barnabas}} storage format -t {cluster_id} -c {folder}/server.properties {credentials}
"""


class NodePlan(NamedTuple):
    """One node: where it runs, and where its files are there."""

    number: int
    host: str
    port: int
    controller_port: int
    folder: str


class Secrets(NamedTuple):
    """The passwords of users (those of the node among them), and the controllers' own."""

    users: Mapping[str, str]
    controllers: str


def plan_nodes(hosts: Sequence[str], port: int, folder: str) -> list[NodePlan]:
    """Nodes on one host get ports of their own."""
    plans = []
    for index, host in enumerate(hosts):
        own = port + PORTS_OF_A_NODE * hosts[:index].count(host)
        plans.append(NodePlan(index + 1, host, own, own + 1, f"{folder}/node-{index + 1}"))
    return plans


def node_properties(node: NodePlan, nodes: Sequence[NodePlan], secrets: Secrets) -> str:
    replicas = min(3, len(nodes))
    return _NODE_PROPERTIES.format(
        node=node.number,
        host=node.host,
        port=node.port,
        controller_port=node.controller_port,
        folder=node.folder,
        voters=",".join(f"{each.number}@{each.host}:{each.controller_port}" for each in nodes),
        replicas=replicas,
        in_sync=max(1, replicas - 1),
        scram=_SCRAM,
        plain=_PLAIN,
        password=secrets.users[NODE_USER],
        controller_password=secrets.controllers,
    )


def client_properties(user: str, nodes: Sequence[NodePlan], secrets: Secrets, folder: str) -> str:
    servers = ",".join(f"{node.host}:{node.port}" for node in nodes)
    password = secrets.users[user]
    return _CLIENT_PROPERTIES.format(
        servers=servers, scram=_SCRAM, user=user, password=password, folder=folder
    )


def format_script(node: NodePlan, cluster_id: str, salted: Mapping[str, tuple[bytes, bytes]]) -> str:
    """`salted`: salt and salted password of each user."""
    credentials = " ".join(
        f'--add-scram \'{MECHANISM}=[name={user},salt="{_text(salt)}",saltedpassword="{_text(password)}"]\''
        for user, (salt, password) in salted.items()
    )
    return _FORMAT.format(cluster_id=cluster_id, folder=node.folder, credentials=credentials)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
