"""Plots: everything is drawn where it is in time, and at the same place as its label."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta

import pytest

from barnabas.spark.logs.report.axis import TimeAxis, main_part, numbers
from barnabas.spark.logs.report.plots import Bar, bars, heat

START = datetime(2026, 1, 31, 23, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def drawn(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<plot>{plot.replace('<br>', ' ')}</plot>")


def squares(plot: str, kind: str) -> list[tuple[float, float, float, float]]:
    found = (each.attrib for each in drawn(plot).iter("rect") if each.attrib["class"] == kind)
    return [tuple(float(each[name]) for name in ("x", "y", "width", "height")) for each in found]  # type: ignore[misc]


def test_bars_stand_at_their_time_and_in_proportion() -> None:
    axis = TimeAxis(START, START + 4 * HOUR)
    found = [
        Bar(0, START, START + HOUR, (10, 90), "first"),
        Bar(5, START + 3 * HOUR, START + 4 * HOUR, (0, 50), "<last>"),
    ]
    plot = bars(found, ("errors", "lines"), axis, "lines")
    assert squares(plot, "errors") == [(0.0, 180.0, 249.6, 20.0)]
    assert squares(plot, "lines") == [(0.0, 0.0, 249.6, 180.0), (750.0, 100.0, 249.6, 100.0)]
    assert [each.text for each in drawn(plot).iter("title")] == ["first", "<last>"]
    assert [each.attrib["data-window"] for each in drawn(plot).iter("g")] == ["0", "5"]


def test_rates_have_the_colours_of_the_scale() -> None:
    axis = TimeAxis(START, START + 4 * HOUR)
    values = [None, 0.0, 0.005, 0.6]
    row = [(n, START + n * HOUR, START + (n + 1) * HOUR, value) for n, value in enumerate(values)]
    plot = heat({"a<b": row}, axis)
    kinds = [each.attrib["class"] for each in drawn(plot).iter("rect")]
    assert kinds == ["none", "rate0", "rate1", "rate6"]
    assert next(drawn(plot).iter("title")).text == "a<b 2026-01-31 23:00:00: no requests"


@pytest.mark.parametrize(
    ("most", "labels"),
    [
        (0, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (97, ["0", "25", "50", "75", "100"]),
        (100, ["0", "25", "50", "75", "100"]),
        (1_234_567, ["0", "500,000", "1,000,000", "1,500,000"]),
    ],
)
def test_numbers_are_plain_and_round(most: int, labels: list[str]) -> None:
    ticks = numbers(most)
    assert [tick.label for tick in ticks] == labels
    assert (ticks[0].place, ticks[-1].place) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (timedelta(seconds=20), ["23:00:00\n31 Jan 2026", "23:00:05", "23:00:10", "23:00:15"]),
        (
            4 * HOUR,
            ["23:00\n31 Jan 2026", "23:30", "00:00\n1 Feb 2026", "00:30", "01:00", "01:30", "02:00", "02:30"],
        ),
        (timedelta(days=3000), ["18 Dec 2027", "17 Dec 2029", "17 Dec 2031", "16 Dec 2033"]),
    ],
)
def test_times_are_round_and_have_dates(length: timedelta, labels: list[str]) -> None:
    ticks = TimeAxis(START, START + length).ticks()
    assert [tick.label for tick in ticks] == labels
    assert all(0 <= tick.place < 1 for tick in ticks)


def test_few_lines_far_away_are_strays_and_a_quiet_night_is_none() -> None:
    day = [(START + n * HOUR, START + (n + 1) * HOUR, 100) for n in range(10)]
    evening = [(begin + 20 * HOUR, end + 20 * HOUR, 100) for begin, end, _ in day]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert main_part([(epoch, epoch + HOUR, 3), *evening, *day]) == (day[0][0], evening[-1][1])
    assert main_part([]) is None
