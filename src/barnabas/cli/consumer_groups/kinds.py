"""The states and types by which groups are listed."""

from __future__ import annotations

from barnabas.cli.framework.flag_rules import FlagRules

# In the order in which Apache Kafka names them.
STATES = ("Assigning", "CompletingRebalance", "Dead", "Empty", "Stable", "PreparingRebalance", "Reconciling")
TYPES = ("Consumer", "Classic")


def states_named(given: str, rules: FlagRules) -> list[str]:
    return _named(given, STATES, "state list", "states", rules)


def types_named(given: str, rules: FlagRules) -> list[str]:
    return _named(given, TYPES, "types list", "types", rules)


def _named(given: str, known: tuple[str, ...], what: str, plural: str, rules: FlagRules) -> list[str]:
    """Words with commas between them, in whatever case; none if nothing is given."""
    by_name = {one.lower(): one for one in known}
    wanted = [one.strip().lower() for one in given.split(",")] if given else []
    if any(one not in by_name for one in wanted):
        rules.refuse(f"Invalid {what} '{given}'. Valid {plural} are: {', '.join(known)}")
    return [by_name[one] for one in wanted]
