"""Values with schemas of a registry, Avro or JSON Schema: rows of records, and records of rows.

The registry has Confluent's API.  It is asked once for the schema of a topic, when the query is made, and
once in each process for the schemas that records were written with.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.client.serialization import SchemaRegistry
from barnabas.client.serialization.avro import AVRO, JSON_SCHEMA, RegistryUnreachableError
from barnabas.spark.internals import arrow_schema
from barnabas.spark.schemas.types import avro_of, json_of, spark_of_avro, spark_of_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FORMATS = {"avro": AVRO, "json-schema": JSON_SCHEMA}
# The columns that reading adds, and those that writing leaves as they are.
DATA, PROBLEM = "data", "problem"
BESIDE_DATA = ("key", "headers", "partition")
_HEAD_BYTES = 5


class SchemaError(ValueError):
    """A schema that rows cannot have, or a format that is not known."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What tasks need to know; plain values only."""

    registry: str
    kind: str
    schema: str
    schema_id: int = 0


def decoded(rows: DataFrame, registry: str, subject: str, form: str = "avro") -> DataFrame:
    """The rows of a topic, with the column `data` for what the value says by the newest schema of the subject
    (`TOPIC-value`), and `problem` for why it could not be read."""
    from pyspark.sql.types import StringType, StructField, StructType

    kind = _kind(form)
    text = SchemaRegistry(registry).latest(subject, kind)
    data = spark_of_avro(json.loads(text)) if kind == AVRO else spark_of_json(json.loads(text))
    if not isinstance(data, StructType):
        raise SchemaError(f"the schema of {subject} is no record, so that it gives no columns")
    more = [StructField(DATA, data), StructField(PROBLEM, StringType())]
    schema = StructType([*rows.schema.fields, *more])
    reading = partial(_read_batches, known=Registered(registry, kind, text), schema=arrow_schema(schema))
    return rows.mapInArrow(reading, schema)


def encoded(rows: DataFrame, registry: str, subject: str, form: str = "avro") -> DataFrame:
    """Records of rows: their columns are the value, whose schema is registered under the subject; the columns
    `key`, `headers` and `partition` stay beside it."""
    from pyspark.sql.types import BinaryType, StructField, StructType

    kind = _kind(form)
    name = subject.removesuffix("-value")
    fields = [field for field in rows.schema.fields if field.name not in BESIDE_DATA]
    beside = [field for field in rows.schema.fields if field.name in BESIDE_DATA]
    made = avro_of(StructType(fields), name) if kind == AVRO else json_of(StructType(fields), name)
    text = json.dumps(made)
    known = Registered(registry, kind, text, SchemaRegistry(registry).register(subject, text, kind))
    schema = StructType([*beside, StructField("value", BinaryType())])
    names = [field.name for field in fields]
    writing = partial(_write_batches, known=known, names=names, schema=arrow_schema(schema))
    return rows.mapInArrow(writing, schema)


def _kind(form: str) -> str:
    if form not in FORMATS:
        raise SchemaError(f"{form!r} is none of {', '.join(FORMATS)}")
    return FORMATS[form]


# In tasks ---------------------------------------------------------------------------------------------------


def _read_batches(
    batches: Iterator[pa.RecordBatch], known: Registered, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    read = _reader(known)
    kind = schema.field(DATA).type
    for batch in batches:
        found = [_read(value, read) for value in batch.column("value").to_pylist()]
        try:
            data = pa.array([value for value, _ in found], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            # One of them is not what the schema says.
            found = [_fitting(value, problem, kind) for value, problem in found]
            data = pa.array([value for value, _ in found], kind)
        columns = [*batch.columns, data, pa.array([problem for _, problem in found], pa.string())]
        fields = zip(columns, schema, strict=True)
        yield pa.RecordBatch.from_arrays([column.cast(each.type) for column, each in fields], schema=schema)


def _read(value: bytes | None, read: Callable[[bytes], Any]) -> tuple[Any, str | None]:
    if value is None:
        return None, None
    try:
        return read(value), None
    except RegistryUnreachableError:
        raise
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def _fitting(value: Any, problem: str | None, kind: pa.DataType) -> tuple[Any, str | None]:
    import pyarrow as pa

    try:
        pa.array([value], kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        return None, f"{type(error).__name__}: {error}"
    return value, problem


def _reader(known: Registered) -> Callable[[bytes], Any]:
    registry = SchemaRegistry(known.registry)
    if known.kind == JSON_SCHEMA:
        return lambda value: json.loads(_body(value))
    from fastavro import parse_schema, schemaless_reader

    own = parse_schema(json.loads(known.schema))
    writers: dict[int, Any] = {}

    def read(value: bytes) -> Any:
        body = _body(value)
        number = int.from_bytes(value[1:_HEAD_BYTES], "big")
        if number not in writers:
            writers[number] = parse_schema(json.loads(registry.schema(number)))
        return schemaless_reader(io.BytesIO(body), writers[number], own)

    return read


def _body(value: bytes) -> bytes:
    if len(value) < _HEAD_BYTES or value[0]:
        raise ValueError("it does not start with the id of a schema")
    return value[_HEAD_BYTES:]


def _write_batches(
    batches: Iterator[pa.RecordBatch], known: Registered, names: list[str], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    write = _writer(known)
    for batch in batches:
        values = [write(row) for row in batch.select(names).to_pylist(maps_as_pydicts="strict")]
        columns = [batch.column(name) for name in schema.names[:-1]]
        yield pa.RecordBatch.from_arrays(
            [*columns, pa.array(values, schema.field("value").type)], schema=schema
        )


def _writer(known: Registered) -> Callable[[dict[str, Any]], bytes]:
    head = b"\0" + known.schema_id.to_bytes(4, "big")
    if known.kind == JSON_SCHEMA:
        return lambda row: head + json.dumps(row, default=_plain, ensure_ascii=False).encode()
    from fastavro import parse_schema, schemaless_writer

    own = parse_schema(json.loads(known.schema))

    def write(row: dict[str, Any]) -> bytes:
        out = io.BytesIO(head)
        out.seek(len(head))
        schemaless_writer(out, own, row)
        return out.getvalue()

    return write


def _plain(value: object) -> object:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    raise TypeError(f"{type(value).__name__} has no place in JSON")
