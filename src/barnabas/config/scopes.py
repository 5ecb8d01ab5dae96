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

# Options of the authorizer and of the JVM, which Apache Kafka's own tables do not contain either.
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_OF_PLUGINS = ("super.users", "allow.everyone.if.no.acl.found", _ALLOWED_URLS)

BROKER = OptionTable("broker", _BROKER, base_name, of_plugins=_OF_PLUGINS)
TOPIC = OptionTable("topic", ["topic"])
BROKER_DYNAMIC = OptionTable("broker", ["broker_dynamic"])
GROUP = OptionTable("group", ["group"])
PRODUCER = OptionTable("producer", ["producer", *_CLIENT], of_plugins=[_ALLOWED_URLS])
CONSUMER = OptionTable("consumer", ["consumer", *_CLIENT], of_plugins=[_ALLOWED_URLS])
ADMIN = OptionTable("admin", ["admin", *_CLIENT], of_plugins=[_ALLOWED_URLS])
TABLES = (BROKER, TOPIC, GROUP, PRODUCER, CONSUMER, ADMIN)
