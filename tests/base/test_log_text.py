"""Client-supplied text in log lines."""

from __future__ import annotations

import pytest

from barnabas.base.log_text import LONGEST_SHOWN, MOST_SHOWN, shown, shown_all


@pytest.mark.parametrize("text", ["", "orders", "päivä", "x" * LONGEST_SHOWN])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a\\nb"),
        ("a\r\tb", "a\\r\\tb"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\u2028b", "a\\u2028b"),
        ("\ud800", "\\ud800"),
    ],
)
def test_unprintable_characters_are_escaped(text: str, line: str) -> None:
    assert shown(text) == line
    assert len(shown(text).splitlines()) == 1


def test_long_text_is_cut_and_counted() -> None:
    assert shown("x" * 30_000, 10) == "xxxxxxxxxx... (29990 more characters)"


def test_only_the_first_few_of_many_are_shown() -> None:
    assert shown_all(["a", "b"]) == "a, b"
    assert shown_all([str(number) for number in range(MOST_SHOWN + 5)]).endswith("9 and 5 more")


def test_none_is_shown_as_null() -> None:
    assert shown(None) == "null"
