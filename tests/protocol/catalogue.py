"""All messages, and hypothesis strategies for them, shared by the codec tests."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import barnabas.protocol
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.apis import apis
from barnabas.protocol.json_form import INTEGER_RANGES
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Field, Message, Schema

PACKAGE = Path(barnabas.protocol.__file__).parent


@cache
def records() -> list[type[Message]]:
    """Every internal record."""
    classes = []
    for file in sorted((PACKAGE / "records").glob("[a-z]*.py")):
        for value in vars(import_module(f"barnabas.protocol.records.{file.stem}")).values():
            if isinstance(value, type) and issubclass(value, Message) and value is not Message:
                classes.append(value)
    return classes


@cache
def messages() -> list[type[Message]]:
    """Every top-level message: requests, responses, headers, records."""
    both = [message for api in apis().values() for message in (api.request, api.response)]
    return [*both, RequestHeader, ResponseHeader, *records()]


def versions(cls: type[Message]) -> range:
    return range(cls.schema.versions.lowest, cls.schema.versions.highest + 1)


def one_version_each() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in messages() for version in versions(cls)]


TEXTS = st.one_of(st.text(max_size=6), st.text("ä€😀x", min_size=1, max_size=200))
BYTES = st.binary(max_size=150)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **{kind: st.integers(*limits) for kind, limits in INTEGER_RANGES.items()},
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "string": TEXTS,
    "bytes": BYTES,
    "record_data": BYTES,
    "uuid": st.one_of(st.just(ZERO_UUID), st.binary(min_size=16, max_size=16).map(Uuid)),
}


@cache
def instances(schema: Schema, version: int) -> st.SearchStrategy[Any]:
    """Messages that the version can carry: fields it lacks keep their defaults."""
    present = {
        known.attribute: _values(known, version) for known in schema.fields if version in known.versions
    }

    def build(values: dict[str, Any]) -> Any:
        made = schema.new()
        for attribute, value in values.items():
            setattr(made, attribute, value)
        return made

    return st.fixed_dictionaries(present).map(build)


def _values(known: Field, version: int) -> st.SearchStrategy[Any]:
    item = PRIMITIVES[known.kind] if known.struct is None else instances(known.struct.schema, version)
    value = st.lists(item, max_size=2) if known.is_array else item
    choices = [value]
    if version in known.nullable:
        choices.append(st.none())
    if known.tag is not None and (known.default is not None or version in known.nullable):
        choices.append(st.builds(known.new_default))
    return st.one_of(choices)
