"""The definition of a pipeline: named sources, tables, transforms and sinks.

Contains the parts, their graph and its validation; sessions and queries belong in `running`.  Parts are
functions; a transform's parameters are the names of the parts it takes, so that the graph is defined by the
code alone.
"""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.spark.pipeline.expectations import (
    ACTIONS,
    ALL,
    DEAD_LETTER,
    DROP,
    Expectation,
    checked,
    rejected,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.spark.pipeline.running import Running

Settings = Mapping[str, str]
F = TypeVar("F", bound=Callable[..., Any])

MODES = ("append", "update", "complete")
# What a part may take besides other parts: the session, the settings, and the name of its sink.
SPARK, SETTINGS, SINK = GIVEN = ("spark", "settings", "sink")
# The names of a pipeline and of its sinks are folders of checkpoints and parts of transactional ids.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class PipelineError(Exception):
    """The pipeline is invalid; the message says what to change."""


class Kind(Enum):
    """The kind of a part."""

    SOURCE = "source"
    TABLE = "table"
    TRANSFORM = "transform"


@dataclass(frozen=True, slots=True)
class Part:
    """A function that returns a DataFrame, and its parameters."""

    name: str
    kind: Kind
    function: Callable[..., DataFrame]
    takes: tuple[str, ...]

    @property
    def upstream(self) -> tuple[str, ...]:
        return tuple(name for name in self.takes if name not in GIVEN)


@dataclass(frozen=True, slots=True)
class Sink:
    """A streaming query: the destination of a part's rows."""

    name: str
    of: str
    form: str
    options: Mapping[str, str]
    mode: str = "append"
    partition_by: tuple[str, ...] = ()
    # For custom writers.
    write: Callable[[Any, Settings], Any] | None = None
    place: str = field(default="", compare=False)
    # How often its query is started again after it has failed, before the pipeline fails.
    restarts: int = 0
    # The interval of its batches; empty for that of the run.
    every: str = ""


class Pipeline:
    """Sources, tables, transforms and sinks.

    `settings` are strings with defaults, which `barnabas pipeline run --set KEY=VALUE` replaces; `{key}` in a
    sink's topic, path or options is replaced by its setting.
    """

    def __init__(self, name: str, *, settings: Settings | None = None, checkpoint: str | None = None) -> None:
        _check_name("a pipeline", name)
        self.name = name
        self.settings: dict[str, str] = dict(settings or {})
        self.settings.setdefault("bootstrap", "localhost:9092")
        self.settings.setdefault("checkpoint", checkpoint or f"checkpoints/{name}")
        self.parts: dict[str, Part] = {}
        self.sinks: dict[str, Sink] = {}
        # Renders a page from what the pipeline has written: report(settings, path).
        self._expectations: dict[str, list[Expectation]] = {}
        self.report: Callable[[Settings, str], None] | None = None
        # Says what was wrong with the rows of a run that ended, if anything: the run has then failed.
        self.complaint: Callable[[], str | None] | None = None

    # -------------------------------------------------------------------------------------------------- parts

    def source(self, function: F) -> F:
        """A stream returned by `function(spark, settings)`, under the function's name; with `sink` among its
        parameters it is called once per sink."""
        return self._add(Kind.SOURCE, function)

    def table(self, function: F) -> F:
        """A DataFrame that does not change while the pipeline runs."""
        return self._add(Kind.TABLE, function)

    def transform(self, function: F) -> F:
        """A DataFrame derived from others: the parameters are their names (or `settings`)."""
        return self._add(Kind.TRANSFORM, function)

    def _add(self, kind: Kind, function: F) -> F:
        self.add(function.__name__, kind, function, parameters(function, f"{self.name}: {function.__name__}"))
        return function

    def add(self, name: str, kind: Kind, function: Callable[..., DataFrame], takes: Sequence[str]) -> None:
        if name in self.parts:
            raise PipelineError(f"{self.name}: {name} is defined twice; give one of them another name")
        if name in GIVEN:
            raise PipelineError(f"{self.name}: a part cannot be called {name}; give it another name")
        self.parts[name] = Part(name, kind, function, tuple(takes))

    def expect(
        self, name: str, *, of: str | Callable[..., Any], where: str, otherwise: str = DROP, topic: str = ""
    ) -> None:
        """Rows of a part that do not meet a condition (SQL) are counted, and kept, dropped, written to the
        topic of dead letters, or stop the pipeline, before anything else takes them."""
        if otherwise not in ACTIONS:
            raise PipelineError(f"{self.name}: {name}: {otherwise!r} is none of {', '.join(ACTIONS)}")
        if bool(topic) != (otherwise == DEAD_LETTER):
            problem = "a topic is needed for dead letters" if not topic else "only dead letters have a topic"
            raise PipelineError(f"{self.name}: {name}: {problem}")
        _check_name(f"{self.name}: an expectation", name)
        part = _name(of)
        self._must_be_there(part, f"expectation {name}")
        if any(each.name == name for known in self._expectations.values() for each in known):
            raise PipelineError(
                f"{self.name}: the expectation {name} is defined twice; give one another name"
            )
        known = self._expectations.setdefault(part, [])
        if not known:
            whole = self.parts[part]
            self.add(part + ALL, whole.kind, whole.function, whole.takes)
            self.parts[part] = Part(part, Kind.TRANSFORM, checked(known), (part + ALL,))
        expectation = Expectation(name, where, otherwise)
        known.append(expectation)
        if otherwise == DEAD_LETTER:
            self.add(f"{part} (not {name})", Kind.TRANSFORM, rejected(expectation), (part + ALL,))
            self.to_dead_letters(name, of=f"{part} (not {name})", topic=topic)

    def run_every(self, sink: str, interval: str) -> None:
        """The batches of a sink begin at this interval ("1 minute"), whatever that of the run is."""
        if sink not in self.sinks:
            raise PipelineError(f"{self.name} has no sink {sink}; there is {', '.join(self.sinks)}")
        self.sinks[sink] = replace(self.sinks[sink], every=interval)

    # -------------------------------------------------------------------------------------------------- sinks

    def to_topic(
        self,
        name: str,
        *,
        of: str | Callable[..., Any],
        topic: str,
        exactly_once: bool = False,
        mode: str = "append",
        restarts: int = 0,
        value_format: str = "",
        schema_registry: str = "",
        **options: str,
    ) -> None:
        """Write rows with `value` (and optionally `key`, `headers`, `partition`) as records; with a
        `value_format` (avro, json-schema) the other columns are the value, whose schema is registered."""
        if value_format:
            of = self._encoded(name, _name(of), topic, value_format, schema_registry)
        chosen = {"kafka.bootstrap.servers": "{bootstrap}", "topic": topic, **options}
        if exactly_once:
            chosen["deliveryGuarantee"] = "exactly-once"
            chosen["sinkId"] = f"{self.name}-{name}"
        place = f"topic {topic}"
        self._sink(Sink(name, _name(of), "barnabas", chosen, mode, place=place, restarts=restarts))

    def _encoded(self, sink: str, of: str, topic: str, form: str, registry: str) -> str:
        from barnabas.spark.pipeline.registered import encoder

        self._must_be_there(of, f"sink {sink}")
        part = f"{sink} (as {form})"
        self.add(part, Kind.TRANSFORM, encoder(topic, form, registry), (of, SETTINGS))
        return part

    def to_dead_letters(
        self, name: str = "dead-letters", *, of: str | Callable[..., Any], topic: str
    ) -> None:
        """Write unusable rows, each once, for later inspection."""
        self.to_topic(name, of=of, topic=topic, exactly_once=True)

    def to_parquet(
        self,
        name: str,
        *,
        of: str | Callable[..., Any],
        path: str,
        partition_by: Sequence[str] = (),
        restarts: int = 0,
        **options: str,
    ) -> None:
        """Write rows as Parquet files."""
        chosen = {"path": path, **options}
        by, place = tuple(partition_by), f"files {path}"
        self._sink(Sink(name, _name(of), "parquet", chosen, partition_by=by, place=place, restarts=restarts))

    def to_delta(
        self,
        name: str,
        *,
        of: str | Callable[..., Any],
        path: str,
        partition_by: Sequence[str] = (),
        restarts: int = 0,
    ) -> None:
        """Append rows to a Delta table, each batch once; needs barnabas[tables], and no jar."""
        from barnabas.spark.pipeline.lake_sinks import delta

        write = delta(path, tuple(partition_by))
        self.to(name, of, write, place=f"Delta table {path}, exactly once", restarts=restarts)

    def to_iceberg(
        self,
        name: str,
        *,
        of: str | Callable[..., Any],
        table: str,
        warehouse: str = "tables/iceberg",
        catalog: Mapping[str, str] | None = None,
        restarts: int = 0,
    ) -> None:
        """Append rows to an Iceberg table, each batch once; `catalog` has pyiceberg's properties of one (by
        default SQLite in the folder `warehouse`)."""
        from barnabas.spark.pipeline.lake_sinks import iceberg

        write = iceberg(table, warehouse, catalog or {})
        self.to(name, of, write, place=f"Iceberg table {table}, exactly once", restarts=restarts)

    def to(
        self,
        name: str,
        of: str | Callable[..., Any],
        write: Callable[[Any, Settings], Any],
        mode: str = "append",
        place: str = "a writer of its own",
        restarts: int = 0,
    ) -> None:
        """Write in any other way: `write(stream_writer, settings)` returns the writer with format and
        options; `place` is shown as where the rows go."""
        self._sink(Sink(name, _name(of), "", {}, mode, write=write, place=place, restarts=restarts))

    def to_format(
        self,
        name: str,
        *,
        of: str | Callable[..., Any],
        form: str,
        mode: str = "append",
        partition_by: Sequence[str] = (),
        restarts: int = 0,
        **options: str,
    ) -> None:
        """Write in any Spark format, with its options."""
        place = f"files {options['path']}" if "path" in options else form
        by = tuple(partition_by)
        self._sink(Sink(name, _name(of), form, options, mode, by, place=place, restarts=restarts))

    def _sink(self, sink: Sink) -> None:
        _check_name(f"{self.name}: a sink", sink.name)
        if sink.name in self.sinks:
            raise PipelineError(f"{self.name}: the sink {sink.name} is defined twice; give one another name")
        if sink.mode not in MODES:
            raise PipelineError(f"{self.name}: {sink.name}: mode {sink.mode!r} is none of {', '.join(MODES)}")
        self.sinks[sink.name] = sink

    # ---------------------------------------------------------------------------------------------- the graph

    def check(self) -> None:
        """Raise PipelineError if a part takes an undefined part or itself, or there is no sink."""
        if not self.sinks:
            raise PipelineError(f"{self.name} writes nothing: add a sink, such as to_topic")
        for part in self.parts.values():
            for name in part.upstream:
                self._must_be_there(name, f"{part.kind.value} {part.name}")
            if part.kind is not Kind.TRANSFORM and part.upstream:
                raise PipelineError(
                    f"{self.name}: the {part.kind.value} {part.name} takes {part.upstream[0]}; "
                    "only transforms take other parts"
                )
        for sink in self.sinks.values():
            self._must_be_there(sink.of, f"sink {sink.name}")
        self.order()

    def _must_be_there(self, name: str, who: str) -> None:
        if name not in self.parts:
            known = ", ".join(sorted(self.parts)) or "nothing"
            raise PipelineError(
                f"{self.name}: the {who} takes {name}, which is not defined; there is {known}"
            )

    def needed_by(self, sinks: Sequence[str]) -> list[Part]:
        """Return the parts that these sinks depend on, in order."""
        wanted = {self.sinks[name].of for name in sinks}
        order = self.order()
        for part in reversed(order):
            if part.name in wanted:
                wanted.update(part.upstream)
        return [part for part in order if part.name in wanted]

    def by_sink(self) -> set[str]:
        """Return the parts that differ between sinks."""
        results: set[str] = set()
        for part in self.order():
            if SINK in part.takes or not results.isdisjoint(part.upstream):
                results.add(part.name)
        return results

    def order(self) -> list[Part]:
        """Return the parts, each after those that it takes."""
        done: dict[str, Part] = {}
        visiting: list[str] = []

        def visit(name: str) -> None:
            if name in done:
                return
            if name in visiting:
                circle = " -> ".join([*visiting[visiting.index(name) :], name])
                raise PipelineError(f"{self.name}: parts take each other in a circle: {circle}")
            visiting.append(name)
            for upstream in self.parts[name].upstream:
                visit(upstream)
            visiting.pop()
            done[name] = self.parts[name]

        for name in self.parts:
            visit(name)
        return list(done.values())

    def settings_with(self, overrides: Settings | None) -> dict[str, str]:
        """Return the settings of this run; raises PipelineError for an unknown one."""
        for key in overrides or {}:
            if key not in self.settings:
                known = ", ".join(sorted(self.settings))
                raise PipelineError(f"{self.name} has no setting {key}; there is {known}")
        return {**self.settings, **(overrides or {})}

    def start(
        self,
        spark: SparkSession,
        overrides: Settings | None = None,
        *,
        trigger: str | None = None,
        only: Sequence[str] = (),
    ) -> Running:
        """Start all queries (or `only` those of some sinks); `trigger` is `available-now`, or the interval of
        batches ("5 seconds"); by default a batch starts as soon as the previous one has ended."""
        from barnabas.spark.pipeline.starting import start

        self.check()
        for name in only:
            if name not in self.sinks:
                raise PipelineError(f"{self.name} has no sink {name}; there is {', '.join(self.sinks)}")
        return start(self, spark, self.settings_with(overrides), trigger, tuple(only or self.sinks))


def _check_name(whose: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise PipelineError(
            f"{whose} cannot be called {name!r}: use 1 to 100 letters, digits, '.', '_' and '-', "
            "a letter or a digit first"
        )


def _name(part: str | Callable[..., Any]) -> str:
    return part if isinstance(part, str) else part.__name__


def parameters(function: Callable[..., Any], where: str) -> tuple[str, ...]:
    """Return the parameters of a part's function; those with defaults are ignored."""
    takes = []
    for value in inspect.signature(function).parameters.values():
        if value.kind in (value.VAR_POSITIONAL, value.VAR_KEYWORD):
            raise PipelineError(f"{where} takes *{value.name}; name the parts that it takes")
        if value.default is value.empty:
            takes.append(value.name)
    return tuple(takes)


def filled(text: str, settings: Settings, where: str) -> str:
    """Replace `{key}` in the text by settings, and `{{` and `}}` by single braces."""
    advice = "a brace that does not belong to a setting is written twice: {{ and }}"
    pieces = []
    try:
        for before, name, form, conversion in string.Formatter().parse(text):
            pieces.append(before)
            if name is None:
                continue
            if name not in settings or form or conversion:
                known = ", ".join(sorted(settings))
                raise PipelineError(
                    f"{where}: {text!r} names a setting that is not there ({name}); there is {known}; "
                    + advice
                )
            pieces.append(settings[name])
    except ValueError as error:
        raise PipelineError(f"{where}: {text!r}: {error}; {advice}") from error
    return "".join(pieces)
