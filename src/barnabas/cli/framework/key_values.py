"""Flags with properties: `--property key=value`, `--producer-property`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence


def add_key_value_flags(parser: ArgumentParser, flags: Sequence[str], dest: str, about: str) -> None:
    """Adds flags that may be repeated, all for the same properties."""
    for flag in flags:
        parser.add_argument(flag, dest=dest, action="append", default=[], metavar="KEY=VALUE", help=about)


def key_values(given: Sequence[str]) -> dict[str, str]:
    """Splits each text at the first `=`; without one the value is empty, as in Apache Kafka."""
    pairs = (text.partition("=") for text in given)
    return {key: value for key, _, value in pairs}


def merge_flags(
    properties: Mapping[str, object], options: Namespace, rows: Sequence[tuple[str, str, object]]
) -> dict[str, object]:
    """The properties, merged with flags: `rows` are (option, property, default).

    A flag takes precedence over the property, and the property over the flag's default.
    """
    merged = dict(properties)
    for name, key, default in rows:
        value = getattr(options, name)
        if value is not None:
            merged[key] = value
        else:
            merged.setdefault(key, default)
    return merged
