"""Write docs/reference/configuration.md from the option tables: `python -m tools.generate_config_docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from barnabas.config import BUILT_FEATURES, SECURITY_FEATURES, Feature, Mode, Option, OptionTable
from barnabas.config.scopes import BROKER_DYNAMIC, TABLES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "configuration.md"
LONGEST_CELL = 100

INTRODUCTION = """\
# Configuration

Written by `python -m tools.generate_config_docs` from `src/barnabas/config/tables/`; do not edit.

Names, types, defaults and valid values are Apache Kafka's: 4.1.0 in KRaft mode and for clients, 3.9.1 in
ZooKeeper mode (a properties file without `process.roles`).  A cell shows where the modes differ.  A value
comes from the first of these layers that has one: topic or group, this broker, cluster-wide, file and
`--override`, default.

- **update**: `read-only` needs a restart, `per-broker` and `cluster-wide` can change while the broker runs.
- **effect**: the part of the system that an option controls.  Setting an option of a part that is not built
  yet logs a warning; a security option prevents the start instead, so that no broker runs unprotected by
  mistake.  Options with the effect `none` are for the JVM, its thread pools and queues, JMX or old formats:
  they are accepted with a warning.
- The error for an invalid value names the option, the value and what is allowed; an unknown option logs a
  warning.
- The option of a single listener has a prefix: `listener.name.internal.max.connections`.
"""
CLIENTS = ("producer", "consumer", "admin")


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, _parts_table(), _without_effect()]
    for table in TABLES:
        parts.append(f"## {table.scope.capitalize()} options\n\n{_options(table)}")
        if table.scope == "broker":
            parts.append(f"### Only while a broker runs\n\n{_options(BROKER_DYNAMIC)}")
    return "\n".join(parts)


def _parts_table() -> str:
    lines = ["## Parts of the system", "", "| effect | built | if set before it is built |", "|---|---|---|"]
    for feature in Feature:
        if feature is not Feature.NONE:
            built = "yes" if feature in BUILT_FEATURES else "not yet"
            until_then = "refused" if feature in SECURITY_FEATURES else "warning"
            lines.append(f"| {feature} | {built} | {until_then} |")
    return "\n".join(lines) + "\n"


def _without_effect() -> str:
    lines = [
        "## Options without effect",
        "",
        "For the JVM, its thread pools and queues, JMX, old formats, and waits that are not here:",
        "",
    ]
    for table in TABLES:
        names = [f"`{option.name}`" for option in _sorted(table) if option.effect is Feature.NONE]
        if names:
            lines.append(f"- {table.scope}: {', '.join(names)}")
    return "\n".join(lines) + "\n"


def _options(table: OptionTable) -> str:
    columns = ["option", "type", "default", "valid", "effect", "meaning"]
    if table.scope == "broker":
        columns.insert(4, "update")
    rows = [[_cells(option)[column] for column in columns] for option in _sorted(table)]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _sorted(table: OptionTable) -> list[Option]:
    """The rows by name.  Clients have no mode: they have the options of the newer release."""
    if table.scope in CLIENTS:
        return [option._replace(only=None, zookeeper=None) for option in table.options().values()]
    return sorted(table, key=lambda option: option.name)


def _cells(option: Option) -> dict[str, str]:
    other = option.as_of(Mode.ZOOKEEPER)
    return {
        "option": f"`{option.name}`" + _marks(option),
        "type": _both(option.type, other.type),
        "default": _both(_default(option), _default(other)),
        "valid": _both(_code(option.valid), _code(other.valid)),
        "update": _both(option.update_mode, other.update_mode),
        "effect": option.effect,
        "meaning": option.doc.replace("|", "\\|") + _falls_back(option),
    }


def _marks(option: Option) -> str:
    marks = [] if option.only is None else [f"{option.only.name} mode only"]
    return "".join(f" ({mark})" for mark in marks + (["internal"] if option.internal else []))


def _both(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours} (ZOOKEEPER: {theirs or 'any'})"


def _default(option: Option) -> str:
    if option.required:
        return "(required)"
    return "(empty)" if option.default == "" else _code(option.default)


def _code(text: str | None) -> str:
    if not text:
        return ""
    return f"`{text}`" if len(text) <= LONGEST_CELL else f"`{text[: LONGEST_CELL - 2]}`…"


def _falls_back(option: Option) -> str:
    names = [f"`{name}`" for name in option.synonyms]
    return f" Falls back to {', '.join(names)}." if names else ""


def main() -> int:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
