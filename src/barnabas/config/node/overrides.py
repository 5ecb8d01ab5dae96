"""`--override key=value` arguments of a command line, which take precedence over the file."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.config.errors import ConfigError


def parse_overrides(arguments: Iterable[str]) -> dict[str, str]:
    """The keys and values of `--override` arguments; the last value of a key wins.

    Apache Kafka sets a key without `=` to an empty value; here it is an error, since the value was probably
    forgotten.
    """
    values = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not key.strip() or not equals:
            raise ConfigError(f"Invalid command line properties: {argument}", allowed="--override key=value")
        values[key] = value
    return values
