"""Avro with a schema registry that has the API of Confluent's: `pip install 'barnabas[avro]'`.

A record is a zero byte, the schema's id in four bytes, and the value in Avro's binary encoding.  The registry
is asked once for each schema, when its first record is serialized or deserialized; that request blocks.
"""

from __future__ import annotations

import io
import json
from base64 import b64encode
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from barnabas.client.serialization.formats import Format

# The kinds of schemas, as registries call them.
AVRO, JSON_SCHEMA = "AVRO", "JSON"
_MAGIC = b"\0"
_ID_BYTES = 4
_HEAD_BYTES = len(_MAGIC) + _ID_BYTES
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# The largest answer that is read, and how many schemas are kept.
MAX_ANSWER_BYTES = 16 << 20
MAX_SCHEMAS = 10_000
DEFAULT_TIMEOUT_S = 10.0


class RegistryError(OSError):
    """The schema registry did not answer, or refused."""


class RegistryUnreachableError(RegistryError, ConnectionError):
    """The schema registry did not answer."""


class SchemaRegistry:
    """A registry by its address, as in `http://user:password@localhost:8081`."""

    def __init__(self, url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a registry: write http://HOST:PORT")
        port = "" if parts.port is None else f":{parts.port}"
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.url = urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
        self._timeout_s = timeout_s
        self._headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + b64encode(pair.encode()).decode("ascii")

    def schema(self, schema_id: int, kind: str = AVRO) -> str:
        """The schema with an id."""
        return self._schema(self._ask(f"/schemas/ids/{schema_id}", None), f"schema {schema_id}", kind)

    def latest(self, subject: str, kind: str = AVRO) -> str:
        """The newest schema of a subject."""
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/latest", None)
        return self._schema(answer, f"the schema of {subject}", kind)

    def register(self, subject: str, schema: str, kind: str = AVRO) -> int:
        """The id of a schema under a subject, registered if it is new."""
        return self._id(self._ask(f"/subjects/{quote(subject, safe='')}/versions", schema, kind))

    def look_up(self, subject: str, schema: str, kind: str = AVRO) -> int:
        """The id of a schema that is registered under a subject."""
        return self._id(self._ask(f"/subjects/{quote(subject, safe='')}", schema, kind))

    def _schema(self, answer: dict[str, Any], what: str, wanted: str) -> str:
        schema, kind = answer.get("schema"), answer.get("schemaType", AVRO)
        if not isinstance(schema, str) or kind != wanted:
            name = "Avro" if wanted == AVRO else wanted
            raise RegistryError(f"{self.url}: {what} is {kind}, not {name}")
        return schema

    def _id(self, answer: dict[str, Any]) -> int:
        number = answer.get("id")
        if not isinstance(number, int) or not 0 <= number < 2**31:
            raise RegistryError(f"{self.url}: the answer has no schema id")
        return number

    def _ask(self, path: str, schema: str | None, kind: str = AVRO) -> dict[str, Any]:
        # Registries of before there were other kinds do not know the name.
        named = {} if kind == AVRO else {"schemaType": kind}
        body = None if schema is None else json.dumps({"schema": schema, **named}).encode()
        request = Request(self.url + path, data=body, headers=self._headers)
        try:
            with urlopen(request, timeout=self._timeout_s) as response:  # checked before  # nosec B310
                data = response.read(MAX_ANSWER_BYTES + 1)
        except HTTPError as error:
            raise RegistryError(f"{self.url}{path}: {_reason(error)}") from error
        except (URLError, OSError) as error:
            raise RegistryUnreachableError(
                f"{self.url} does not answer ({error}); check the address of the registry"
            ) from error
        if len(data) > MAX_ANSWER_BYTES:
            raise RegistryError(f"{self.url}{path}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
        try:
            answer = json.loads(data)
        except ValueError as error:
            raise RegistryError(f"{self.url}{path}: the answer is not JSON") from error
        if not isinstance(answer, dict):
            raise RegistryError(f"{self.url}{path}: the answer is not an object")
        return answer


def _reason(error: HTTPError) -> str:
    try:
        message = json.loads(error.read(MAX_ANSWER_BYTES))["message"]
    except (ValueError, KeyError, TypeError, OSError):
        message = error.reason
    return f"HTTP {error.code}: {message}"


class Avro(Format[Any]):
    """Records as Avro; without a schema it only deserializes, into what the writer's schema says.

        Avro(schema, registry=SchemaRegistry("http://localhost:8081"))

    The subject is `TOPIC-value`, or `TOPIC-key` with `is_key`.  A new schema is registered with the first
    record; with `register=False` it must be registered already.
    """

    def __init__(
        self,
        schema: str | dict[str, Any] | list[Any] | None = None,
        *,
        registry: SchemaRegistry,
        is_key: bool = False,
        register: bool = True,
    ) -> None:
        try:
            import fastavro
        except ImportError as error:
            raise ImportError("Avro needs fastavro: pip install 'barnabas[avro]'") from error
        self._avro = fastavro
        self._registry = registry
        self._suffix = "key" if is_key else "value"
        self._register = register
        self._text = schema if isinstance(schema, str) or schema is None else json.dumps(schema)
        self._own = None if self._text is None else fastavro.parse_schema(json.loads(self._text))
        self._ids: dict[str, int] = {}
        self._writers: dict[int, Any] = {}

    def serialize(self, topic: str, data: Any) -> bytes | None:
        if data is None:
            return None
        if self._text is None or self._own is None:
            raise TypeError("a schema is needed to serialize: Avro(schema, registry=…)")
        schema_id = self._ids.get(topic)
        if schema_id is None:
            subject = f"{topic}-{self._suffix}"
            ask = self._registry.register if self._register else self._registry.look_up
            schema_id = self._ids[topic] = ask(subject, self._text)
        out = io.BytesIO()
        out.write(_MAGIC + schema_id.to_bytes(_ID_BYTES))
        self._avro.schemaless_writer(out, self._own, data)
        return out.getvalue()

    def deserialize(self, topic: str, data: bytes | None) -> Any:
        if data is None:
            return None
        if len(data) < _HEAD_BYTES or data[:1] != _MAGIC:
            raise ValueError("the bytes do not start with the id of a schema (a zero byte and four more)")
        written = self._written_with(int.from_bytes(data[1:_HEAD_BYTES]))
        source = io.BytesIO(data)
        source.seek(_HEAD_BYTES)
        value = self._avro.schemaless_reader(source, written, self._own)
        if source.tell() != len(data):
            raise ValueError(f"{len(data) - source.tell()} bytes follow the value")
        return value

    def _written_with(self, schema_id: int) -> Any:
        found = self._writers.get(schema_id)
        if found is None:
            if len(self._writers) >= MAX_SCHEMAS:
                self._writers.clear()
            text = self._registry.schema(schema_id)
            found = self._writers[schema_id] = self._avro.parse_schema(json.loads(text))
        return found
