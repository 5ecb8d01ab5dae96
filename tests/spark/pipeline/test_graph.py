"""Drawings of pipelines."""

from __future__ import annotations

from typing import Any

from barnabas.spark.pipeline import Pipeline, graph
from barnabas.spark.pipeline.definition import Kind

# Replaces a function that returns a DataFrame.
NOTHING: Any = lambda *_: None  # noqa: E731


def made() -> Pipeline:
    pipeline = Pipeline("orders", settings={"table": "tables/orders"})
    pipeline.add("lines", Kind.SOURCE, NOTHING, ("spark",))
    pipeline.add("answers", Kind.SOURCE, NOTHING, ("spark",))
    pipeline.add("owners", Kind.TABLE, NOTHING, ("spark",))
    pipeline.add("parsed", Kind.TRANSFORM, NOTHING, ("lines",))
    pipeline.add("joined", Kind.TRANSFORM, NOTHING, ("owners", "parsed", "answers"))
    pipeline.to_dead_letters("bad", of="parsed", topic="orders.bad")
    pipeline.to_parquet("table", of="joined", path="{table}")
    return pipeline


def test_a_drawing_for_the_terminal() -> None:
    pipeline = made()
    assert graph.drawing(pipeline, pipeline.settings) == [
        "orders",
        "├─ lines (source)",
        "│  └─ parsed",
        "│     ├→ bad: topic orders.bad, exactly once",
        "│     └─ joined (with owners, answers)",
        "│        └→ table: files tables/orders",
        "└─ answers (source)",
    ]


def test_drawings_for_other_tools() -> None:
    pipeline = made()
    dot = graph.dot(pipeline, pipeline.settings)
    assert (dot[0], dot[-1]) == ('digraph "orders" {', "}")
    assert {line.strip() for line in dot if "->" in line} == {
        '"lines" -> "parsed";',
        '"owners" -> "joined";',
        '"parsed" -> "joined";',
        '"answers" -> "joined";',
        '"parsed" -> "sink bad";',
        '"joined" -> "sink table";',
    }
    mermaid = graph.mermaid(pipeline, pipeline.settings)
    assert mermaid[0] == "flowchart LR"
    assert sum("-->" in line for line in mermaid) == 6
    assert '  s1>"table: files tables/orders"]' in mermaid
