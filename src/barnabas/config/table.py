"""A table of options: the rows of one scope, and parsing by them.

Rows are loaded when a table is first used, so that importing the tables costs nothing to a program that
needs only one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from barnabas.config.errors import ConfigError
from barnabas.config.features import BUILT_FEATURES, SECURITY_FEATURES, Feature
from barnabas.config.option import Mode, Option
from barnabas.config.settings import Settings
from barnabas.config.validators import Validator, validator_of
from barnabas.config.values import parse_value


class OptionTable:
    """All options of one scope, by name."""

    def __init__(self, scope: str, modules: Iterable[str]) -> None:
        self.scope = scope
        self._modules = tuple(modules)
        self._options: dict[Mode, dict[str, Option]] = {}
        self._defaults: dict[Mode, dict[str, Any]] = {}
        self._validators: dict[tuple[Mode, str], Validator | None] = {}

    def __iter__(self) -> Iterator[Option]:
        """Every row of both modes, in the order of the tables."""
        for module in self._modules:
            yield from import_module(f"barnabas.config.tables.{module}").ROWS

    def options(self, mode: Mode = Mode.KRAFT) -> Mapping[str, Option]:
        """The rows that exist in `mode`, as `mode` has them, sorted by name."""
        if mode not in self._options:
            rows = sorted(row.as_of(mode) for row in self if row.exists_in(mode))
            self._options[mode] = {row.name: row for row in rows}
        return self._options[mode]

    def option(self, name: str, mode: Mode = Mode.KRAFT) -> Option | None:
        return self.options(mode).get(name)

    def parse(self, given: Mapping[str, object], mode: Mode = Mode.KRAFT) -> Settings:
        """Read what was given, check each value by itself, and fill up with defaults."""
        options = self.options(mode)
        values = dict(self.defaults(mode))
        for name, value in given.items():
            if name in options:
                values[name] = self.parse_one(name, value, mode)
        for option in options.values():
            if option.required and option.name not in given:
                raise _missing(option.name)
        warnings = tuple(self._warnings(given, mode))
        return Settings(self.scope, mode, MappingProxyType(values), MappingProxyType(dict(given)), warnings)

    def parse_one(self, name: str, value: object, mode: Mode = Mode.KRAFT) -> Any:
        """The typed, checked value of one option."""
        option = self.options(mode)[name]
        parsed = parse_value(option, value)
        validator = self._validator(option, mode)
        if validator is not None:
            validator(name, parsed)
        return parsed

    def defaults(self, mode: Mode = Mode.KRAFT) -> Mapping[str, Any]:
        if mode not in self._defaults:
            options = self.options(mode).values()
            self._defaults[mode] = {option.name: parse_value(option, option.default) for option in options}
        return self._defaults[mode]

    def refuse_unknown(self, names: Iterable[str], mode: Mode = Mode.KRAFT) -> None:
        """Stop at a name that is no option: what a request sets must exist, unlike what a file sets."""
        for name in names:
            if name not in self.options(mode):
                raise ConfigError(f"Unknown {self.scope} config name: {name}")

    def _validator(self, option: Option, mode: Mode) -> Validator | None:
        key = (mode, option.name)
        if key not in self._validators:
            self._validators[key] = validator_of(option)
        return self._validators[key]

    def _warnings(self, given: Mapping[str, object], mode: Mode) -> Iterator[str]:
        options = self.options(mode)
        for name in sorted(given):
            option = options.get(name)
            if option is None:
                yield f"The {self.scope} option {name} is not known{self._hint(name, mode)}; it is ignored."
            elif option.effect is Feature.NONE:
                yield f"The {self.scope} option {name} has no effect: it is for the JVM, its threads or JMX."
            elif option.effect not in BUILT_FEATURES and option.effect not in SECURITY_FEATURES:
                yield f"The {self.scope} option {name} has no effect yet: {option.effect} is not built."

    def _hint(self, name: str, mode: Mode) -> str:
        other = Mode.ZOOKEEPER if mode is Mode.KRAFT else Mode.KRAFT
        return f" in {mode.name} mode, only in {other.name} mode" if name in self.options(other) else ""


def _missing(name: str) -> ConfigError:
    return ConfigError(f'Missing required configuration "{name}" which has no default value.')
