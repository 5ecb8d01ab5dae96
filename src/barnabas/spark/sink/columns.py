"""The columns of a sink, with the rules and messages of Spark's own Kafka connector.

Contains the check of a schema, and the conversion of Arrow batches for the engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from barnabas.batch.engine.arrow_rows import ArrowRows, BinaryCells, HeaderCells, NumberCells

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS_TYPE = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TEXT_OR_BYTES: tuple[DataType, ...] = (StringType(), BinaryType())
_TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "headers": (HEADERS_TYPE,),
    "partition": (IntegerType(),),
}


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """The position of each column in a row; None if it is missing."""

    value: int
    key: int | None
    headers: int | None
    partition: int | None
    # Used only if the option `topic` is not given.
    topic: int | None


def sink_columns(schema: StructType, topic: str | None) -> SinkColumns:
    """Check a schema; names are case-sensitive and other columns ignored, as by the connector."""
    places: dict[str, int] = {}
    for place, column in enumerate(schema.fields):
        places.setdefault(column.name, place)
    if topic is None and "topic" not in places:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. "
            "Use the topic option for setting a topic."
        )
    if "value" not in places:
        raise ValueError("Required attribute 'value' not found")
    for name, allowed in _TYPES.items():
        if name in places and not (name == "topic" and topic is not None):
            _check_type(name, schema.fields[places[name]].dataType, allowed)
    return SinkColumns(
        places["value"],
        places.get("key"),
        places.get("headers"),
        places.get("partition"),
        None if topic is not None else places["topic"],
    )


def _check_type(name: str, given: DataType, allowed: tuple[DataType, ...]) -> None:
    if not any(_same(given, data_type) for data_type in allowed):
        wanted = " or ".join(data_type.simpleString() for data_type in allowed)
        raise ValueError(
            f"{name} attribute unsupported type {given.simpleString()}. {name} must be a(n) {wanted}"
        )


def _same(given: DataType, wanted: DataType) -> bool:
    """Whether types are equal except for nullability, as Spark compares them."""
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return _same(given.elementType, wanted.elementType)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return given.names == wanted.names and all(
            _same(field.dataType, other.dataType)
            for field, other in zip(given.fields, wanted.fields, strict=True)
        )
    return type(given) is type(wanted)


def rows_by_topic(
    batch: pa.RecordBatch, columns: SinkColumns, topic: str | None
) -> Iterator[tuple[str, ArrowRows]]:
    """Yield the rows of an Arrow batch, topic by topic; within a topic they keep their order."""
    if topic is not None:
        yield topic, arrow_rows(batch, columns)
        return
    import pyarrow.compute as pc

    assert columns.topic is not None
    encoded = batch.column(columns.topic).dictionary_encode()
    if encoded.null_count:
        raise ValueError("null topic present in the data. Use the topic option for setting a default topic.")
    topics = encoded.dictionary.to_pylist()
    for number, name in enumerate(topics):
        chosen = batch if len(topics) == 1 else batch.filter(pc.equal(encoded.indices, number))
        yield name, arrow_rows(chosen, columns)


def arrow_rows(batch: pa.RecordBatch, columns: SinkColumns) -> ArrowRows:
    """Return the buffers of one batch, for the engine."""

    def column(place: int | None) -> Any:
        return None if place is None else batch.column(place)

    keys, headers, partitions = column(columns.key), column(columns.headers), column(columns.partition)
    return ArrowRows(
        batch.num_rows,
        None if keys is None else _binary_cells(keys),
        _binary_cells(batch.column(columns.value)),
        None if headers is None or headers.null_count == len(headers) else _header_cells(headers),
        None if partitions is None else _number_cells(partitions),
    )


def _binary_cells(column: pa.Array) -> BinaryCells:
    import pyarrow as pa

    if column.type not in (pa.binary(), pa.string()):
        # Spark sends other layouts (with 64-bit offsets) if configured to.
        column = column.cast(pa.binary())
    valid, ends, data = column.buffers()
    return BinaryCells(_bytes(data), _bytes(ends), _bytes(valid), column.offset)


def _number_cells(column: pa.Array) -> NumberCells:
    valid, data = column.buffers()
    return NumberCells(_bytes(data), _bytes(valid), column.offset)


def _header_cells(column: pa.Array) -> HeaderCells:
    import pyarrow as pa

    if not pa.types.is_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    valid, ends = column.buffers()[:2]
    pairs = column.values
    names, contents = _binary_cells(pairs.field(0)), _binary_cells(pairs.field(1))
    return HeaderCells(_bytes(ends), _bytes(valid), column.offset, names, contents)


def _bytes(buffer: pa.Buffer | None) -> bytes:
    return b"" if buffer is None else buffer.to_pybytes()
