"""The handler, and JSON for its records.

What lives here: from a LogRecord to a record of a topic.  What may not: sending, which is the client's.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client.producer.delivery import RecordMetadata
    from barnabas.client.sync import Producer

# A broker may be away that long before lines are given up.
DELIVERY_TIMEOUT_MS = 300_000
CLOSE_TIMEOUT_MS = 30_000
# What the client itself logs while it sends would be sent again, for ever.
OWN_LOGGERS = ("barnabas", "asyncio")
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (ISO 8601, UTC), level, logger, message, and what was given as `extra`."""

    def __init__(self, service: str | None = None) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {"time": time, "level": record.levelname, "logger": record.name}
        if self._service is not None:
            entry["service"] = self._service
        entry["message"] = record.getMessage()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        for name, value in vars(record).items():
            if name not in _ORDINARY and name not in entry:
                entry[name] = value
        return json.dumps(entry, default=str, ensure_ascii=False)


class Handler(logging.Handler):
    """Sends log records to a topic.  The producer starts with the first of them, in the process that logs it:
    a server that forks its workers needs nothing special.

    `service` becomes the key, so that a service's lines stay in order.  Further options are the producer's.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, object] | None = None,
        *,
        service: str | None = None,
        level: int = logging.NOTSET,
        **options: object,
    ) -> None:
        super().__init__(level)
        self.topic = topic
        # Records that were not written in the end.
        self.lost = 0
        self._key = service.encode() if service is not None else None
        self._config = dict(config or {})
        self._options = {"delivery_timeout_ms": DELIVERY_TIMEOUT_MS, **options}
        self._producer: Producer | None = None
        self._process = 0
        self._is_closed = False
        self.setFormatter(JsonFormatter(service))

    def filter(self, record: logging.LogRecord) -> bool:
        # Asked before the handler is locked: the client's thread must never wait for whoever waits for it.
        return record.name.partition(".")[0] not in OWN_LOGGERS and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_closed:
            return
        try:
            value = self.format(record).encode(errors="backslashreplace")
            timestamp_ms = int(record.created * 1000)
            self._open().send(
                self.topic, value, self._key, timestamp_ms=timestamp_ms, on_delivery=self._delivered
            )
        except Exception:
            self.handleError(record)

    def _open(self) -> Producer:
        """The producer of this process: a thread does not survive a fork."""
        if self._producer is None or self._process != os.getpid():
            from barnabas.client.sync import Producer

            self._producer = Producer(self._config, **self._options)
            self._process = os.getpid()
        return self._producer

    def _delivered(self, _metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None:
            self.lost += 1

    def flush(self) -> None:
        """Wait until everything that was logged is written, or has failed."""
        if self._producer is not None and self._process == os.getpid() and not self._is_closed:
            self._producer.flush()

    def close(self) -> None:
        """Write what waits, for half a minute at most."""
        if self._producer is not None and self._process == os.getpid() and not self._is_closed:
            self._is_closed = True
            self._producer.close(timeout_ms=CLOSE_TIMEOUT_MS)
        self._is_closed = True
        super().close()
