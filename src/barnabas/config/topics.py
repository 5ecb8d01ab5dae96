"""A topic's settings: its own options over the broker's defaults, and the rules between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.option import Option
from barnabas.config.scopes import TOPIC
from barnabas.config.settings import Settings

_MS_PER_UNIT = {".hours": 3_600_000, ".minutes": 60_000}
UNLIMITED = -1


def topic_defaults(broker: Settings) -> dict[str, Any]:
    """Default topic settings: each option takes its nearest broker synonym that has a value."""
    defaults = {}
    for option in TOPIC.options(broker.mode).values():
        value = _from_broker(option, broker)
        if value is not None:
            defaults[option.name] = value
    # A broker treats any negative retention as unlimited; a topic accepts only -1.
    defaults["retention.ms"] = max(defaults["retention.ms"], UNLIMITED)
    return defaults


def _from_broker(option: Option, broker: Settings) -> Any:
    for name in option.synonyms:
        value = broker[name]
        if value is not None:
            return value * next((ms for unit, ms in _MS_PER_UNIT.items() if name.endswith(unit)), 1)
    return None


def topic_settings(overrides: Mapping[str, object], broker: Settings) -> Settings:
    """The settings of a topic, validated like a request to create or alter it."""
    TOPIC.refuse_unknown(overrides, broker.mode)
    parsed = TOPIC.parse(overrides, broker.mode)
    values = {**parsed.values_by_name, **topic_defaults(broker)}
    values.update({name: parsed[name] for name in overrides})
    settings = Settings(TOPIC.scope, broker.mode, values, parsed.given, parsed.warnings)
    check_topic(settings, tiered=broker["remote.log.storage.system.enable"])
    return settings


def check_topic(settings: Settings, *, tiered: bool) -> None:
    """The rules between the options of one topic."""
    least, most = settings["min.compaction.lag.ms"], settings["max.compaction.lag.ms"]
    if least > most:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if settings["remote.storage.enable"]:
        _check_tiered_topic(settings, tiered)


def _check_tiered_topic(settings: Settings, tiered: bool) -> None:
    if not tiered:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if "compact" in settings["cleanup.policy"]:
        raise ConfigError("Remote log storage is unsupported for the compacted topics")
