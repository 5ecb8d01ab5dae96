"""User errors are reported in one line, with their position; without a session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from barnabas.spark.pipeline import Pipeline, PipelineError
from barnabas.spark.pipeline.definition import Kind, Part, filled
from barnabas.spark.pipeline.faults import fault_of, reason
from barnabas.spark.pipeline.starting import _frame, _query

HERE = Path(__file__).name

FAILED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure:
Lost task 0.0 in stage 3.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "rows.py", line 7, in of
    raise CorruptBatch("x")
{said}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace: SQLSTATE: XXKST"""


@pytest.mark.parametrize(
    "said",
    [
        "barnabas.batch.faults.CorruptBatch: the batch at offset 7 of orders-0 is corrupt",
        "ValueError: nonsense",
        "barnabas.spark.sink.decision.BrokenPromiseError: batch 3 must be run again",
    ],
)
def test_the_reason_of_a_failure_is_where_its_traceback_ends(said: str) -> None:
    assert reason(Exception(FAILED.format(said=said))) == said


def test_a_reason_without_a_traceback_is_the_first_line() -> None:
    assert reason(Exception("\n[TABLE] there is none\n\tat x")) == "[TABLE] there is none"
    assert reason(Exception()) == "Exception()"


def test_an_error_in_a_part_is_reported_with_its_line() -> None:
    def counts(settings: dict[str, str]) -> Any:
        return settings["windw"]

    part = Part("counts", Kind.TRANSFORM, counts, ("settings",))
    with pytest.raises(
        PipelineError, match=rf"^p: the transform counts: .*{HERE}:\d+: KeyError: 'windw'$"
    ) as caught:
        _frame(Pipeline("p"), part, [{}])
    assert f"{HERE}:{counts.__code__.co_firstlineno + 1}:" in str(caught.value)


class Writer:
    """The part of Spark that is used before a query starts."""

    isStreaming = True  # noqa: N815 - Spark's name

    @property
    def writeStream(self) -> Writer:  # noqa: N802 - Spark's name
        return self

    def queryName(self, name: str) -> Writer:  # noqa: N802 - Spark's name
        return self

    def outputMode(self, mode: str) -> Writer:  # noqa: N802 - Spark's name
        return self

    def option(self, name: str, value: str) -> Writer:
        return self

    def options(self, **options: str) -> Writer:
        return self

    def format(self, name: str) -> Writer:
        return self

    def trigger(self, **how: Any) -> Writer:
        raise ValueError("Error parsing 'nonsense' to interval")

    def start(self) -> None:
        raise java_error("java.io.FileNotFoundException: /proc/x (No such file)\n\tat java.io.File")


class JavaObject:
    """A Java error, with the attributes that are used."""

    _target_id = "o1"

    def __init__(self, said: str) -> None:
        self._said = said

    def __str__(self) -> str:
        return self._said


def java_error(said: str) -> Py4JJavaError:
    return Py4JJavaError("An error occurred while calling o1.start.\n", JavaObject(said))


def query_of(pipeline: Pipeline, trigger: str | None) -> None:
    (sink,) = pipeline.sinks.values()
    _query(pipeline, sink, Writer(), pipeline.settings_with({}), trigger)  # type: ignore[arg-type]


def test_an_error_in_a_writer_is_reported_with_its_line() -> None:
    pipeline = Pipeline("p")
    pipeline.to("out", "lines", lambda writer, settings: writer.format(settings["form"]))
    with pytest.raises(PipelineError, match=rf"^p: out: .*{HERE}:\d+: KeyError: 'form'$"):
        query_of(pipeline, None)
    pipeline = Pipeline("p")
    pipeline.to("out", "lines", lambda writer, settings: None)
    with pytest.raises(PipelineError, match="p: out: its writer returns NoneType; it must return"):
        query_of(pipeline, None)


def test_a_java_error_is_one_line() -> None:
    pipeline = Pipeline("p", checkpoint="kept")
    pipeline.to_parquet("out", of="lines", path="/proc/x")
    with pytest.raises(PipelineError) as caught:
        query_of(pipeline, None)
    assert str(caught.value) == (
        "p: out: Spark cannot start its query: java.io.FileNotFoundException: /proc/x (No such file); "
        "check its path and options, and the checkpoint kept"
    )
    assert fault_of(print, java_error("java.lang.Error: x\n\tat y")) == "java.lang.Error: x"


def test_a_time_that_is_none_is_refused() -> None:
    pipeline = Pipeline("p")
    pipeline.to_parquet("out", of="lines", path="x")
    with pytest.raises(PipelineError, match=r"p: a batch cannot begin every 'nonsense': .*'5 seconds'"):
        query_of(pipeline, "nonsense")


@pytest.mark.parametrize(
    "text",
    ['{"orders": {"0": 3}}', r"logs-\d{4}", "{bootstrap.x}", "{bootstrap!r}", "{bootstrap[0]}", "{", "}"],
)
def test_braces_that_are_no_settings(text: str) -> None:
    with pytest.raises(PipelineError, match=r"p: .*is written twice: \{\{ and \}\}"):
        filled(text, {"bootstrap": "b:1"}, "p")


def test_doubled_braces_stay() -> None:
    settings = {"topic": "t", "a.b": "c"}
    assert filled('{{"{topic}": {{"0": 3}}}}', settings, "p") == '{"t": {"0": 3}}'
    assert filled("x-{a.b}", settings, "p") == "x-c"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java has ended.\n\tat org.apache.spark"),
            "Spark does not start on nonsense: [JAVA_GATEWAY_EXITED] Java has ended.; check --master and --conf",
        ),
        (Py4JError("Could not parse Master URL: 'nonsense'"), "nonsense: Could not parse Master URL: 'nonsense'; check"),
        (RuntimeError("no Java >= 17 was found"), "run: no Java >= 17 was found"),
        (ImportError("barnabas.spark needs PySpark"), "run: barnabas.spark needs PySpark"),
    ],
)  # fmt: skip
def test_a_session_that_does_not_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception, said: str
) -> None:
    import barnabas.spark
    from barnabas.cli.framework.exits import CommandError
    from barnabas.cli.pipeline.run import run_pipeline

    def refused(*given: object, **conf: object) -> None:
        raise error

    monkeypatch.setattr(barnabas.spark, "session", refused)
    options = SimpleNamespace(once=True, every=None, only=[], master="nonsense")
    settings = {"checkpoint": str(tmp_path)}
    with pytest.raises(CommandError) as caught:
        run_pipeline("barnabas pipeline run", Pipeline("p"), settings, options, {})  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_fault_that_is_explained_already_stays_as_it_is() -> None:
    assert fault_of(print, PipelineError("orders: explained")) == "orders: explained"


def test_a_fault_in_a_library_is_described_without_its_place() -> None:
    try:
        int("x")
    except ValueError as error:
        assert fault_of(print, error).startswith(f"{__file__}:")
        error.__traceback__ = None
        assert fault_of(print, error).startswith("ValueError: invalid literal")
