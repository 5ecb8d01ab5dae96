"""Every option that is accepted without a warning has an effect: code outside the tables reads it.

An option whose part of the system is built causes no warning, so users rely on it.  An option without a meaning
here is in the list without effect, and one that needs an unbuilt part names that part.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from barnabas.config import BUILT_FEATURES, Option, OptionTable
from barnabas.config.scopes import BROKER, BROKER_DYNAMIC, TABLES, TOPIC
from barnabas.storage.cleaner.cleaner import CleanerOptions
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log_tasks import LogTaskOptions

SOURCES = Path(__file__).parents[2] / "src" / "barnabas"
# Options are declared, validated and listed here, which gives them no effect.
NOT_READING = (
    "config/tables/",
    "config/values/validators.py",
    "config/layers.py",
    "config/node/dynamic_rules.py",
)
# Fields of these are filled from options of the same name, `_` for `.`, behind a prefix.
FILLED = ((LogOptions, ""), (LogTaskOptions, ""), (CleanerOptions, "log.cleaner."))


@cache
def named() -> frozenset[str]:
    """Every string in the code; of f-strings, the constant parts."""
    found: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        if not path.relative_to(SOURCES).as_posix().startswith(NOT_READING):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.add(node.value)
    return frozenset(found)


@cache
def filled() -> frozenset[str]:
    return frozenset(
        prefix + field.replace("_", ".") for kind, prefix in FILLED for field in kind.__dataclass_fields__
    )


def is_read(name: str) -> bool:
    return name in named() or name in filled()


def gives_a_topic_its_value(name: str) -> bool:
    return any(is_read(option.name) for option in TOPIC if name in option.synonyms)


def unread(table: OptionTable) -> list[str]:
    built = [option for option in table if option.effect in BUILT_FEATURES]
    return [option.name for option in built if not has_effect(option, table)]


def has_effect(option: Option, table: OptionTable) -> bool:
    if is_read(option.name):
        return True
    return table is BROKER and gives_a_topic_its_value(option.name)


@pytest.mark.parametrize("table", [*TABLES, BROKER_DYNAMIC], ids=lambda table: table.scope)
def test_every_option_of_a_part_that_is_built_is_read(table: OptionTable) -> None:
    assert unread(table) == [], "read them, or give them the effect `none` or the part that is missing"


@pytest.mark.parametrize("path", NOT_READING)
def test_every_excluded_path_exists(path: str) -> None:
    assert (SOURCES / path).exists(), (
        "a path that was moved would be searched again, and give options an effect"
    )


def test_the_search_distinguishes_read_from_unread_options() -> None:
    assert is_read("socket.request.max.bytes")
    assert is_read("segment.index.bytes")
    assert is_read("log.cleaner.backoff.ms")
    assert gives_a_topic_its_value("log.segment.bytes")
    assert not is_read("log.cleaner.nothing.ms")
    assert not is_read("alter.log.dirs.replication.quota.window.num")
