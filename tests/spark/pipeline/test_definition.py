"""The definition of a pipeline, and its errors, reported before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.spark.pipeline.definition import Kind

# Replaces a function that returns a DataFrame.
NOTHING: Any = lambda *_: None  # noqa: E731


def made() -> Pipeline:
    pipeline = Pipeline("orders", settings={"window": "1 minute"})
    pipeline.add("lines", Kind.SOURCE, NOTHING, ("spark", "settings"))
    return pipeline


def test_parts_follow_what_they_take() -> None:
    pipeline = Pipeline("orders")

    @pipeline.transform
    def counts(parsed: Any, owners: Any, settings: Any) -> Any: ...

    @pipeline.transform
    def parsed(lines: Any, limit: int = 3) -> Any: ...

    @pipeline.source
    def lines(spark: Any) -> Any: ...

    @pipeline.table
    def owners(spark: Any) -> Any: ...

    @pipeline.transform
    def unused(lines: Any) -> Any: ...

    pipeline.to_topic("counts", of=counts, topic="counts", exactly_once=True)
    pipeline.check()
    assert [part.name for part in pipeline.order()] == ["lines", "parsed", "owners", "counts", "unused"]
    assert [part.name for part in pipeline.needed_by(["counts"])] == ["lines", "parsed", "owners", "counts"]
    assert pipeline.parts["parsed"].takes == ("lines",)
    assert pipeline.sinks["counts"].options == {
        "kafka.bootstrap.servers": "{bootstrap}",
        "topic": "counts",
        "deliveryGuarantee": "exactly-once",
        "sinkId": "orders-counts",
    }


def test_parts_that_take_the_sink_are_created_per_sink() -> None:
    pipeline = made()
    pipeline.add("own", Kind.SOURCE, NOTHING, ("spark", "sink"))
    pipeline.add("parsed", Kind.TRANSFORM, NOTHING, ("own",))
    pipeline.add("same", Kind.TRANSFORM, NOTHING, ("lines",))
    pipeline.add("both", Kind.TRANSFORM, NOTHING, ("same", "parsed"))
    pipeline.to_parquet("x", of="both", path="x")
    pipeline.check()
    assert pipeline.by_sink() == {"own", "parsed", "both"}
    with pytest.raises(PipelineError, match="cannot be called sink"):
        pipeline.add("sink", Kind.TABLE, NOTHING, ("spark",))


def test_settings_have_defaults_and_no_others_are_taken() -> None:
    pipeline = made()
    assert pipeline.settings_with({"window": "5 seconds"}) == {
        "window": "5 seconds",
        "bootstrap": "localhost:9092",
        "checkpoint": "checkpoints/orders",
    }
    with pytest.raises(
        PipelineError, match="orders has no setting windw; there is bootstrap, checkpoint, window"
    ):
        pipeline.settings_with({"windw": "5 seconds"})


def test_an_invalid_graph_is_reported() -> None:
    with pytest.raises(PipelineError, match="orders writes nothing: add a sink"):
        made().check()
    unknown = made()
    unknown.to_topic("x", of="parsd", topic="x")
    with pytest.raises(PipelineError, match="the sink x takes parsd, which is not defined; there is lines"):
        unknown.check()
    circle = made()
    circle.add("a", Kind.TRANSFORM, lambda b: b, ("b",))
    circle.add("b", Kind.TRANSFORM, lambda a: a, ("a",))
    circle.to_parquet("x", of="a", path="x")
    with pytest.raises(PipelineError, match="in a circle: a -> b -> a"):
        circle.check()
    source = made()
    source.add("more", Kind.SOURCE, lambda lines: lines, ("lines",))
    source.to_parquet("x", of="more", path="x")
    with pytest.raises(PipelineError, match="the source more takes lines; only transforms take other parts"):
        source.check()


def test_names_are_given_once_and_can_be_used() -> None:
    pipeline = made()
    with pytest.raises(PipelineError, match="lines is defined twice"):
        pipeline.add("lines", Kind.TABLE, NOTHING, ("spark",))
    with pytest.raises(PipelineError, match="cannot be called settings"):
        pipeline.add("settings", Kind.TABLE, NOTHING, ("spark",))
    pipeline.to_topic("x", of="lines", topic="x")
    with pytest.raises(PipelineError, match="the sink x is defined twice"):
        pipeline.to_parquet("x", of="lines", path="x")
    with pytest.raises(PipelineError, match=r"cannot be called '\.\./x'"):
        pipeline.to_parquet("../x", of="lines", path="x")
    for name in ("x y", "../../x", "..", "", "x" * 101):
        with pytest.raises(
            PipelineError, match=r"^a pipeline cannot be called '.*': use 1 to 100 letters, di"
        ):
            Pipeline(name)
    with pytest.raises(PipelineError, match="mode 'apend' is none of append, update, complete"):
        pipeline.to_topic("y", of="lines", topic="x", mode="apend")
    with pytest.raises(PipelineError, match=r"takes \*frames; name the parts"):

        @pipeline.transform
        def joined(*frames: Any) -> Any: ...
