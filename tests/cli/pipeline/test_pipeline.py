"""`barnabas pipeline`, as far as it works without Spark."""

from __future__ import annotations

import io
import json
import logging
import signal
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.cli.pipeline import run as pipeline_run
from barnabas.cli.pipeline import status as pipeline_status
from barnabas.spark.pipeline.checkpoints import claim
from barnabas.spark.pipeline.running import Progress
from tools.ports import free_ports

PIPELINE = """
from barnabas.spark.pipeline import Pipeline

pipeline = Pipeline("orders", settings={"table": "tables/orders"})

@pipeline.source
def lines(spark, settings): return spark.readStream

@pipeline.transform
def parsed(lines): return lines

pipeline.to_dead_letters("bad", of=parsed, topic="orders.bad")
pipeline.to_parquet("table", of=parsed, path="{table}")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    # No broker responds there, and that must not take long.
    monkeypatch.setattr(pipeline_status, "REQUEST_TIMEOUT_MS", 300)
    Path("orders.py").write_text(PIPELINE, "utf-8")
    return "orders.py"


def checkpoint_of(sink: str) -> Path:
    """One batch done, one started."""
    claim(Path("checkpoints/orders"), "orders", {"bad": ["lines (orders)"], "table": ["lines (orders)"]})
    folder = Path("checkpoints/orders") / sink
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for number in ("0", "1"):
        (folder / "offsets" / number).write_text('v1\n{"batchWatermarkMs":0}\n{"orders":{"0":7}}', "utf-8")
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":1700000000000}', "utf-8")
    return folder


def test_a_drawing(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "graph", file, "--set", "table=elsewhere"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "orders",
        "└─ lines (source)",
        "   └─ parsed",
        "      ├→ bad: topic orders.bad, exactly once",
        "      └→ table: files elsewhere",
    ]
    assert main(["pipeline", "graph", file, "--dot"]) == 0
    assert capsys.readouterr().out.startswith('digraph "orders" {')
    assert main(["pipeline", "graph", file, "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR")


def test_status_of_a_stopped_pipeline(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint_of("bad")
    unreachable = f"bootstrap=127.0.0.1:{free_ports(1)[0]}"
    assert main(["pipeline", "status", file, "-o", "jsonl", "--set", unreachable]) == 0
    output = capsys.readouterr()
    bad, table = (json.loads(line) for line in output.out.splitlines())
    assert bad.pop("done").endswith("Z")
    assert bad == {
        "sink": "bad",
        "state": "stopped",
        "batch": 0,
        "lag": None,
        "watermark": "2023-11-14T22:13:20Z",
        "reads": ["lines (orders)"],
        "to": "topic orders.bad, exactly once",
        "begun": 1,
        "offsets": {"orders": {"0": 7}},
    }
    assert (table["state"], table["batch"], table["lag"]) == ("new", None, None)
    assert output.err.startswith("barnabas pipeline status: the lag is unknown: ")
    assert main(["pipeline", "status", file, "-o", "wide", "--set", unreachable]) == 0
    assert "orders-0:7" in capsys.readouterr().out


def test_reset_asks_for_confirmation_and_keeps_the_output(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoint_of("bad")
    written = Path("tables/orders")
    written.mkdir(parents=True)
    assert main(["pipeline", "reset", file]) == 2
    assert "no terminal to confirm on" in capsys.readouterr().err
    assert main(["pipeline", "reset", file, "--dry-run"]) == 0
    assert folder.is_dir()
    output = capsys.readouterr().err
    assert "remove checkpoints/orders/bad (1 batches done)" in output
    assert "keep the output" in output
    assert main(["pipeline", "reset", file, "--yes", "--only", "bad"]) == 0
    assert not folder.exists()
    assert written.is_dir()
    capsys.readouterr()
    assert main(["pipeline", "reset", file, "--yes"]) == 0
    assert capsys.readouterr().err == "orders: there is no checkpoint in checkpoints/orders; nothing to do\n"


def test_reset_reports_files_that_must_be_moved(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint_of("table")
    (Path("tables/orders") / "_spark_metadata").mkdir(parents=True)
    assert main(["pipeline", "reset", file, "--yes"]) == 0
    output = capsys.readouterr()
    assert "then move tables/orders away, or give table another path" in output.out + output.err
    assert "orders: starts from the beginning once that folder is moved\n" in output.err


def test_reset_leaves_checkpoints_of_other_pipelines(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    claim(Path("checkpoints/orders"), "bills", {})
    (Path("checkpoints/orders") / "bad").mkdir()
    assert main(["pipeline", "reset", file, "--yes"]) == 1
    assert (
        "is the checkpoint of the pipeline bills, not of orders; nothing was done" in capsys.readouterr().err
    )
    assert main(["pipeline", "reset", file, "--yes", "--set", "checkpoint=s3a://bucket/x"]) == 1
    assert "s3a://bucket/x is not a local folder" in capsys.readouterr().err


def test_a_pipeline_without_a_report_has_one_of_its_queries(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoint_of("bad")
    (folder / "offsets" / "1").write_text(
        'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1700000000000}\n{"orders":{"0":1900,"1":5}}', "utf-8"
    )
    (folder / "commits" / "1").write_text("v1\n{}", "utf-8")
    unreachable = f"bootstrap=127.0.0.1:{free_ports(1)[0]}"
    assert main(["pipeline", "report", file, "--set", unreachable]) == 0
    assert capsys.readouterr().out == "report.html\n"
    page = Path("report.html").read_text("utf-8")
    assert "<h1>Pipeline orders</h1>" in page
    assert "topic orders.bad, exactly once" in page
    assert '<td class="">1<td class="t">2023-11-14 22:13:20' in page
    assert '<td class="">1,898' in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_report_is_written_by_the_pipeline(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Path(file).open("a") as more:
        more.write("from pathlib import Path\n")
        more.write('pipeline.report = lambda settings, path: Path(path).write_text(settings["table"])\n')
    assert main(["pipeline", "report", file, "--out", "page.html", "--set", "table=here"]) == 0
    assert capsys.readouterr().out == "page.html\n"
    assert Path("page.html").read_text("utf-8") == "here"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["graph", "nowhere.py"], 1, "barnabas pipeline graph: nowhere.py: there is no such file"),
        (["graph", "orders.py", "--set", "tabel=x"], 1, "orders has no setting tabel; there is bootstrap, checkpo"),
        (["graph", "orders.py", "--set", "table"], 2, "--set table: give KEY=VALUE"),
        (["run", "orders.py", "--once", "--every", "1 second"], 2, "--once and --every cannot be combined"),
        (["run", "orders.py", "--only", "bed"], 2, "orders has no sink bed; it has bad, table"),
        (["run", "orders.py", "--set", "checkpoint=orders.py"], 1, "orders.py is not a writable folder (File"),
        (["reset", "orders.py", "--only", "bed"], 2, "orders has no sink bed; it has bad, table"),
        (["rum", "orders.py"], 2, "unknown command rum (did you mean run?)"),
    ],
)  # fmt: skip
def test_wrong_command_lines(
    file: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert main(["pipeline", *arguments]) == code
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Running:
    def progress(self) -> list[Progress]:
        return [
            Progress("counts", 12, 5, 1234.5, 350, 7, 2048, 3, "2026-01-01T12:00:00.000Z", 42, 1_000_000),
            Progress("table", 0, 0, 0.0, 4, 0, 0, 0, "", None),
        ]


def test_progress_in_a_log_and_on_a_terminal(file: str) -> None:
    from barnabas.spark.pipeline import load

    pipeline, running = load(file), _Running()
    log = io.StringIO()
    pipeline_run.View(pipeline, log).show(running)  # type: ignore[arg-type]
    assert log.getvalue().splitlines() == [
        "counts: batch 12, 1,000,000 rows, 1,234 rows/s, lag 42, 350 ms, state 7 rows, 2.0 kB, 3 late rows dropped, watermark 2026-01-01T12:00:00.000Z",
        "table: batch 0, 0 rows, 0 rows/s, lag -, 4 ms",
    ]
    terminal = _Terminal()
    view = pipeline_run.View(pipeline, terminal)
    view.show(running, is_last=True)  # type: ignore[arg-type]
    first = terminal.getvalue()
    assert first.count("\n") == 3
    assert "LAG" in first
    # The next table replaces the first.
    view.show(running, is_last=True)  # type: ignore[arg-type]
    assert terminal.getvalue() == first + "\x1b[3F\x1b[J" + first
    view.print("stopped")
    assert terminal.getvalue().endswith("orders: stopped\n")


def test_a_silent_master_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pipeline_run._reporting_silent_master("orders", "spark://host:7077"):
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= pipeline_run.MASTER_SILENT_S
        signal.raise_signal(signal.SIGALRM)
    assert capfd.readouterr().err == (
        "orders: spark://host:7077 has not accepted the application yet; Spark waits for about a minute\n"
    )
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    with pipeline_run._reporting_silent_master("orders", "local[2]"):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_errors_of_queries_are_not_logged_by_pyspark(capsys: pytest.CaptureFixture[str]) -> None:
    """PySpark would also log them as JSON."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(name) for name in pipeline_run.QUERY_LOGGERS]
    try:
        pipeline_run._silence_query_loggers()
        for logger in loggers:
            logger.error("a column is not there", errorClass="UNRESOLVED_COLUMN")
        assert capsys.readouterr() == ("", "")
    finally:
        for logger in loggers:
            logger.setLevel(logging.NOTSET)
