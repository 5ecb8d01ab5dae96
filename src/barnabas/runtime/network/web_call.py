"""One request over HTTP or HTTPS, to an issuer of tokens.  It blocks: call it on a worker.

Redirects are not followed and proxies not used, so that only what was configured is asked.
"""

from __future__ import annotations

import http.client
import os
import shlex
import ssl
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

MAX_RESPONSE_BYTES = 1 << 20
DEFAULT_TIMEOUT_MS = 10_000
_CHUNK = 1 << 16
_HTTP_OK = 200
_SERVER_ERRORS = 500


class WebCallError(Exception):
    """The request did not succeed.  The message has nothing of what was sent or received."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        super().__init__(message)
        # Whether the server understood the request and will not do it: no retry helps.
        self.is_refusal = is_refusal


class Timeouts(NamedTuple):
    """How long to wait for the connection, and for the whole response."""

    connect_ms: int = DEFAULT_TIMEOUT_MS
    read_ms: int = DEFAULT_TIMEOUT_MS


DEFAULT_TIMEOUTS = Timeouts()


def web_call(
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
    trusted: str | None = None,
) -> bytes:
    """GETs, or with a body POSTs; returns the body of a response with status 200.

    `trusted` holds certificates in PEM form, if not those of the system are to be trusted.
    """
    parts = urlsplit(url)
    connection = _connection(parts, timeouts, trusted)
    try:
        connection.connect()
        connection.sock.settimeout(timeouts.read_ms / 1000)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET" if body is None else "POST", target, body, dict(headers or {}))
        return _body(connection.getresponse(), _named(parts), timeouts)
    except (OSError, http.client.HTTPException) as error:
        raise WebCallError(f"{_named(parts)} cannot be reached: {error or type(error).__name__}") from error
    finally:
        connection.close()


def _connection(parts: SplitResult, timeouts: Timeouts, trusted: str | None) -> http.client.HTTPConnection:
    host, timeout_s = parts.hostname, timeouts.connect_ms / 1000
    if host is None or parts.scheme not in ("http", "https"):
        raise WebCallError("a URL must be http://HOST or https://HOST", is_refusal=True)
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    context = ssl.create_default_context(cadata=trusted)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)


def _body(response: http.client.HTTPResponse, name: str, timeouts: Timeouts) -> bytes:
    if response.status != _HTTP_OK:
        refused = response.status < _SERVER_ERRORS
        raise WebCallError(f"{name} answered with the status {response.status}", is_refusal=refused)
    deadline = time.monotonic() + timeouts.read_ms / 1000
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > MAX_RESPONSE_BYTES:
            raise WebCallError(f"{name} answered with more than {MAX_RESPONSE_BYTES} bytes", is_refusal=True)
        if time.monotonic() > deadline:
            raise WebCallError(f"{name} did not send its answer within {timeouts.read_ms} ms")
    return bytes(data)


def _named(parts: SplitResult) -> str:
    """Without user, query and fragment, in which secrets may stand."""
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"


def java_property(name: str) -> str | None:
    """A system property that Apache Kafka's scripts give to Java: `-DNAME=VALUE` in KAFKA_OPTS."""
    try:
        words = shlex.split(os.environ.get("KAFKA_OPTS", ""))
    except ValueError:
        return None
    found = [word.partition("=")[2] for word in words if word.startswith(f"-D{name}=")]
    return found[-1] if found else None
