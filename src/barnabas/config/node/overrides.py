"""What a command line adds to a file: `--override key=value`, as often as one likes."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.config.errors import ConfigError


def parse_overrides(arguments: Iterable[str]) -> dict[str, str]:
    """The keys and values of `--override` arguments; the last one of a key counts.

    Apache Kafka sets a key without `=` to nothing; whoever forgot the value does not want that.
    """
    values = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not key.strip() or not equals:
            raise ConfigError(f"Invalid command line properties: {argument}", allowed="--override key=value")
        values[key] = value
    return values
