"""The option tables: one row per option, from which parser, DescribeConfigs, help and docs are derived."""

from __future__ import annotations

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.option import Mode, Option, Type, UpdateMode
from barnabas.config.scopes import ADMIN, BROKER, CONSUMER, GROUP, PRODUCER, TOPIC
from barnabas.config.settings import Settings
from barnabas.config.table import OptionTable

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
