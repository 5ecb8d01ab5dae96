"""A table of options: the rows of one scope, and parsing with them.

Rows are loaded when a table is first used, so that a program that needs one table does not load the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.option import Mode, Option
from barnabas.config.settings import Settings
from barnabas.config.values.validators import validator_of
from barnabas.config.values.values import parse_value


class OptionTable:
    """All options of one scope, by name."""

    def __init__(
        self,
        scope: str,
        modules: Iterable[str],
        base_name: Callable[[str], str] | None = None,
        *,
        of_plugins: Iterable[str] = (),
    ) -> None:
        self.scope = scope
        self._modules = tuple(modules)
        self._base_name = base_name
        # Names that are not options of the scope itself, but of its plug-ins.
        self._of_plugins = frozenset(of_plugins)
        self._options: dict[Mode, dict[str, Option]] = {}
        self._defaults: dict[Mode, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[Option]:
        """Every row of both modes, in table order."""
        for module in self._modules:
            yield from import_module(f"barnabas.config.tables.{module}").ROWS

    def options(self, mode: Mode = Mode.KRAFT) -> Mapping[str, Option]:
        """The rows that exist in `mode`, as they are in `mode`, sorted by name."""
        if mode not in self._options:
            rows = sorted(row.as_of(mode) for row in self if row.exists_in(mode))
            self._options[mode] = {row.name: row for row in rows}
        return self._options[mode]

    def option(self, name: str, mode: Mode = Mode.KRAFT) -> Option | None:
        """The row of `name`; a name with a prefix has the row of the option behind it."""
        option = self.options(mode).get(name)
        if option is None and self._base_name is not None:
            option = self.options(mode).get(self._base_name(name))
            return None if option is None else option._replace(name=name, required=False)
        return option

    def default(self, name: str, mode: Mode = Mode.KRAFT) -> Any:
        """The typed default of an option; for a name with a prefix, that of the option behind it."""
        return self.defaults(mode)[name if self._base_name is None else self._base_name(name)]

    def parse(self, given: Mapping[str, object], mode: Mode = Mode.KRAFT) -> Settings:
        """Parse the given values, validate each by itself, and add the defaults."""
        values = dict(self.defaults(mode))
        for name, value in given.items():
            if self.option(name, mode) is not None:
                values[name] = self.parse_one(name, value, mode)
        for option in self.options(mode).values():
            if option.required and option.name not in given:
                raise _missing(option.name)
        warnings = tuple(self._warnings(given, mode))
        return Settings(self.scope, mode, MappingProxyType(values), MappingProxyType(dict(given)), warnings)

    def parse_one(self, name: str, value: object, mode: Mode = Mode.KRAFT) -> Any:
        """The typed, validated value of one option."""
        option = self.option(name, mode)
        if option is None:
            raise ConfigError(f"Unknown {self.scope} config name: {name}")
        return parse_checked(option, value)

    def defaults(self, mode: Mode = Mode.KRAFT) -> Mapping[str, Any]:
        if mode not in self._defaults:
            options = self.options(mode).values()
            self._defaults[mode] = {option.name: parse_value(option, option.default) for option in options}
        return self._defaults[mode]

    def refuse_unknown(self, names: Iterable[str], mode: Mode = Mode.KRAFT) -> None:
        """Raises ConfigError for an unknown name: unlike a file, a request may only set options that
        exist."""
        for name in names:
            if name not in self.options(mode):
                raise ConfigError(f"Unknown {self.scope} config name: {name}")

    def unknown_warnings(self, given: Iterable[str], mode: Mode = Mode.KRAFT) -> list[str]:
        """A log line for each unknown name, which is usually a typo."""
        return [
            f"The {self.scope} option {name} is not known{self._hint(name, mode)}; it is ignored."
            for name in sorted(given)
            if self.option(name, mode) is None and name not in self._of_plugins
        ]

    def _warnings(self, given: Mapping[str, object], mode: Mode) -> Iterator[str]:
        yield from self.unknown_warnings(given, mode)
        for name in sorted(given):
            option = self.option(name, mode)
            if option is None:
                continue
            if option.effect is Feature.NONE:
                yield (
                    f"The {self.scope} option {name} has no effect: "
                    "it is for the JVM, its threads and queues, JMX, old formats, or a wait that is not here."
                )
            elif option.effect not in BUILT_FEATURES and option.effect not in SECURITY_FEATURES:
                yield f"The {self.scope} option {name} has no effect yet: {option.effect} is not built."

    def _hint(self, name: str, mode: Mode) -> str:
        other = Mode.ZOOKEEPER if mode is Mode.KRAFT else Mode.KRAFT
        return f" in {mode.name} mode, only in {other.name} mode" if name in self.options(other) else ""


def _missing(name: str) -> ConfigError:
    return ConfigError(f'Missing required configuration "{name}" which has no default value.')


def parse_checked(option: Option, value: object) -> Any:
    """The typed value of an option, validated by itself."""
    parsed = parse_value(option, value)
    validator = validator_of(option)
    if validator is not None:
        validator(option.name, parsed)
    return parsed
