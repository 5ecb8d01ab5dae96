"""The layers of a broker's configuration: default < file < cluster-wide < this broker < topic or group.

Each layer maps names to text, as a file or a metadata record holds it.  From the layers come the effective
settings and, for DescribeConfigs, the value of every option with its source and its synonyms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.node.synonyms import base_name, synonyms_of
from barnabas.config.option import Mode, Option, Type, UpdateMode
from barnabas.config.scopes import BROKER, BROKER_DYNAMIC, GROUP, TOPIC
from barnabas.config.settings import Settings
from barnabas.config.table import OptionTable, parse_checked
from barnabas.config.topics import topic_settings
from barnabas.config.values.values import format_value

_CLUSTER_LEVEL_LISTENER_OPTIONS = ("max.connections", "max.connection.creation.rate", "num.network.threads")


class ConfigSource(IntEnum):
    """The source of a value; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    """The value of an option in some layer, under this name or a synonym."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Entry:
    """One option as DescribeConfigs shows it.  `type` is None for an unknown name."""

    name: str
    value: str | None
    source: ConfigSource
    type: Type | None
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    doc: str | None


@dataclass(frozen=True, slots=True)
class Layers:
    """The values set in each layer above the defaults.  Immutable: a change returns a new instance."""

    static: Mapping[str, Any]
    mode: Mode = Mode.KRAFT
    cluster: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    # The effective settings, once they were asked for.
    _parsed: list[Settings] = field(default_factory=list, init=False, repr=False, compare=False)

    def with_cluster(self, values: Mapping[str, str]) -> Layers:
        return replace(self, cluster=dict(values))

    def with_broker(self, values: Mapping[str, str]) -> Layers:
        return replace(self, broker=dict(values))

    def settings(self) -> Settings:
        """The broker's effective settings.  Values that a dynamic layer may not set are skipped with a
        warning."""
        if not self._parsed:
            self._parsed.append(self._parse())
        return self._parsed[0]

    def _parse(self) -> Settings:
        merged = dict(self.static)
        warnings: list[str] = []
        for layer, per_broker in ((self.cluster, False), (self.broker, True)):
            for name, value in layer.items():
                try:
                    check_dynamic({name: value}, per_broker=per_broker, mode=self.mode)
                except ConfigError as error:
                    warnings.append(f"The dynamic option {name} is ignored: {error}")
                    continue
                for other in synonyms_of(name, with_base=False):
                    merged.pop(other, None)
                merged[name] = value
        parsed = BROKER.parse(merged, self.mode)
        return replace(parsed, warnings=(*parsed.warnings, *warnings))

    def topic(self, overrides: Mapping[str, str]) -> Settings:
        """A topic's effective settings."""
        return topic_settings(overrides, self.settings())

    def describe_broker(self) -> list[Entry]:
        """Every option of the broker, and unknown ones that its file sets, sorted by name."""
        settings = self.settings()
        options = BROKER.options(self.mode).values()
        names = {option.name for option in options if not option.internal} | set(settings.given)
        return [self._broker_entry(name, settings) for name in sorted(names)]

    def describe_cluster(self) -> list[Entry]:
        """The cluster-wide options that are set."""
        settings = self.settings()
        entries = []
        for name in sorted(self.cluster):
            entry = self._broker_entry(name, settings)
            wide = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            synonyms = tuple(synonym for synonym in entry.synonyms if synonym.source is wide)
            value = None if entry.sensitive else self.cluster[name]
            entries.append(replace(entry, value=value, source=wide, synonyms=synonyms))
        return entries

    def describe_topic(self, overrides: Mapping[str, str]) -> list[Entry]:
        """Every option of a topic, with the broker's options behind it."""
        settings = self.topic(overrides)
        return [
            self._own_entry(option, settings, overrides, self._topic_synonyms(option))
            for option in _shown_options(TOPIC, self.mode, overrides)
        ]

    def describe_group(self, overrides: Mapping[str, str]) -> list[Entry]:
        """Every option of a group; those not set come from the corresponding broker options."""
        GROUP.refuse_unknown(overrides, self.mode)
        broker = self.settings()
        parsed = GROUP.parse(overrides, self.mode)
        inherited = {f"group.{name}": name for name in parsed}
        values = dict(parsed.values_by_name)
        values.update({name: broker[theirs] for theirs, name in inherited.items() if theirs in broker})
        values.update({name: parsed[name] for name in overrides})
        settings = replace(parsed, values_by_name=values)
        return [
            self._own_entry(option, settings, overrides, ())
            for option in _shown_options(GROUP, self.mode, overrides)
        ]

    def _broker_entry(self, name: str, settings: Settings) -> Entry:
        option = broker_option(name, self.mode)
        sensitive = option is None or option.sensitive
        synonyms = tuple(self._synonyms(name, sensitive))
        return Entry(
            name=name,
            value=None if option is None or sensitive else format_value(option, _value(settings, option)),
            source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
            type=None if option is None else option.type,
            read_only=not is_dynamic(BROKER.options(self.mode).get(name)),
            sensitive=sensitive,
            synonyms=synonyms,
            doc=None if option is None else option.doc,
        )

    def _own_entry(
        self, option: Option, settings: Settings, overrides: Mapping[str, str], behind: tuple[Synonym, ...]
    ) -> Entry:
        value = format_value(option, settings[option.name])
        own = settings.scope == "group"
        if option.name in overrides:
            source = ConfigSource.GROUP_CONFIG if own else ConfigSource.DYNAMIC_TOPIC_CONFIG
            synonyms = (Synonym(option.name, value, source), *behind)
        elif own:
            synonyms = (Synonym(option.name, value, ConfigSource.DEFAULT_CONFIG),)
        else:
            synonyms = behind
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        return Entry(option.name, value, source, option.type, False, False, synonyms, option.doc)

    def _topic_synonyms(self, option: Option) -> tuple[Synonym, ...]:
        return tuple(self._synonyms(option.synonyms[0], False)) if option.synonyms else ()

    def _synonyms(self, name: str, sensitive: bool) -> Iterator[Synonym]:
        """The value of `name` in every layer, highest precedence first, starting with the first one under
        that exact name."""
        names = synonyms_of(name, with_base=True)
        own_name_seen = False
        for source, layer in self._sources():
            for other in names:
                if other not in layer:
                    continue
                # Apache Kafka omits synonyms of the family until the option's own name has a value:
                # log.retention.hours alone is no synonym of log.retention.ms.
                own_name_seen = own_name_seen or other == name
                if own_name_seen:
                    yield Synonym(other, None if sensitive else _text(layer[other]), source)

    def _sources(self) -> Iterator[tuple[ConfigSource, Mapping[str, Any]]]:
        yield ConfigSource.DYNAMIC_BROKER_CONFIG, self.broker
        yield ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster
        yield ConfigSource.STATIC_BROKER_CONFIG, self.static
        yield ConfigSource.DEFAULT_CONFIG, _broker_defaults(self.mode)


