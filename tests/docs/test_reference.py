"""The generated reference pages are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas import testing
from barnabas.cli.framework.exits import Exit
from barnabas.cli.main import COMMANDS
from tests.broker.worlds.front_world import Front
from tools import generate_option_types
from tools.generate_reference import EXITS, PAGES, REFERENCE, commands_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    written = (REFERENCE / name).read_text("utf-8")
    assert written == PAGES[name](), "run `python -m tools.generate_reference`"


def test_every_part_of_the_test_kit_is_explained() -> None:
    page = (REFERENCE / "test-kit.md").read_text("utf-8")
    for name in testing.__all__:
        assert f"## {name}\n" in page or f"| `{name}" in page, name
    assert re.findall(r"^\| `.*` \|\s*\|$", page, re.M) == []


def test_every_command_and_exit_code_is_documented() -> None:
    page = commands_page()
    assert [name for name in COMMANDS if f"`barnabas {name}" not in page] == []
    assert set(EXITS) == set(Exit)


def test_every_metric_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        served = set(re.findall(r"^# TYPE (\w+)", front.broker.metrics.text(), re.M))
    explained = set(re.findall(r"^\| `(\w+)", (DOCS / "how-to" / "monitor.md").read_text("utf-8"), re.M))
    assert served - explained == set()


def test_the_types_of_options_are_up_to_date() -> None:
    written = generate_option_types.MODULE.read_text("utf-8")
    assert written == generate_option_types.module(), "run `python -m tools.generate_option_types`"
