"""Validation of a single value, derived from the text of valid values that Apache Kafka prints.

A row says `[1,...]` or `[compact, delete]`; the validator, the error message and the reference page are
derived from that text.  Rules between several options are in config/node/rules.py and config/clients.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from barnabas.config.errors import invalid_value
from barnabas.config.node.quorum import parse_bootstrap_servers, parse_voters
from barnabas.config.option import Option, Type
from barnabas.config.values.durations import parse_duration_ns
from barnabas.config.values.values import format_double

Validator = Callable[[str, Any], None]

_RANGE = re.compile(r"\[(-?[0-9.]+),\.\.\.(?:,(-?[0-9.]+))?\]")
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?", re.ASCII)
_CASE_INSENSITIVE = "(case insensitive) "


def validator_of(option: Option) -> Validator | None:
    """The validator that the row's `valid` text describes."""
    valid = option.valid
    if valid is None:
        return None
    special = _BY_NAME.get(option.name) or _BY_TEXT.get(valid)
    if special is not None:
        return special
    bounds = _RANGE.fullmatch(valid)
    if bounds is not None:
        return _between(bounds[1], bounds[2])
    if valid.startswith(_CASE_INSENSITIVE):
        return _one_of_ignoring_case(_names(valid.removeprefix(_CASE_INSENSITIVE)))
    names = _names(valid)
    if "0.8.0" in names:
        return _release(names)
    return _each_of(names) if option.type is Type.LIST else _one_of(names)


def _names(valid: str) -> list[str]:
    if not (valid.startswith("[") and valid.endswith("]")):
        raise ValueError(f"no validator is known for the valid values {valid!r}")
    return valid[1:-1].split(", ")


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


def _threads_or_inherited(name: str, value: Any) -> None:
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


def _offset_reset(must: str, *names: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value not in names and not _is_time_back(value):
            shown = "null" if value is None else value
            why = f"Invalid value `{shown}` for configuration {name}. The value must be either {must}."
            raise invalid_value(name, shown, why)

    return check


def _is_time_back(strategy: str | None) -> bool:
    if strategy is None or not strategy.startswith("by_duration:"):
        return False
    try:
        return parse_duration_ns(strategy.removeprefix("by_duration:")) >= 0
    except ValueError:
        return False


def _acknowledgement_mode(name: str, value: Any) -> None:
    if value not in ("implicit", "explicit"):
        must = "The value must either be 'implicit' or 'explicit'."
        raise invalid_value(name, value, f"Invalid value `{value}` for configuration {name}. {must}")


def _release(names: list[str]) -> Validator:
    """A release by its full name, its short one, or any of its patch releases: 3.5-IV2, 3.5, 3.5.1."""
    # A release under development has no short name yet.
    known = {*names, *(name.partition("-")[0] for name in names if not name.startswith("4."))}

    def check(name: str, value: Any) -> None:
        segments = 3 if value.startswith("0.") else 2
        if ".".join(value.split(".")[:segments]) not in known:
            why = f"Version {value} is not a valid version"
            raise invalid_value(name, value, why, allowed=f"a release from {names[0]} to {names[-1]}")

    return check


def _voters(name: str, value: Any) -> None:
    parse_voters(value)


def _bootstrap_servers(name: str, value: Any) -> None:
    parse_bootstrap_servers(value)


_BY_NAME: dict[str, Validator] = {
    "controller.quorum.voters": _voters,
    "controller.quorum.bootstrap.servers": _bootstrap_servers,
    "share.acknowledgement.mode": _acknowledgement_mode,
    "share.auto.offset.reset": _offset_reset(
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'", "earliest", "latest"
    ),
}
_BY_TEXT: dict[str, Validator] = {
    "non-null string": _non_null,
    "non-empty string": _non_empty_text,
    "[1,...,9] or -1": _gzip_level,
    "[partitionId]:[brokerId],[partitionId]:[brokerId],...": _throttled_replicas,
    "[latest, earliest, none, by_duration:PnDTnHnMn.nS]": _offset_reset(
        "'earliest', 'latest', 'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'",
        "earliest",
        "latest",
        "none",
    ),
    "The default value of -1 means that this will be set to the configured value of "
    "remote.log.manager.thread.pool.size, if available; otherwise, it defaults to 10.": _threads_or_inherited,
}
