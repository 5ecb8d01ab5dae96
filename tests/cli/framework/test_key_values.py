"""Properties on command lines."""

from __future__ import annotations

from argparse import Namespace

from barnabas.cli.framework.key_values import key_values, merge_flags


def test_the_first_equals_sign_parts_key_and_value() -> None:
    assert key_values(["a=b=c", "d", "e=", "a=again"]) == {"a": "again", "d": "", "e": ""}


def test_a_flag_takes_precedence_over_a_property_and_that_over_a_default() -> None:
    rows = (("one", "o", 1), ("two", "t", 2), ("three", "h", 3))
    options = Namespace(one=7, two=None, three=None)
    given = {"o": 8, "t": 9, "other": 0}
    assert merge_flags(given, options, rows) == {"o": 7, "t": 9, "h": 3, "other": 0}
    assert given == {"o": 8, "t": 9, "other": 0}
