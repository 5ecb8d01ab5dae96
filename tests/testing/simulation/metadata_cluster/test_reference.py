"""The comparison of images: whatever differs is seen, also beside parts that were equal before."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from immutables import Map

from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.testing.simulation.metadata_cluster.reference import MAX_EQUAL, Comparison


def test_every_field_counts_but_the_timestamp() -> None:
    # M-C11
    same = Comparison().same
    for field in fields(Image):
        value: object = getattr(EMPTY_IMAGE, field.name)
        changed: dict[str, Any] = {field.name: value + 1 if isinstance(value, int) else Map({1: 1})}
        other = replace(EMPTY_IMAGE, **changed)
        assert same(EMPTY_IMAGE, other) is same(other, EMPTY_IMAGE) is (field.name == "timestamp_ms")


def test_equal_parts_are_remembered_and_bounded() -> None:
    comparison = Comparison()

    def image(number: int) -> Image:
        return replace(EMPTY_IMAGE, features=Map({"a": number}), configs=Map({(2, "t"): Map({"b": "c"})}))

    one, other = image(1), image(1)
    assert comparison.same(one, other)
    assert comparison.same(one, other)
    assert not comparison.same(replace(one, offset=1), other)
    assert not comparison.same(one, image(2))
    for number in range(2 * MAX_EQUAL):
        assert comparison.same(image(number), image(number))
    assert len(comparison._equal) <= MAX_EQUAL
