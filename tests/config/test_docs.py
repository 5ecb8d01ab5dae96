"""The reference page is what the tables say."""

from __future__ import annotations

from barnabas.config import Feature
from barnabas.config.scopes import TABLES
from tools.generate_config_docs import PAGE, page


def test_the_reference_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tools.generate_config_docs`"


def test_the_page_lists_the_options_without_effect() -> None:
    listed = page().split("## Options without effect")[1].split("##")[0]
    for option in TABLES[0]:
        assert (f"`{option.name}`" in listed) == (option.effect is Feature.NONE)
