"""Topics of a pipeline whose values have schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.spark.pipeline.definition import PipelineError, filled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Settings = Mapping[str, str]


def encoder(topic: str, form: str, registry: str) -> Callable[[DataFrame, Settings], DataFrame]:
    """A transform from rows to records; topic and registry may name settings."""
    _check(form, registry)

    def encode(rows: DataFrame, settings: Settings) -> DataFrame:
        from barnabas.spark.schemas import encoded

        where = f"topic {topic}"
        return encoded(
            rows, filled(registry, settings, where), f"{filled(topic, settings, where)}-value", form
        )

    return encode


def decoder(topic: str, form: str, registry: str) -> Callable[[DataFrame, Settings], DataFrame]:
    """A function from a topic's rows to rows with `data` and `problem`."""
    _check(form, registry)

    def decode(rows: DataFrame, settings: Settings) -> DataFrame:
        from barnabas.spark.schemas import decoded

        where = f"topic {topic}"
        return decoded(
            rows, filled(registry, settings, where), f"{filled(topic, settings, where)}-value", form
        )

    return decode


def _place(registry: str, topic: str, settings: Settings) -> tuple[str, str]:
    """The registry and the subject."""
    where = f"topic {topic}"
    return filled(registry, settings, where), f"{filled(topic, settings, where)}-value"


def _check(form: str, registry: str) -> None:
    if form not in ("avro", "json-schema"):
        raise PipelineError(f"value_format {form!r} is neither avro nor json-schema")
    if not registry:
        raise PipelineError(f"value_format {form} needs schema_registry, the address of the registry")
