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
# How long the end of a program may take because of lines that are not written yet.
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
        moment = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        # As the log pipeline reads it (barnabas.spark.logs).
        time = f"{moment.isoformat(timespec='milliseconds')}Z"
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


def _with_patience(config: Mapping[str, object], options: Mapping[str, object]) -> dict[str, object]:
    """The producer's properties.  Before the broker was ever there lines wait for it (`max.block.ms`) as long
    as later (`delivery.timeout.ms`)."""
    given = {**config, **{name.replace("_", "."): value for name, value in options.items()}}
    patience_ms = given.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)
    names = ("delivery.timeout.ms", "max.block.ms")
    return {**{name: patience_ms for name in names if name not in given}, **config}


class Handler(logging.Handler):
    """Sends log records to a topic.  The producer starts with the first of them, in the process that logs it:
    a server that forks its workers needs nothing special.

    `service` becomes the key, so that a service's lines stay in order.  `close_timeout_ms` is how long
    `flush` and the end of the program wait at most for a broker that is away.  Further options are the
    producer's.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, object] | None = None,
        *,
        service: str | None = None,
        level: int = logging.NOTSET,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
        **options: object,
    ) -> None:
        super().__init__(level)
        self.topic = topic
        # Records that were not written in the end.
        self.lost = 0
        self._key = service.encode() if service is not None else None
        self._config = _with_patience(config or {}, options)
        self._options = options
        self._close_timeout_ms = close_timeout_ms
        # `logging.shutdown` flushes and closes: together they may take no longer than one of them.
        self._has_waited = False
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
            self._has_waited = False
            value = self.format(record).encode(errors="backslashreplace")
            timestamp_ms = int(record.created * 1000)
            self._open().send(
                self.topic, value, self._key, timestamp_ms=timestamp_ms, on_delivery=self._delivered
            )
        except Exception:
            # Such as something in `extra` that no JSON can hold.
            self.lost += 1
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
        """Wait until everything that was logged is written, or has failed; `close_timeout_ms` at most."""
        if self._producer is not None and self._process == os.getpid() and not self._is_closed:
            from barnabas.client.errors.local import KafkaTimeoutError

            try:
                self._producer.flush(timeout_ms=self._close_timeout_ms)
            except KafkaTimeoutError:
                # Nobody who flushes a log expects an error; what is lost in the end is counted.
                self._has_waited = True

    def close(self) -> None:
        """Write what waits, for `close_timeout_ms` (half a minute) at most, a flush just before included."""
        if self._producer is not None and self._process == os.getpid() and not self._is_closed:
            self._is_closed = True
            self._producer.close(timeout_ms=0 if self._has_waited else self._close_timeout_ms)
        self._is_closed = True
        super().close()
