"""Valid and invalid topic names."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.topic_names import check_topic_name, collision_key, is_internal, is_valid


@pytest.mark.parametrize("name", ["orders", "a.b", "a_b-c.D9", "x" * 249, "__consumer_offsets", "..."])
def test_valid_names(name: str) -> None:
    assert is_valid(name)
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, "longer than the max allowed length 249"),
        ("a/b", "contains one or more characters"),
        ("a\n", "contains one or more characters"),
        ("../../etc/passwd", "contains one or more characters"),
        ("größe", "contains one or more characters"),
    ],
)
def test_invalid_names(name: str, fault: str) -> None:
    with pytest.raises(KafkaError, match=fault) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused.value.message.startswith("Topic name is invalid: ")


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a-b") != collision_key("a_b")


def test_internal_topics() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__cluster_metadata")
