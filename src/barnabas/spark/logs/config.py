"""What is known of the logs of one's own: formats, services, owners, alert rules; from a TOML file.

[formats]                                     # A pattern with named groups; tried before the known formats.
ours = '(?P<time>ISO) (?P<level>LEVEL) (?P<message>.*)'
billing = { function = "billing.py:read" }    # A function over Arrow batches (barnabas.logs.known.Function).

[fields]                                      # Names of fields in JSON and logfmt, before the usual ones.
time = "when"
message = ["what", "text"]

[sources]                                     # The format of a source: the path of a file, a sender.
"/var/log/billing/*" = "billing"

[services]                                    # The service of a source.
"/var/log/nginx/*" = "web"

[owners]
web = "ann"

[[alerts]]
name = "errors"
kind = "rate"  # Or count, absence, new-template, burst.
raise = 0.2
clear = 0.05
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from barnabas.logs.formats import named
from barnabas.logs.known import Function, Known
from barnabas.logs.reader import names_of_formats
from barnabas.logs.records import Record
from barnabas.logs.structured import Names
from barnabas.spark.logs.alerts import DEFAULT_RULES, KINDS, Rule
from barnabas.spark.pipeline.definition import PipelineError
from barnabas.spark.pipeline.toml_tables import Table

UNNAMED = "unknown"
# Formats whose lines name a service; in others the name is that of a logger or a class.
NAMING = frozenset(
    {
        *("json", "logfmt", "rfc5424", "rfc3164", "syslog-iso", "journal", "heroku", "dovecot"),
        *("unified-log", "cef", "leef", "haproxy", "elb", "s3"),
    }
)


@dataclass(frozen=True)
class Config:
    """Sent to tasks with each query: plain values only."""

    patterns: tuple[tuple[str, str], ...] = ()
    # Name, reference and, if that is of a file, its text: tasks on other machines do not have the file.
    functions: tuple[tuple[str, str, str | None], ...] = ()
    fields: Names = field(default_factory=Names)
    sources: tuple[tuple[str, str], ...] = ()
    services: tuple[tuple[str, str], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    rules: tuple[Rule, ...] = field(default=DEFAULT_RULES)

    def known(self) -> Known:
        """Compiled.  Raises ValueError."""
        return Known(
            tuple(named(name, pattern) for name, pattern in self.patterns),
            tuple(Function(name, _function(name, where, text)) for name, where, text in self.functions),
            self.fields,
            self.sources,
        )

    def given_service(self, source: str) -> str | None:
        """The service that the file gives a source."""
        return next((service for pattern, service in self.services if fnmatchcase(source, pattern)), None)

    def service_of(self, record: Record, source: str) -> str:
        """The service by the source if that is given, then the one that the line names, then the name of the
        source."""
        given = self.given_service(source)
        if given is not None:
            return given
        form = record.format.rpartition("+")[2]
        own = (name for name, *_ in (*self.patterns, *self.functions))
        if record.service and (form in NAMING or form in own):
            return record.service
        stem = PurePosixPath(source).name.partition(".")[0]
        return stem or record.service or UNNAMED


def read_config(path: str) -> Config:
    """The file's content; an empty path is a file without any.  Raises PipelineError."""
    if not path:
        return Config()
    try:
        with Path(path).open("rb") as file:
            root = Table(path, "", tomllib.load(file))
    except OSError as error:
        raise PipelineError(f"{path}, the setting config, cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: {error}") from error
    root.allow("formats", "fields", "sources", "services", "owners", "alerts")
    patterns, functions = _formats(root.table("formats"), Path(path).parent)
    config = Config(
        patterns=patterns,
        functions=functions,
        fields=_fields(root.table("fields")),
        sources=tuple(root.table("sources").texts_in_order()),
        services=tuple(root.table("services").texts_in_order()),
        owners=tuple(root.table("owners").texts_in_order()),
        rules=tuple(_rule(table) for table in root.list_of_tables("alerts")) or DEFAULT_RULES,
    )
    try:
        known = config.known()
    except ValueError as error:
        raise PipelineError(f"{path}: {error}") from error
    formats = names_of_formats(known)
    for source, name in config.sources:
        if name not in formats and name.partition("+")[2] not in formats:
            raise root.table("sources").wrong(
                source, f"there is no format {name}; `barnabas logs detect` shows some"
            )
    names = [rule.name for rule in config.rules]
    if len(set(names)) < len(names):
        raise PipelineError(f"{path}: alerts: two rules have the same name; give one of them another")
    return config


def _formats(
    table: Table, folder: Path
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str, str | None], ...]]:
    """Patterns, and functions: of a file beside this one, or of a module."""
    patterns: list[tuple[str, str]] = []
    functions: list[tuple[str, str, str | None]] = []
    for name in table.given():
        if not table.is_table(name):
            patterns.append((name, table.required_text(name)))
            continue
        inner = table.table(name)
        inner.allow("function")
        where = inner.required_text("function")
        place, colon, _ = where.rpartition(":")
        if not colon:
            raise inner.wrong("function", f"{where!r} is neither a file and name nor module:name")
        text = None
        if place.endswith(".py"):
            try:
                text = (folder / place).read_text("utf-8")
            except OSError as error:
                raise inner.wrong("function", f"{folder / place}: {error.strerror}") from error
        functions.append((name, where, text))
    return tuple(patterns), tuple(functions)


def _function(name: str, where: str, text: str | None) -> Callable[..., Any]:
    """Raises ValueError."""
    place, _, attribute = where.rpartition(":")
    try:
        if text is None:
            found = getattr(import_module(place), attribute)
        else:
            module = ModuleType(PurePosixPath(place).stem)
            # The user's own file, named in the user's own settings, as a pipeline's is.
            exec(compile(text, place, "exec"), vars(module))  # the user's code  # nosec B102
            found = getattr(module, attribute)
    except Exception as error:
        raise ValueError(f"the format {name}: {where}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError(f"the format {name}: {where} is no function")
    function: Callable[..., Any] = found
    return function


def _fields(table: Table) -> Names:
    parts = tuple(part.name for part in dataclass_fields(Names))
    table.allow(*parts)
    given: dict[str, tuple[str, ...]] = {}
    for part in table.given():
        given[part] = table.names(part) if table.is_list(part) else (table.required_text(part),)
    return Names(**given)


def _rule(table: Table) -> Rule:
    table.allow(
        "name", "kind", "of", "service", "raise", "clear", "raise_after", "clear_after", "least_requests"
    )
    kind = table.required_text("kind")
    if kind not in KINDS:
        raise table.wrong("kind", f"{kind!r} is none of {', '.join(KINDS)}")
    if kind in ("rate", "count") and not table.has("raise"):
        raise table.wrong("raise", "it is missing; from which value on is the alert raised?")
    usual = Rule(kind=kind)
    at_once = kind in ("new-template", "burst")
    bad = table.number("raise", 5.0 if kind == "burst" else 1.0)
    return Rule(
        name=table.text("name") or kind,
        kind=kind,
        of=table.text("of") or ("lines" if kind == "burst" else usual.of),
        service=table.text("service") or "*",
        bad_rate=bad,
        good_rate=table.number("clear", 0.0 if kind == "new-template" else bad / 2),
        bad_windows=table.whole("raise_after", 1 if at_once else usual.bad_windows),
        good_windows=table.whole("clear_after", 1 if at_once else usual.good_windows),
        least_requests=table.whole(
            "least_requests", usual.least_requests if kind in ("rate", "burst") else 0
        ),
    )