@cache
def _broker_defaults(mode: Mode) -> Mapping[str, str]:
    """The defaults of the table, as text."""
    options = BROKER.options(mode).values()
    return {option.name: option.default for option in options if option.default is not None}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _shown_options(table: OptionTable, mode: Mode, overrides: Mapping[str, str]) -> Iterator[Option]:
    for option in table.options(mode).values():
        if not option.internal or option.name in overrides:
            yield option


def broker_option(name: str, mode: Mode) -> Option | None:
    """The row of a broker option, whether a static or a dynamic-only one."""
    return BROKER.option(name, mode) or BROKER_DYNAMIC.option(name, mode)


def _value(settings: Settings, option: Option) -> Any:
    if option.name in settings:
        return settings[option.name]
    return parse_checked(option, settings.given[option.name])


def is_dynamic(option: Option | None) -> bool:
    """Whether the option can be updated dynamically."""
    return option is not None and option.update_mode is not UpdateMode.READ_ONLY


def check_dynamic(values: Mapping[str, str], *, per_broker: bool, mode: Mode = Mode.KRAFT) -> None:
    """Raises ConfigError for values that cannot be updated dynamically (KIP-226): read-only options, and
    per-broker or per-listener options when no broker or listener is named."""
    options = {name: broker_option(name, mode) for name in values}
    fixed = [name for name, option in options.items() if option is not None and not is_dynamic(option)]
    _refuse(fixed, "Cannot update these configs dynamically")
    bare = [name for name, option in options.items() if name == base_name(name) and _is_tls(option)]
    _refuse(
        bare,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        kind="HashSet",
    )
    for name, option in options.items():
        if option is not None:
            parse_checked(option, values[name])
    if not per_broker:
        own = [name for name, option in options.items() if _needs_broker(name, option)]
        _refuse(own, "Cannot update these configs at default cluster level, broker id must be specified")


def _refuse(names: Iterable[str], why: str, kind: str = "Set") -> None:
    listed = list(names)
    if listed:
        raise ConfigError(f"{why}: {kind}({', '.join(listed)})")


def _is_tls(option: Option | None) -> bool:
    return option is not None and option.name.startswith("ssl.") and is_dynamic(option)


def _needs_broker(name: str, option: Option | None) -> bool:
    base = base_name(name)
    if base != name:
        return base not in _CLUSTER_LEVEL_LISTENER_OPTIONS
    return option is not None and option.update_mode is UpdateMode.PER_BROKER
