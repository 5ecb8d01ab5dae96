"""The topics that an expression matches."""

from __future__ import annotations

import pytest

from barnabas.cli.framework.exits import UsageError
from barnabas.cli.framework.topic_filter import TopicFilter, matching_topics


@pytest.mark.parametrize(
    ("expression", "name", "allowed"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("ord.*", "orders", True),
        ("a,b", "b", True),
        ("'quoted'", "quoted", True),
        ('" a , b "', "a", True),
        (r"dot\.ted", "dot.ted", True),
        (r"dot\.ted", "dotXted", False),
    ],
)
def test_whole_names_must_match(expression: str, name: str, allowed: bool) -> None:
    assert TopicFilter(expression).allows(name) is allowed


def test_a_wrong_expression_is_refused() -> None:
    with pytest.raises(UsageError, match="is an invalid regex"):
        TopicFilter("a(")


def test_names_come_sorted_and_internal_ones_may_be_left_out() -> None:
    names = ["b", "__consumer_offsets", "a"]
    assert matching_topics(names, None, exclude_internal=False) == ["__consumer_offsets", "a", "b"]
    assert matching_topics(names, ".*", exclude_internal=True) == ["a", "b"]
