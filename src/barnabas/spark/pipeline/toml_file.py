"""A pipeline without Python: sources, tables, SQL and sinks in a TOML file.

    name = "orders"

    [settings]
    window = "1 minute"

    [sources.orders]
    topic = "orders"

    [transforms.counts]
    sql = "SELECT window(timestamp, {window}).start AS start, count(*) AS orders FROM {orders} GROUP BY 1"

    [sinks.counts]
    of = "counts"
    path = "tables/counts"

In SQL, `{name}` is a part of the pipeline, or a setting as a literal.
"""

from __future__ import annotations

import importlib
import string
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark.pipeline.definition import (
    SETTINGS,
    SPARK,
    Kind,
    Pipeline,
    PipelineError,
    filled,
    parameters,
)
from barnabas.spark.pipeline.expectations import DROP
from barnabas.spark.pipeline.toml_tables import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECTIONS = {"sources": Kind.SOURCE, "tables": Kind.TABLE, "transforms": Kind.TRANSFORM}
# Keys of a sink that are not options of a format.
BESIDE_OPTIONS = {"of", "topic", "exactly_once", "mode", "partition_by", "path", "restarts", "every"}
# No format has these options; here they would collide with parameters.
NO_OPTIONS = {"self", "name", "form"}


def pipeline_of(path: Path) -> Pipeline:
    try:
        with path.open("rb") as file:
            root = Table(str(path), "", tomllib.load(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: {error}") from error
    root.allow("name", "checkpoint", "settings", *SECTIONS, "expectations", "sinks")
    settings = root.table("settings")
    with root.errors():
        pipeline = Pipeline(
            root.required_text("name"),
            settings={key: settings.plain(key) for key in settings.given()},
            checkpoint=root.text("checkpoint"),
        )
    for section, kind in SECTIONS.items():
        for name, table in root.table(section).tables():
            with table.errors():
                _add_part(pipeline, name, kind, table)
    for name, table in root.table("expectations").tables():
        with table.errors():
            _add_expectation(pipeline, name, table)
    for name, table in root.table("sinks").tables():
        with table.errors():
            _add_sink(pipeline, name, table)
            if (every := table.text("every")) is not None:
                pipeline.run_every(name, every)
    return pipeline


# Parts ------------------------------------------------------------------------------------------------------


def _add_part(pipeline: Pipeline, name: str, kind: Kind, table: Table) -> None:
    if name in pipeline.settings:
        raise PipelineError(f"{name} is also a setting; give one of them another name")
    if table.has("function"):
        table.allow("function", "watermark")
        function = _function(table)
        takes = parameters(function, table.required_text("function"))
    elif kind is Kind.TRANSFORM:
        table.allow("sql", "function", "watermark")
        function, takes = _sql(pipeline, table)
    else:
        table.allow(
            *("topic", "format", "path", "schema", "options", "watermark", "function"),
            *("value_format", "schema_registry"),
        )
        function, takes = _reader(kind, table), (SPARK, SETTINGS)
    late = table.table("watermark")
    if late.given():
        late.allow("column", "delay")
        function = _with_watermark(function, takes, late)
        takes = (*takes, SETTINGS)
    pipeline.add(name, kind, function, takes)


def _reader(kind: Kind, table: Table) -> Callable[..., DataFrame]:
    topic, form = table.text("topic"), table.text("format")
    path, schema = table.text("path"), table.text("schema")
    options = table.texts("options")
    if topic is not None and form in (None, "barnabas"):
        form = "barnabas"
        options = {
            "kafka.bootstrap.servers": "{bootstrap}",
            "subscribe": topic,
            # Aborted records, perhaps of an exactly-once sink of this very pipeline, must not be read.
            "kafka.isolation.level": "read_committed",
            # A pipeline reads everything, from the beginning.
            **({"startingOffsets": "earliest"} if kind is Kind.SOURCE else {}),
            **options,
        }
    elif topic is not None:
        raise table.wrong("topic", f"a topic has no format {form}; leave one of them out")
    if form is None:
        raise table.wrong("", "what is read? give topic = ..., or format = ... and path or options")

    decode = _decoder(table, topic)

    def read(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
        reader: Any = spark.readStream if kind is Kind.SOURCE else spark.read
        reader = reader.format(form)
        for key, value in options.items():
            reader = reader.option(key, filled(value, settings, f"{table.where}.options.{key}"))
        if schema is not None:
            reader = reader.schema(schema)
        frame: DataFrame = reader.load(*([] if path is None else [filled(path, settings, table.where)]))
        return frame if decode is None else decode(frame, settings)

    return read


def _decoder(table: Table, topic: str | None) -> Callable[..., DataFrame] | None:
    from barnabas.spark.pipeline.registered import decoder

    form = table.text("value_format")
    if form is None:
        return None
    if topic is None:
        raise table.wrong("value_format", "only a topic has it; leave it out")
    return decoder(topic, form, table.text("schema_registry") or "")


def _sql(pipeline: Pipeline, table: Table) -> tuple[Callable[..., DataFrame], tuple[str, ...]]:
    query = table.required_text("sql")
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(query) if name is not None]
    except ValueError as error:
        raise table.wrong("sql", f"{error}; a brace of SQL's own is written twice") from error
    for name in names:
        if not name.isidentifier():
            raise table.wrong("sql", f"{{{name}}} is not a name; a brace of SQL's own is written twice")
    upstream = tuple(dict.fromkeys(name for name in names if name not in pipeline.settings))
    if not upstream:
        raise table.wrong("sql", "it reads nothing; write the names of parts in braces: FROM {orders}")

    def run(spark: SparkSession, settings: Mapping[str, str], *frames: DataFrame) -> DataFrame:
        given: dict[str, Any] = {name: settings[name] for name in names if name in settings}
        given.update(zip(upstream, frames, strict=True))
        return spark.sql(query, **given)

    return run, (SPARK, SETTINGS, *upstream)


def _function(table: Table) -> Callable[..., DataFrame]:
    """Load `module:name`, from a file beside this one or from an installed module."""
    from barnabas.spark.pipeline.loading import run_file

    module_name, _, name = table.required_text("function").partition(":")
    if not (module_name and name):
        raise table.wrong("function", 'give a module and a name in it: function = "module:name"')
    beside = Path(table.file).parent / f"{module_name}.py"
    try:
        module = run_file(beside) if beside.is_file() else importlib.import_module(module_name)
    except ImportError as error:
        raise table.wrong("function", f"{error}; {beside} does not exist either") from error
    except PipelineError:
        raise
    except (Exception, SystemExit) as error:
        raise table.wrong("function", f"{module_name}: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise table.wrong("function", f"{module_name} has no function {name}")
    function: Callable[..., DataFrame] = found
    return function


def _with_watermark(
    function: Callable[..., DataFrame], takes: tuple[str, ...], late: Table
) -> Callable[..., DataFrame]:
    column, delay = late.required_text("column"), late.required_text("delay")

    def marked(*given: Any) -> DataFrame:
        frame = function(*given[: len(takes)])
        return frame.withWatermark(column, filled(delay, given[-1], f"{late.where}.delay"))

    return marked


def _add_expectation(pipeline: Pipeline, name: str, table: Table) -> None:
    table.allow("of", "where", "otherwise", "topic")
    pipeline.expect(
        name,
        of=table.required_text("of"),
        where=table.required_text("where"),
        otherwise=table.text("otherwise") or DROP,
        topic=table.text("topic") or "",
    )


# Sinks ------------------------------------------------------------------------------------------------------


def _add_sink(pipeline: Pipeline, name: str, table: Table) -> None:
    table.allow(
        "of",
        "topic",
        "exactly_once",
        "mode",
        "path",
        "format",
        "partition_by",
        "restarts",
        "every",
        "options",
        "delta",
        "iceberg",
        "warehouse",
        "value_format",
        "schema_registry",
    )
    restarts = table.whole("restarts", 0)
    of, mode = table.required_text("of"), table.text("mode") or "append"
    topic, path, form = table.text("topic"), table.text("path"), table.text("format")
    options = table.texts("options")
    for key in BESIDE_OPTIONS & options.keys():
        raise table.wrong(f"options.{key}", f"write {key} beside options, not among them")
    for key in NO_OPTIONS & options.keys():
        raise table.wrong(f"options.{key}", "there is no such option; leave it out")
    if _add_lake(pipeline, name, table, of, restarts):
        return
    if topic is not None:
        if path is not None or form is not None:
            raise table.wrong("topic", "a sink has either a topic, or a path or format")
        once = table.flag("exactly_once")
        pipeline.to_topic(
            name,
            of=of,
            topic=topic,
            exactly_once=once,
            mode=mode,
            restarts=restarts,
            value_format=table.text("value_format") or "",
            schema_registry=table.text("schema_registry") or "",
            **options,
        )
        return
    if table.has("exactly_once"):
        raise table.wrong("exactly_once", "only a sink with a topic takes it; files are written once anyway")
    if path is None and form is None:
        raise table.wrong("", "where do the rows go? give topic, path (Parquet files), or format and options")
    if path is not None:
        options = {"path": path, **options}
    pipeline.to_format(
        name,
        of=of,
        form=form or "parquet",
        mode=mode,
        partition_by=table.names("partition_by"),
        restarts=restarts,
        **options,
    )


def _add_lake(pipeline: Pipeline, name: str, table: Table, of: str, restarts: int) -> bool:
    """Whether the sink is a table of a data lake."""
    delta, iceberg = table.text("delta"), table.text("iceberg")
    if delta is None and iceberg is None:
        return False
    for key in ("topic", "path", "format", "mode", "exactly_once"):
        if table.has(key):
            raise table.wrong(key, "a sink with a Delta or Iceberg table does not take it; leave it out")
    if delta is not None:
        pipeline.to_delta(
            name, of=of, path=delta, partition_by=table.names("partition_by"), restarts=restarts
        )
    else:
        pipeline.to_iceberg(
            name,
            of=of,
            table=iceberg or "",
            warehouse=table.text("warehouse") or "tables/iceberg",
            catalog=table.texts("options"),
            restarts=restarts,
        )
    return True
