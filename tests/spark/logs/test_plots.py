"""Plots: everything is drawn inside its frame, and at the same place as its label."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from barnabas.spark.logs.plots import COLOURS, heat, lines

LEFT, RIGHT = 60.0, 880.0
TOP, BOTTOM = 16.0, 204.0


def drawn(plot: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<plot>{plot}</plot>")


def points(plot: str) -> list[list[tuple[float, float]]]:
    """The points of each line."""
    found = []
    for line in drawn(plot).iter("polyline"):
        pairs = [pair.split(",") for pair in line.attrib["points"].split()]
        found.append([(float(x), float(y)) for x, y in pairs])
    return found


def labels(plot: str, names: list[str]) -> dict[str, float]:
    """Where these texts are."""
    texts = {text.text: float(text.attrib["x"]) for text in drawn(plot).iter("text")}
    return {name: texts[name] for name in names if name in texts}


@pytest.mark.parametrize("count", [2, 3, 8, 9, 40])
def test_a_line_goes_from_side_to_side_above_its_labels(count: int) -> None:
    names = [f"at {number}" for number in range(count)]
    plot = lines({"a": [float(number) for number in range(count)]}, names)
    (line,) = points(plot)
    assert len(line) == count
    assert (line[0], line[-1]) == ((LEFT, BOTTOM), (RIGHT, TOP))
    shown = labels(plot, names)
    assert names[0] in shown
    assert 2 <= len(shown) <= 16
    for name, x in shown.items():
        assert x == line[names.index(name)][0]


def test_values_are_in_proportion_to_the_largest_of_all_lines() -> None:
    plot = lines({"a": [0.0, 5.0], "b": [10.0, 2.5]}, ["x", "y"], " ms")
    height = BOTTOM - TOP
    assert points(plot) == [
        [(LEFT, BOTTOM), (RIGHT, BOTTOM - height / 2)],
        [(LEFT, TOP), (RIGHT, BOTTOM - height / 4)],
    ]
    assert [line.attrib["stroke"] for line in drawn(plot).iter("polyline")] == list(COLOURS[:2])
    grid = {text.text for text in drawn(plot).iter("text")}
    assert {"0 ms", "2.5 ms", "5 ms", "7.5 ms", "10 ms"} <= grid
    assert [float(line.attrib["y1"]) for line in drawn(plot).iter("line")] == [
        204.0,
        157.0,
        110.0,
        63.0,
        16.0,
    ]
    assert {(line.attrib["x1"], line.attrib["x2"]) for line in drawn(plot).iter("line")} == {("60", "880")}


def test_a_missing_value_is_a_gap() -> None:
    plot = lines({"a": [None, 1.0, 2.0, None, None, 4.0]}, list("uvwxyz"))
    assert [len(piece) for piece in points(plot)] == [2, 1]
    assert points(plot)[1] == [(RIGHT, TOP)]
    assert points(lines({"a": [None]}, ["x"])) == []
    assert points(lines({"a": [0.0]}, ["x"])) == [[(LEFT, BOTTOM)]]


def test_only_several_lines_have_a_legend() -> None:
    assert "legend" not in lines({"a": [1.0]}, ["x"])
    many = {f"<{number}>": [1.0] for number in range(len(COLOURS) + 1)}
    plot = lines(many, ["x"])
    assert [span.find("i").tail for span in drawn(plot).iter("span")] == list(many)  # type: ignore[union-attr]
    styles = [mark.attrib["style"] for mark in drawn(plot).iter("i")]
    assert styles[0] == styles[-1] == f"background:{COLOURS[0]}"


def test_squares_fill_the_width_in_a_row_for_each_name() -> None:
    names = [f"at {number}" for number in range(10)]
    values: list[float | None] = [None, 0.0, 0.05, 0.1, 0.2, 0, 0, 0, 0, 0]
    plot = heat({"a": values, "b": values}, names, 0.1)
    squares = [square.attrib for square in drawn(plot).iter("rect")]
    assert len(squares) == 20
    xs = [float(square["x"]) for square in squares[:10]]
    assert xs == [120.0 + 76 * number for number in range(10)]
    assert xs[-1] + float(squares[0]["width"]) <= RIGHT
    assert {square["y"] for square in squares[:10]} == {"16"}
    assert {square["y"] for square in squares[10:]} == {"36"}
    assert [square["fill"] for square in squares[:6]] == [
        "#eeeeee",
        "rgb(255,255,255)",
        "rgb(218,143,143)",
        "rgb(180,30,30)",
        "rgb(180,30,30)",
        "rgb(255,255,255)",
    ]
    titles = [title.text for title in drawn(plot).iter("title")]
    assert titles[:3] == ["a at 0: no requests", "a at 1: 0.0 %", "a at 2: 5.0 %"]
    for name, x in labels(plot, names).items():
        assert x == xs[names.index(name)]


def test_a_plot_of_nothing_is_empty() -> None:
    assert list(drawn(heat({}, [], 0.1)).iter("rect")) == []
    assert points(lines({}, [])) == []
