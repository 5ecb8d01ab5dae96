"""Flags with properties: `--property key=value`, `--producer-property`, and files of them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence


def key_values(given: Sequence[str]) -> dict[str, str]:
    """Of each the text before and after the first =; without one the value is empty, as in Apache Kafka."""
    pairs = (text.partition("=") for text in given)
    return {key: value for key, _, value in pairs}


def merge_flags(
    properties: Mapping[str, object], options: Namespace, rows: Sequence[tuple[str, str, object]]
) -> dict[str, object]:
    """Properties with those flags that have one: `rows` are (name in the options, property, default).

    What a flag says counts more than the property, and that more than the flag's default.
    """
    merged = dict(properties)
    for name, key, default in rows:
        value = getattr(options, name)
        if value is not None:
            merged[key] = value
        else:
            merged.setdefault(key, default)
    return merged
