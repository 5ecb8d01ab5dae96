"""Lines of JSON and logfmt: known names of fields, whatever wrote them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from barnabas.logs.levels import (
    level_of,
    level_of_number,
    level_of_otel,
    level_of_priority,
    level_of_status,
)
from barnabas.logs.records import Record
from barnabas.logs.times import Times, epoch


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the fields that say time, level, service, message and trace, by precedence."""

    time: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()

    def before(self, others: Names) -> Names:
        """These names, then the others."""
        return Names(
            self.time + others.time,
            self.level + others.level,
            self.service + others.service,
            self.message + others.message,
            self.trace + others.trace,
        )

    def telling(self) -> frozenset[str]:
        """One of them must be in a line of pairs that is taken for logfmt."""
        return frozenset({*self.time, *self.level, *self.message, "method", "status"})


# ECS, OpenTelemetry, structlog, pino, bunyan, zap, zerolog, logstash, Serilog, journald.
# Then MongoDB, log4j2, Monolog, loguru, GELF, Rust's tracing, nginx's log_format, Kubernetes'
# audit and events, .NET's, hclog's, PostgreSQL's, clouds'.
USUAL = Names(
    time=(
        "@timestamp", "timestamp", "time", "ts", "Timestamp", "timeUnixNano", "observedTimeUnixNano", "@t",
        "t", "datetime", "date", "asctime", "eventTime", "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP",
        "t.$date", "timeMillis", "time_iso8601", "time_local", "requestReceivedTimestamp",
        "record.time.timestamp", "lastTimestamp", "firstTimestamp", "metadata.creationTimestamp", "Time",
    ),
    level=(
        "log.level", "level_name", "level", "severity", "severityText", "SeverityText", "severity_text",
        "levelname", "loglevel", "log_level", "lvl", "@l", "log.syslog.severity.name", "Level", "at", "s",
        "record.level.name", "LogLevel", "@level", "error_severity", "type",
    ),
    service=(
        "service.name", "resource.service.name", "resource.attributes.service.name", "Resource.service.name",
        "service", "app", "application", "logger", "log.logger", "logger_name", "loggerName", "name",
        "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "_COMM", "component", "channel", "target", "record.name", "c",
        "caller", "SourceContext", "Category", "@module", "ServiceName", "source.component",
        "reportingComponent", "resource.labels.container_name", "resource.labels.service_name", "eventSource",
        "winlog.provider_name",
    ),
    message=(
        "message", "msg", "event", "body", "Body", "body.stringValue", "MESSAGE", "@m", "@mt", "@message",
        "RenderedMessage", "Message", "MessageTemplate", "short_message", "fields.message", "record.message",
        "textPayload", "jsonPayload.message", "log", "text", "alert.signature", "eventName",
        "properties.message", "error", "request", "requestURI", "operationName",
    ),
    trace=(
        "error.stack_trace", "stack_trace", "exception", "err.stack", "stack", "exc_info", "stacktrace",
        "full_message", "thrown.extendedStackTrace", "@x", "Exception",
    ),
)  # fmt: skip
_STATUSES = ("status", "DownstreamStatus", "httpRequest.status", "http.response.status_code", "statusCode")
# What was asked for, where no message says it.
_REQUESTS = (
    ("method", "path"),
    ("method", "uri"),
    ("method", "url"),
    ("RequestMethod", "RequestPath"),
    ("httpRequest.requestMethod", "httpRequest.requestUrl"),
    ("http.request.method", "url.path"),
    ("request_method", "request_uri"),
    ("cs-method", "cs-uri-stem"),
)
_HOLE = re.compile(r"\{[@$]?(\w+)(?:,-?\d+)?(?::[^}]*)?\}")
_DURATION = re.compile(r"\d+m?s")
_DEEPEST = 4
_LOGFMT = re.compile(r'([A-Za-z_@][\w.@/-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)')


def flat(value: dict[str, object], prefix: str = "", depth: int = 0) -> dict[str, object]:
    """Nested objects as dotted names; OpenTelemetry's lists of attributes too."""
    found: dict[str, object] = {}
    for name, inner in value.items():
        if name == "attributes" and isinstance(inner, list):
            inner = {
                str(item.get("key")): next(iter(item["value"].values()), None)
                for item in inner
                if isinstance(item, dict) and isinstance(item.get("value"), dict)
            }
        if isinstance(inner, dict) and depth < _DEEPEST:
            if name in ("resource", "attributes") and isinstance(inner.get("attributes"), dict):
                inner = inner["attributes"]
            found.update(flat(inner, f"{prefix}{name}.", depth + 1))
        else:
            found[prefix + name] = inner
    return found


