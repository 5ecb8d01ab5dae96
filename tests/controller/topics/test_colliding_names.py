"""Names that would collide in metric names."""

from __future__ import annotations

from barnabas.controller.topics.colliding_names import CollidingNames


def test_a_period_and_an_underscore_collide() -> None:
    names = CollidingNames()
    names.add("a.b")
    names.add("plain")
    assert names.find("a_b") == names.find("a.b") == "a.b"
    assert (names.find("a.c"), names.find("plain"), names.find("ab")) == (None, None, None)


def test_a_name_is_free_when_all_that_collide_with_it_are_removed() -> None:
    names = CollidingNames()
    names.add("a.b")
    names.add("a_b")
    names.remove("a.b")
    assert names.find("a.b") == "a_b"
    names.remove("a.b")
    names.remove("never.there")
    assert names.find("a.b") == "a_b"
    names.remove("a_b")
    assert names.find("a.b") is None
    names.add("a.b")
    names.replace(["c_d", "e"])
    assert (names.find("a.b"), names.find("c.d")) == (None, "c_d")
