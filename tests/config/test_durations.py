"""Durations as Java's Duration.parse reads them."""

from __future__ import annotations

import pytest

from barnabas.config.values.durations import parse_duration_ns


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", 3600),
        ("pt1h30m", 5400),
        ("P2D", 172_800),
        ("P1DT1S", 86_401),
        ("PT0.5S", 0.5),
        ("PT-0.5S", -0.5),
        ("-PT1M", -60),
        ("PT1H-1M", 3540),
        ("+PT1,25S", 1.25),
        ("PT1.S", 1),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_ns(text) == int(seconds * 1_000_000_000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1DT",
        "1H",
        "P1Y",
        "PT1H ",
        "PT.5S",
        "PT1.0123456789S",
        "P106751991167301D",
        "P" + "9" * 300 + "D",
    ],
)
def test_invalid_durations(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_ns(text)