def _take(values: dict[str, object], names: tuple[str, ...]) -> object:
    for name in names:
        if values.get(name) not in (None, ""):
            return values.pop(name)
    return None


def _time(value: object, times: Times) -> str | None:
    if isinstance(value, str):
        if (settled := times.iso(value)) is not None:
            return settled
        try:
            return epoch(int(value) if value.isdecimal() else float(value))
        except ValueError:
            return None
    return epoch(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _level(values: dict[str, object], names: Names) -> str | None:
    if isinstance(values.get("PRIORITY"), str) and str(values["PRIORITY"]).isdecimal():
        return level_of_priority(str(values.pop("PRIORITY")))
    level = None
    for name in names.level:
        found = values.get(name)
        if isinstance(found, str):
            level = level_of(found)
        elif isinstance(found, (int, float)):
            level = level_of_number(found)
        if level is not None:
            del values[name]
            break
    for name in ("severityNumber", "SeverityNumber", "severity_number"):
        number = values.get(name)
        if isinstance(number, (int, float)):
            del values[name]
            level = level or level_of_otel(number)
    return level or _level_of_status(values)


def _level_of_status(values: dict[str, object]) -> str | None:
    for name in _STATUSES:
        status = str(values.get(name, ""))
        if len(status) == 3 and status.isdecimal():
            values.setdefault("status", values[name])
            return level_of_status(status)
    return None


def of_values(
    values: dict[str, object], times: Times, format: str, line: str, names: Names = USUAL
) -> Record:
    """The record of named values; those without a part in it stay as fields.  Without a message it is what
    was requested, or the line itself."""
    # Serilog leaves out the level of what is only information, and the values of its messages.
    is_compact = "@t" in values
    time = _time(_take(values, names.time), times) or _instant(values)
    level = _level(values, names) or ("INFO" if is_compact else None)
    message = _take(values, names.message)
    service = _take(values, names.service)
    if isinstance(service, str) and _DURATION.fullmatch(service):
        values["service"] = service  # Heroku's router says how long the service took.
        service = None
    trace = _take(values, names.trace)
    if trace is not None:
        values["trace"] = trace
    if message is None:
        message = _request(values) or line
    elif not isinstance(message, str):
        message = _bytes(message) or json.dumps(message, ensure_ascii=False)
    elif is_compact and "{" in message:
        message = _HOLE.sub(lambda hole: str(values.get(hole[1], hole[0])), message)
    return Record(
        time, level, None if service is None else str(service), message.rstrip("\n"), format, values
    )


def _request(values: dict[str, object]) -> str | None:
    for method, path in _REQUESTS:
        if isinstance(values.get(method), str) and isinstance(values.get(path), str):
            return f"{values[method]} {values[path]}"
    return None


def _instant(values: dict[str, object]) -> str | None:
    """log4j2's time."""
    seconds = values.get("instant.epochSecond")
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return None
    del values["instant.epochSecond"]
    nanoseconds = values.pop("instant.nanoOfSecond", 0)
    return epoch(seconds * 10**9 + (nanoseconds if isinstance(nanoseconds, int) else 0))


def _bytes(value: object) -> str | None:
    """journald writes a message that is not plain text as a list of bytes."""
    if not isinstance(value, list) or not all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return None
    return bytes(value).decode(errors="replace")


def json_object(line: str) -> dict[str, object] | None:
    """The object of a line, if it is one."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_json(line: str, times: Times, names: Names = USUAL) -> Record | None:
    value = json_object(line)
    return None if value is None else of_values(flat(value), times, "json", line, names)


def read_logfmt(
    line: str, times: Times, names: Names = USUAL, telling: frozenset[str] = USUAL.telling()
) -> Record | None:
    """A line that is nothing but `key=value`, with a time, a level or a message among them."""
    values: dict[str, object] = {}
    position = 0
    while position < len(line):
        match = _LOGFMT.match(line, position)
        if match is None:
            return None
        value = match[2]
        values[match[1]] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        position = match.end()
    if len(values) < 2 or telling.isdisjoint(values):
        return None
    return of_values(values, times, "logfmt", line, names)
