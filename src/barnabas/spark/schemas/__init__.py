"""Values with schemas of a registry: Avro and JSON Schema."""

from __future__ import annotations

from barnabas.spark.schemas.values import SchemaError, decoded, encoded

__all__ = ["SchemaError", "decoded", "encoded"]
