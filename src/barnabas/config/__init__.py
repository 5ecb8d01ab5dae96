"""The tables of options: one row an option, from which parser, answers, help and docs come."""

from __future__ import annotations

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.option import Mode, Option, Type, UpdateMode
from barnabas.config.settings import Settings
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

BROKER = OptionTable("broker", _BROKER)
TOPIC = OptionTable("topic", ["topic"])
GROUP = OptionTable("group", ["group"])
PRODUCER = OptionTable("producer", ["producer", *_CLIENT])
CONSUMER = OptionTable("consumer", ["consumer", *_CLIENT])
ADMIN = OptionTable("admin", ["admin", *_CLIENT])

__all__ = [
    "ADMIN",
    "BROKER",
    "BUILT_FEATURES",
    "CONSUMER",
    "GROUP",
    "PRODUCER",
    "SECURITY_FEATURES",
    "TOPIC",
    "ConfigError",
    "Feature",
    "Mode",
    "Option",
    "OptionTable",
    "Settings",
    "Type",
    "UpdateMode",
]
