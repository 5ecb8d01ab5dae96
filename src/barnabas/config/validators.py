"""What a value must satisfy by itself, read from the same words that Apache Kafka prints.

A row says `[1,...]` or `[compact, delete]`; from those words come the check, the refusal and the reference
page.  Rules between several options are in broker.py and clients.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from barnabas.config.errors import ConfigError, invalid_value
from barnabas.config.option import Option, Type
from barnabas.config.values import format_double

Validator = Callable[[str, Any], None]

_RANGE = re.compile(r"\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\]")
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?", re.ASCII)
_CASE_INSENSITIVE = "(case insensitive) "
_DURATION = re.compile(
    r"P(?=[^P])(?:([+-]?[0-9]+)D)?(?:T(?=[^T])(?:([+-]?[0-9]+)H)?(?:([+-]?[0-9]+)M)?(?:([+-]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def validator_of(option: Option) -> Validator | None:
    """The check that the row's `valid` words stand for."""
    words = option.valid
    if words is None:
        return None
    special = _SPECIAL.get(words)
    if special is not None:
        return special
    bounds = _RANGE.fullmatch(words)
    if bounds is not None:
        return _between(bounds[1], bounds[2])
    if words.startswith(_CASE_INSENSITIVE):
        return _one_of_ignoring_case(_names(words.removeprefix(_CASE_INSENSITIVE)))
    names = _names(words)
    return _each_of(names) if option.type is Type.LIST else _one_of(names)


def _names(words: str) -> list[str]:
    if not (words.startswith("[") and words.endswith("]")):
        raise ValueError(f"no check is known for the valid values {words!r}")
    return words[1:-1].split(", ")


def _between(least: str, most: str | None) -> Validator:
    lower = float(least)
    upper = None if most is None else float(most)

    def check(name: str, value: Any) -> None:
        if value is None:
            raise invalid_value(name, "null", "Value must be non-null", allowed=f"at least {least}")
        if value < lower:
            raise invalid_value(name, _shown(value), f"Value must be at least {least}")
        if upper is not None and value > upper:
            raise invalid_value(name, _shown(value), f"Value must be no more than {most}")

    return check


def _shown(value: Any) -> Any:
    return format_double(value) if isinstance(value, float) else value


def _one_of(names: list[str]) -> Validator:
    def check(name: str, value: Any) -> None:
        if value not in names:
            shown = "null" if value is None else value
            raise invalid_value(name, shown, f"String must be one of: {', '.join(names)}")

    return check


def _each_of(names: list[str]) -> Validator:
    check_one = _one_of(names)

    def check(name: str, values: Any) -> None:
        for value in values:
            check_one(name, value)

    return check


def _one_of_ignoring_case(names: list[str]) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or value.upper() not in names:
            shown = "null" if value is None else value
            raise invalid_value(name, shown, f"String must be one of (case insensitive): {', '.join(names)}")

    return check


def _non_null(name: str, value: Any) -> None:
    if value is None:
        raise invalid_value(name, "null", "entry must be non null")


def _non_empty_text(name: str, value: Any) -> None:
    if value == "":
        raise invalid_value(name, value, "String must be non-empty")


def _gzip_level(name: str, value: Any) -> None:
    if not (1 <= value <= 9 or value == -1):
        raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")


def _thread_pool_or_inherited(name: str, value: Any) -> None:
    if value < -1 or value == 0:
        raise invalid_value(name, value, "Value can be -1 or greater than 0")


def _throttled_replicas(name: str, value: Any) -> None:
    proposed = [element.strip() for element in value]
    if all(_THROTTLED_REPLICA.fullmatch(element) for element in proposed) or "".join(proposed) == "*":
        return
    raise invalid_value(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def _offset_reset(*names: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value in names or (value is not None and _duration_is_valid(value)):
            return
        raise invalid_value(name, "null" if value is None else value, "Invalid value")

    return check


def _duration_is_valid(strategy: str) -> bool:
    text = strategy.removeprefix("by_duration:")
    return text is not strategy and _DURATION.fullmatch(text) is not None and "-" not in text


_SPECIAL: dict[str, Validator] = {
    "non-null string": _non_null,
    "non-empty string": _non_empty_text,
    "[1,...,9] or -1": _gzip_level,
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": _throttled_replicas,
}

__all__ = ["ConfigError", "Validator", "validator_of"]
