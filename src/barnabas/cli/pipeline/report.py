"""The report of a pipeline that has none of its own: what its queries have done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli.friendly.output import Row
from barnabas.cli.pipeline.status import status_rows

if TYPE_CHECKING:
    from barnabas.spark.pipeline import Pipeline
    from barnabas.spark.pipeline.checkpoints import BatchDone

MOST_BATCHES = 30


def write_report(pipeline: Pipeline, settings: dict[str, str], folder: Path, path: str) -> None:
    """Read the checkpoint, and write a page."""
    from barnabas.spark.logs.report import write_page
    from barnabas.spark.pipeline.checkpoints import batches_done
    from barnabas.spark.pipeline.graph import drawing

    def make() -> str:
        rows, problem = status_rows(pipeline, settings, folder)
        batches = {name: batches_done(folder / name, MOST_BATCHES) for name in pipeline.sinks}
        return page(pipeline.name, rows, problem, batches, drawing(pipeline, settings))

    write_page(path, make)


def page(
    name: str,
    rows: Sequence[Row],
    problem: str,
    batches: dict[str, list[BatchDone]],
    graph: Sequence[str],
) -> str:
    from barnabas.spark.logs.report.html_page import table, whole_page

    queries = [
        (
            *(_text(row[column]) for column in ("sink", "state", "batch", "done")),
            *(_text(row[column]) for column in ("lag", "watermark", "to")),
        )
        for row in rows
    ]
    sections = [
        f"<h1>Pipeline {escape(name)}</h1>",
        f'<p class="soft">{escape(problem)}</p>' if problem else "",
        "<h2>Queries</h2>",
        table("sink:t state:t batches_up_to done:t records_behind watermark:t,less to:t,less", queries),
    ]
    for sink, done in batches.items():
        if done:
            sections += [f"<h2>Batches of {escape(sink)}</h2>", _batches(done)]
    sections += ["<h2>How it is put together</h2>", f"<pre>{escape(chr(10).join(graph))}</pre>"]
    return whole_page(f"Pipeline {name}", "".join(sections))


def _batches(done: Sequence[BatchDone]) -> str:
    from barnabas.spark.logs.report.html_page import table

    rows = []
    for batch in reversed(done):
        begun = batch.begun_ms
        began = "" if begun is None else f"{datetime.fromtimestamp(begun / 1000, UTC):%Y-%m-%d %H:%M:%S}"
        took = "" if begun is None else f"{(batch.done_ms - begun) / 1000:,.1f} s"
        rows.append((str(batch.number), began, took, "" if batch.records is None else f"{batch.records:,}"))
    return table("batch began:t took records", rows)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
