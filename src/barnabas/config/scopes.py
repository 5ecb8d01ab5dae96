"""The option tables, one per scope."""

from __future__ import annotations

from barnabas.config.node.synonyms import base_name
from barnabas.config.table import OptionTable

_CLIENT = ("client", "client_security")
_BROKER = (
    "broker_node",
    "broker_network",
    "broker_log",
    "broker_replication",
    "broker_quorum",
    "broker_groups",
    "broker_transactions",
    "broker_zookeeper",
    "broker_security",
)

# Options of the authorizer, which Apache Kafka's own tables do not contain either.
_OF_AUTHORIZER = ("super.users", "allow.everyone.if.no.acl.found")

BROKER = OptionTable("broker", _BROKER, base_name, of_plugins=_OF_AUTHORIZER)
TOPIC = OptionTable("topic", ["topic"])
BROKER_DYNAMIC = OptionTable("broker", ["broker_dynamic"])
GROUP = OptionTable("group", ["group"])
PRODUCER = OptionTable("producer", ["producer", *_CLIENT])
CONSUMER = OptionTable("consumer", ["consumer", *_CLIENT])
ADMIN = OptionTable("admin", ["admin", *_CLIENT])
TABLES = (BROKER, TOPIC, GROUP, PRODUCER, CONSUMER, ADMIN)
