"""The group states and types that --list filters by."""

from __future__ import annotations

from barnabas.cli.framework.flag_rules import FlagRules

# In Apache Kafka's order.
STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "Stable", "PreparingRebalance", "Reconciling")
TYPES = ("Consumer", "Classic")


def states_named(given: str, rules: FlagRules) -> list[str]:
    return _named(given, STATES, "state list", "states", rules)


def types_named(given: str, rules: FlagRules) -> list[str]:
    return _named(given, TYPES, "types list", "types", rules)


def _named(given: str, known: tuple[str, ...], label: str, plural: str, rules: FlagRules) -> list[str]:
    """Comma-separated names in any case; empty if `given` is empty."""
    by_name = {name.lower(): name for name in known}
    wanted = [name.strip().lower() for name in given.split(",")] if given else []
    if any(name not in by_name for name in wanted):
        rules.refuse(f"Invalid {label} '{given}'. Valid {plural} are: {', '.join(known)}")
    return [by_name[name] for name in wanted]
