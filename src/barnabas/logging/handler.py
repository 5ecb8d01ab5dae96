"""The logging handler and its JSON formatter."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client.producer.delivery import RecordMetadata
    from barnabas.client.sync import Producer

# How long a broker may be unavailable before records are lost.
DELIVERY_TIMEOUT_MS = 300_000
# How long undelivered records may delay the end of a program.
CLOSE_TIMEOUT_MS = 30_000
# Log records of the client itself would cause further ones, endlessly.
OWN_LOGGERS = ("barnabas", "asyncio")
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (ISO 8601, UTC), level, logger, message, and the fields of `extra`."""

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


def _with_timeouts(config: Mapping[str, object], options: Mapping[str, object]) -> dict[str, object]:
    """Return the producer's properties.  Before the first contact records wait for the broker
    (`max.block.ms`) as long as later (`delivery.timeout.ms`)."""
    given = {**config, **{name.replace("_", "."): value for name, value in options.items()}}
    timeout_ms = given.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)
    names = ("delivery.timeout.ms", "max.block.ms")
    return {**{name: timeout_ms for name in names if name not in given}, **config}


class Handler(logging.Handler):
    """Sends log records to a topic.  The producer starts with the first record, in the process that logs it,
    so servers that fork their workers need no special setup.

    `service` becomes the key, which keeps a service's lines in order.  `close_timeout_ms` bounds how long
    `flush` and the end of the program wait for an unavailable broker.  Further options are the producer's.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, object] | None = None,
        *,
        service: str | None = None,
        level: int = logging.NOTSET,
        close_timeout_ms: int = CLOSE_TIMEOUT_MS,
        **options: Any,
    ) -> None:
        super().__init__(level)
        self.topic = topic
        # Records that could not be written.
        self.lost = 0
        self._key = service.encode() if service is not None else None
        self._config = _with_timeouts(config or {}, options)
        self._options = options
        self._close_timeout_ms = close_timeout_ms
        # `logging.shutdown` flushes and closes: together they may take no longer than one time-out.
        self._has_waited = False
        self._producer: Producer | None = None
        self._process = 0
        self._is_closed = False
        self.setFormatter(JsonFormatter(service))

    def filter(self, record: logging.LogRecord) -> bool:
        # Called before the handler is locked: the client's thread must never wait for a thread that waits for
        # it.
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
            # For example, `extra` has a value that JSON cannot represent.
            self.lost += 1
            self.handleError(record)

    def _open(self) -> Producer:
        """Return the producer of this process: a thread does not survive a fork."""
        if self._producer is None or self._process != os.getpid():
            from barnabas.client.sync import Producer

            self._producer = Producer(self._config, **self._options)
            self._process = os.getpid()
        return self._producer

    def _delivered(self, _metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        if error is not None:
            self.lost += 1

    def flush(self) -> None:
        """Wait until all records are written or have failed; `close_timeout_ms` at most."""
        if self._producer is not None and self._process == os.getpid() and not self._is_closed:
            from barnabas.client.errors.local import KafkaTimeoutError

            try:
                self._producer.flush(timeout_ms=self._close_timeout_ms)
            except KafkaTimeoutError:
                # Callers of flush expect no error; lost records are counted.
                self._has_waited = True

    def close(self) -> None:
        """Write waiting records, for `close_timeout_ms` at most, including a preceding flush."""
        was_closed, self._is_closed = self._is_closed, True
        if self._producer is not None and self._process == os.getpid() and not was_closed:
            self._producer.close(timeout_ms=0 if self._has_waited else self._close_timeout_ms)
        super().close()
