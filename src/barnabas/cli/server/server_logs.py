"""The logs of a server: on stderr or in a rotating file, as text or JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

from barnabas.base.log_text import LONGEST_LINE, shown

# A log file is rotated at this size; this many old files are kept.
MAX_LOG_BYTES = 64 << 20
KEPT_LOGS = 9
FORMATS = ("text", "json")


class TextFormatter(logging.Formatter):
    """`2026-11-15 11:49:39,123 INFO barnabas.broker.server: node 1 has stopped`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging has named it
        """One line, whatever text a client sends: it cannot forge a log line."""
        record.message = shown(record.message, LONGEST_LINE)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  # logging has named it
        """Indented, so that no line of it looks like a log line."""
        return textwrap.indent(super().formatException(ei), "    ")


class JsonFormatter(logging.Formatter):
    """One object per line: time in milliseconds, level, logger, message, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time_ms": int(record.created * 1_000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage()[:LONGEST_LINE],
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


@contextlib.contextmanager
def logging_to(path: str | None, form: str, level: int = logging.INFO) -> Iterator[None]:
    """In this context the process logs to a rotating file, or to stderr."""
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        from logging.handlers import (
            RotatingFileHandler,
        )  # Imported lazily: only a daemon needs it, and it takes some ms.

        handler = RotatingFileHandler(path, maxBytes=MAX_LOG_BYTES, backupCount=KEPT_LOGS, encoding="utf-8")
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    before = logging.root.level
    logging.root.addHandler(handler)
    logging.root.setLevel(level)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        logging.root.setLevel(before)
        handler.close()
