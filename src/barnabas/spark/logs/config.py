"""What is known of the logs of one's own: formats, services, owners, alert rules; from a TOML file.

[formats]                                     # A pattern with named groups; tried before the known formats.
ours = '(?P<time>ISO) (?P<level>LEVEL) (?P<message>.*)'

[services]                                    # The service of a source: the path of a file, a sender.
"/var/log/nginx/*" = "web"

[owners]
web = "ann"

[[alerts]]
name = "errors"
kind = "rate"  # Or count, absence, new-template.
raise = 0.2
clear = 0.05
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from barnabas.logs.formats import Format, named
from barnabas.logs.records import Record
from barnabas.spark.logs.alerts import DEFAULT_RULES, KINDS, Rule
from barnabas.spark.pipeline.definition import PipelineError
from barnabas.spark.pipeline.toml_tables import Table

UNNAMED = "unknown"
# Formats whose lines name a service; in others the name is that of a logger or a class.
NAMING = frozenset({"json", "logfmt", "rfc5424", "rfc3164", "syslog-iso"})


@dataclass(frozen=True)
class Config:
    """Sent to tasks with each query: plain values only."""

    patterns: tuple[tuple[str, str], ...] = ()
    services: tuple[tuple[str, str], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()
    rules: tuple[Rule, ...] = field(default=DEFAULT_RULES)

    def formats(self) -> tuple[Format, ...]:
        return tuple(named(name, pattern) for name, pattern in self.patterns)

    def service_of(self, record: Record, source: str) -> str:
        """The service by the source if that is given, then the one that the line names, then the name of the
        source."""
        for pattern, service in self.services:
            if fnmatchcase(source, pattern):
                return service
        form = record.format.rpartition("+")[2]
        if record.service and (form in NAMING or any(form == name for name, _ in self.patterns)):
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
    root.allow("formats", "services", "owners", "alerts")
    config = Config(
        patterns=tuple(root.table("formats").texts_in_order()),
        services=tuple(root.table("services").texts_in_order()),
        owners=tuple(root.table("owners").texts_in_order()),
        rules=tuple(_rule(table) for table in root.list_of_tables("alerts")) or DEFAULT_RULES,
    )
    try:
        config.formats()
    except ValueError as error:
        raise PipelineError(f"{path}: {error}") from error
    names = [rule.name for rule in config.rules]
    if len(set(names)) < len(names):
        raise PipelineError(f"{path}: alerts: two rules have the same name; give one of them another")
    return config


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
    bad = table.number("raise", 1.0)
    return Rule(
        name=table.text("name") or kind,
        kind=kind,
        of=table.text("of") or usual.of,
        service=table.text("service") or "*",
        bad_rate=bad,
        good_rate=table.number("clear", 0.0 if kind == "new-template" else bad / 2),
        bad_windows=table.whole("raise_after", 1 if kind == "new-template" else usual.bad_windows),
        good_windows=table.whole("clear_after", 1 if kind == "new-template" else usual.good_windows),
        least_requests=table.whole("least_requests", usual.least_requests if kind == "rate" else 0),
    )
