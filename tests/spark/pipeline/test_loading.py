"""From files to pipelines, and one line for what is wrong with them."""

from __future__ import annotations

import pickle
import re
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle

from barnabas.spark.pipeline import PipelineError, load
from barnabas.spark.pipeline.definition import Kind

PYTHON = """
from barnabas.spark.pipeline import Pipeline

pipeline = Pipeline("orders")

@pipeline.source
def lines(spark): return spark.readStream

def twice(number):
    return number * 2

pipeline.to_parquet("all", of=lines, path="tables/all")
"""
TOML = """
name = "orders"
checkpoint = "kept/orders"

[settings]
window = "1 minute"
limit = 3

[sources.lines]
topic = "orders"
options = { maxOffsetsPerTrigger = 1000, kafka.isolation.level = "read_committed" }
watermark = { column = "timestamp", delay = "1 minute" }

[tables.owners]
format = "csv"
path = "owners.csv"

[transforms.counts]
sql = "SELECT window(timestamp, {window}), '{{' FROM {lines} JOIN {owners} JOIN {lines}"

[transforms.large]
function = "beside:large"

[sinks.counts]
of = "counts"
topic = "counts"
exactly_once = true

[sinks.large]
of = "large"
path = "tables/large"
partition_by = ["day"]
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def refused(path: Path | str) -> str:
    with pytest.raises(PipelineError) as caught:
        load(path)
    return str(caught.value)


# ----------------------------------------------------------------------------------------------------- Python


def test_a_python_file(tmp_path: Path) -> None:
    before = set(sys.modules)
    pipeline = load(written(tmp_path, "orders.py", PYTHON))
    assert pipeline.name == "orders"
    # Spark's workers cannot import the file, so its functions go to them as they are.
    twice = pipeline.parts["lines"].function.__globals__["twice"]
    assert not {name for name in set(sys.modules) - before if "orders" in name}
    assert b"orders.py" in cloudpickle.dumps(twice)
    assert pickle.loads(cloudpickle.dumps(twice))(4) == 8


def test_a_module() -> None:
    assert load("barnabas.spark.logs.pipeline").name == "logs"
    assert refused("barnabas.spark.nowhere") == (
        "barnabas.spark.nowhere: there is no such module; a file is given as barnabas.spark.nowhere.py"
    )


def test_an_error_in_a_python_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path, "x.py", "from barnabas.spark.pipeline import Pipeline\npipeline = Pipelin('x')\n"
    )
    assert refused(path) == f"{path}:2: NameError: name 'Pipelin' is not defined"
    path.write_text("a = (\n", "utf-8")
    assert refused(path) == f"{path}:1: '(' was never closed"
    path.write_text("a = 1\n", "utf-8")
    assert (
        refused(path)
        == f'{path}: it defines no pipelines; it must have one: pipeline = Pipeline("name", ...)'
    )
    path.write_text(PYTHON + "\n@pipeline.source\ndef lines(spark): ...\n", "utf-8")
    assert re.fullmatch(rf"{path}:1[45]: orders: lines is defined twice; give one .*", refused(path))
    path.write_text(PYTHON.replace("of=lines", "of='lins'"), "utf-8")
    assert refused(path) == f"{path}: orders: the sink all takes lins, which is not defined; there is lines"
    assert refused(tmp_path / "no.py").endswith(
        "no.py: there is no such file; give a .py or .toml file, or a module's name"
    )
    assert refused(written(tmp_path, "x.yaml", "")).endswith("a pipeline is a .py or a .toml file, not .yaml")


def test_a_file_in_the_folder_where_we_are_has_lines_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "x.py", "\nimport nowhere_at_all\n")
    assert refused("x.py") == "x.py:2: ModuleNotFoundError: No module named 'nowhere_at_all'"
    written(tmp_path, "x.py", "import sys\n\nsys.exit(3)\n")
    assert refused("x.py") == (
        "x.py:3: it ends the program (SystemExit: 3); code for running the file directly "
        'belongs below: if __name__ == "__main__":'
    )


def test_an_error_in_a_module_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_package"
    package.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    written(package, "__init__.py", "")
    one = written(package, "one.py", "\nimport nowhere_at_all\n")
    two = written(package, "two.py", "raise SystemExit\n")
    assert refused("some_package.one") == f"{one}:2: ModuleNotFoundError: No module named 'nowhere_at_all'"
    assert refused("some_package.two").startswith(f"{two}:1: it ends the program (SystemExit); ")


# ------------------------------------------------------------------------------------------------------- TOML


def test_a_toml_file(tmp_path: Path) -> None:
    written(tmp_path, "beside.py", "def large(counts): return counts\n")
    pipeline = load(written(tmp_path, "orders.toml", TOML))
    assert pipeline.settings == {
        "window": "1 minute",
        "limit": "3",
        "bootstrap": "localhost:9092",
        "checkpoint": "kept/orders",
    }
    assert {name: (part.kind, part.upstream) for name, part in pipeline.parts.items()} == {
        "lines": (Kind.SOURCE, ()),
        "owners": (Kind.TABLE, ()),
        "counts": (Kind.TRANSFORM, ("lines", "owners")),
        "large": (Kind.TRANSFORM, ("counts",)),
    }
    assert pipeline.sinks["counts"].options["deliveryGuarantee"] == "exactly-once"
    large = pipeline.sinks["large"]
    assert (large.form, large.options, large.partition_by) == ("parquet", {"path": "tables/large"}, ("day",))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            'topic = "counts"',
            'topik = "counts"',
            "sinks.counts.topik: there is no such key (did you mean topic?); allowed are of, topic, exactly_once, mode, path, format, partition_by, restarts, every, options, delta, iceberg, warehouse",
        ),
        ('of = "counts"', "", 'sinks.counts.of: it is missing; add of = "..."'),
        ('of = "counts"', 'of = "conts"', "orders: the sink counts takes conts, which is not defined"),
        ("exactly_once = true", "exactly_once = 1", "sinks.counts.exactly_once: 1 is neither true nor false"),
        ('partition_by = ["day"]', 'partition_by = "day"', "sinks.large.partition_by: 'day' is not a list of strings"),
        ('path = "tables/large"', "", "sinks.large: where do the rows go?"),
        ('path = "tables/large"', 'path = "a"\nexactly_once = true', "sinks.large.exactly_once: only a sink with"),
        ('topic = "counts"', 'topic = "counts"\npath = "x"', "sinks.counts.topic: a sink has either a topic, or"),
        ('topic = "counts"', 'topic = "c"\noptions.mode = "x"', "sinks.counts.options.mode: write mode beside"),
        ('topic = "counts"', 'topic = "c"\noptions.self = "x"', "sinks.counts.options.self: there is no such option"),
        ('path = "tables/large"', 'path = "x"\noptions.self = "x"', "sinks.large.options.self: there is no such opti"),
        ('name = "orders"', 'name = "my orders"', "a pipeline cannot be called 'my orders': use 1 to 100 letters"),
        ('function = "beside:large"', 'function = "ends:x"', "ends.py:1: it ends the program (SystemExit: 3); code"),
        ('function = "beside:large"', 'function = "has_a_fault:x"', "transforms.large.function: has_a_fault: OSErr"),
        ('topic = "counts"', 'topic = "c"\nmode = "apend"', "sinks.counts: orders: counts: mode 'apend' is none"),
        ('function = "beside:large"', 'function = "beside:small"', "beside has no function small"),
        ('function = "beside:large"', 'function = "nowhere:x"', "No module named 'nowhere'"),
        ('function = "beside:large"', 'function = "beside"', "transforms.large.function: give a module and a name"),
        ('topic = "orders"', 'topic = "o"\nformat = "csv"', "sources.lines.topic: a topic has no format csv"),
        ('topic = "orders"', "topic = 3", "sources.lines.topic: 3 is not a string; put it in quotes"),
        ('format = "csv"', "", "tables.owners: what is read?"),
        ("'{{'", "'{'", "transforms.counts.sql: "),
        ("FROM {lines} JOIN {owners} JOIN {lines}", "", "transforms.counts.sql: it reads nothing"),
        ("limit = 3", "limit = [3]", "settings.limit: [3] is neither a string nor a number"),
        ("limit = 3", "lines = 3", "sources.lines: lines is also a setting"),
        ('name = "orders"', "", 'name: it is missing; add name = "..."'),
        ('name = "orders"', 'name = "orders', "Illegal character"),
        ("[sources.lines]", "[sorces.lines]", "sorces: there is no such key (did you mean sources?)"),
        ("[settings]", "sinks = 3\n[settings]", "Cannot"),
    ],
)  # fmt: skip
def test_an_error_in_a_toml_file_is_reported_with_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, expected: str
) -> None:
    written(tmp_path, "beside.py", "def large(counts): return counts\n")
    written(tmp_path, "ends.py", "raise SystemExit(3)\n")
    (tmp_path / "installed").mkdir()
    written(tmp_path / "installed", "has_a_fault.py", "raise OSError('no disk')\n")
    monkeypatch.syspath_prepend(tmp_path / "installed")
    assert before in TOML
    path = written(tmp_path, "orders.toml", TOML.replace(before, after))
    message = refused(path)
    assert message.startswith(f"{path}: ")
    assert expected in message


def test_a_watermark_is_set_on_what_the_part_returns(tmp_path: Path) -> None:
    written(tmp_path, "beside.py", "def large(counts): return counts\n")
    watermark = 'function = "beside:large"\nwatermark = { column = "time", delay = "{window}" }'
    text = TOML.replace('function = "beside:large"', watermark)
    part = load(written(tmp_path, "orders.toml", text)).parts["large"]
    assert part.upstream == ("counts",)

    class Frame:
        def withWatermark(self, column: str, delay: str) -> tuple[str, str]:  # noqa: N802 - Spark's name
            return column, delay

    assert part.function(Frame(), {"window": "1 minute"}) == ("time", "1 minute")


def test_a_file_may_give_its_pipeline_another_name(tmp_path: Path) -> None:
    """If it is the only one, however often it is named."""
    text = PYTHON.replace("pipeline = Pipeline", "mine = again = Pipeline").replace("pipeline.to", "mine.to")
    assert load(written(tmp_path, "a.py", text.replace("@pipeline", "@mine"))).name == "orders"
    two = "from barnabas.spark.pipeline import Pipeline\na, b = Pipeline('a'), Pipeline('b')\n"
    assert "it defines 2 pipelines; it must have one" in refused(written(tmp_path, "b.py", two))
    assert "it defines no pipelines" in refused(written(tmp_path, "c.py", "x = 1\n"))


def test_a_source_is_read_with_its_options_and_schema(tmp_path: Path) -> None:
    written(tmp_path, "beside.py", "def large(counts): return counts\n")
    options = 'path = "{limit}.csv"\nschema = "a INT"\noptions = { header = true, rows = 5 }'
    text = TOML.replace('path = "owners.csv"', options)
    pipeline = load(written(tmp_path, "orders.toml", text))

    class Reader:
        """Notes how it is called."""

        def __init__(self) -> None:
            self.calls: list[tuple[str, ...]] = []

        def __getattr__(self, name: str) -> object:
            def call(*given: str) -> Reader:
                self.calls.append((name, *given))
                return self

            return call

    class Spark:
        read = Reader()
        readStream = Reader()  # noqa: N815 - Spark's name

    settings = {"limit": "3", "bootstrap": "host:1", "window": "1 minute"}
    pipeline.parts["owners"].function(Spark, settings)
    assert Spark.read.calls == [
        ("format", "csv"),
        ("option", "header", "true"),
        ("option", "rows", "5"),
        ("schema", "a INT"),
        ("load", "3.csv"),
    ]
    pipeline.parts["lines"].function(Spark, settings, settings)
    assert Spark.readStream.calls == [
        ("format", "barnabas"),
        ("option", "kafka.bootstrap.servers", "host:1"),
        ("option", "subscribe", "orders"),
        ("option", "kafka.isolation.level", "read_committed"),
        ("option", "startingOffsets", "earliest"),
        ("option", "maxOffsetsPerTrigger", "1000"),
        ("load",),
        ("withWatermark", "timestamp", "1 minute"),
    ]
