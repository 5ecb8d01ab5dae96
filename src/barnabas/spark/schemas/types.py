"""Types of Avro and of JSON Schema as Spark's, and back.  Pure."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "null": StringType(),
}
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_JSON: dict[str, DataType] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
    "null": StringType(),
}
_NAME = re.compile(r"[^A-Za-z0-9_]")


class UnsupportedTypeError(ValueError):
    """There is no column of such a type."""


def spark_of_avro(schema: Any, named: dict[str, DataType] | None = None) -> DataType:
    """The type of a column for an Avro schema; null and one other type is that type."""
    named = {} if named is None else named
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise UnsupportedTypeError(f"a union of {len(others)} types has no column: {schema}")
        return spark_of_avro(others[0], named)
    if isinstance(schema, str):
        found = _PLAIN.get(schema) or named.get(schema)
        if found is None:
            raise UnsupportedTypeError(f"{schema} is no known type")
        return found
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    made: DataType
    if kind == "record":
        made = StructType(
            [StructField(field["name"], spark_of_avro(field["type"], named)) for field in schema["fields"]]
        )
    elif kind == "array":
        made = ArrayType(spark_of_avro(schema["items"], named))
    elif kind == "map":
        made = MapType(StringType(), spark_of_avro(schema["values"], named))
    else:
        made = spark_of_avro(kind, named)
    if "name" in schema:
        named[schema["name"]] = made
    return made


def spark_of_json(schema: dict[str, Any]) -> DataType:
    """The type of a column for a JSON Schema; what has no type of its own there is text."""
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = next((each for each in kinds if each != "null"), "null") if isinstance(kinds, list) else kinds
    options = [each for each in schema.get("oneOf", schema.get("anyOf", [])) if each.get("type") != "null"]
    if len(options) == 1:
        return spark_of_json(options[0])
    if kind == "object":
        properties = schema.get("properties")
        if not properties:
            more = schema.get("additionalProperties")
            return MapType(StringType(), spark_of_json(more) if isinstance(more, dict) else StringType())
        return StructType([StructField(name, spark_of_json(inner)) for name, inner in properties.items()])
    if kind == "array":
        return ArrayType(spark_of_json(schema.get("items", {})))
    if kind not in _JSON:
        raise UnsupportedTypeError(f"{kind} is no known type")
    return _JSON[kind]


def avro_of(kind: DataType, name: str) -> Any:
    """The Avro schema of a column; a record is called `name`."""
    match kind:
        case StructType():
            fields = [_avro_field(field, name) for field in kind.fields]
            return {"type": "record", "name": _NAME.sub("_", name), "fields": fields}
        case ArrayType():
            return {"type": "array", "items": ["null", avro_of(kind.elementType, f"{name}_item")]}
        case MapType():
            return {"type": "map", "values": ["null", avro_of(kind.valueType, f"{name}_value")]}
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case TimestampNTZType():
            return {"type": "long", "logicalType": "local-timestamp-micros"}
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case ByteType() | ShortType():
            return "int"
    for plain, known in _PLAIN.items():
        if known == kind:
            return plain
    raise UnsupportedTypeError(f"{kind.simpleString()} has no type in Avro")


def _avro_field(field: StructField, name: str) -> dict[str, Any]:
    kind = avro_of(field.dataType, f"{name}_{field.name}")
    if field.nullable:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind}


def json_of(kind: DataType, name: str = "") -> dict[str, Any]:
    """The JSON Schema of a column."""
    match kind:
        case StructType():
            properties = {field.name: _json_field(field) for field in kind.fields}
            required = [field.name for field in kind.fields if not field.nullable]
            titled = {"title": name} if name else {}
            return {**titled, "type": "object", "properties": properties, "required": required}
        case ArrayType():
            return {"type": "array", "items": json_of(kind.elementType)}
        case MapType():
            return {"type": "object", "additionalProperties": json_of(kind.valueType)}
        case TimestampType() | TimestampNTZType():
            return {"type": "string", "format": "date-time"}
        case DateType():
            return {"type": "string", "format": "date"}
        case BooleanType():
            return {"type": "boolean"}
        case ByteType() | ShortType() | IntegerType() | LongType():
            return {"type": "integer"}
        case FloatType() | DoubleType() | DecimalType():
            return {"type": "number"}
        case StringType() | BinaryType():
            return {"type": "string"}
    raise UnsupportedTypeError(f"{kind.simpleString()} has no type in JSON")


def _json_field(field: StructField) -> dict[str, Any]:
    inner = json_of(field.dataType)
    if field.nullable and isinstance(inner["type"], str):
        return {**inner, "type": [inner["type"], "null"]}
    return inner
