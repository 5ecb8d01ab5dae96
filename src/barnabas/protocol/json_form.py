"""Messages as JSON, in the form Apache Kafka prints them: dump-log, the metadata shell, quorum-state files.

Contains the conversion between messages and JSON values.  Files and tools belong elsewhere.

Names are in camelCase and in declaration order.  A version shows the fields it has; a tagged field
only when it differs from its default.  Bytes are base64, ids are text.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from decimal import Decimal
from typing import Any, TypeVar

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.primitives import ProtocolError, record_view
from barnabas.protocol.schema import Field, Message, Schema

M = TypeVar("M", bound=Message)

# A \uXXXX whose backslash is not itself escaped.
_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*\\u)([0-9a-f]{4})")

INTEGER_RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


def to_json(message: Message, version: int) -> dict[str, Any]:
    """The message as plain JSON values.

    Records are written in full, where Apache Kafka writes an empty string or a size.
    """
    message.schema.check_version(version)
    return _write_struct(message, version)


def _write_struct(message: Message, version: int) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for known in message.schema.fields:
        value = getattr(message, known.attribute)
        if version not in known.versions:
            if not known.ignorable and value != known.new_default():
                raise ProtocolError(
                    f"version {version} cannot carry {known.attribute} with a value other than its default",
                    code=ErrorCode.UNSUPPORTED_VERSION,
                    field=known.attribute,
                )
        elif known.tag is None or value != known.new_default():
            written[known.name] = _write_value(known, value, version)
    return written


def _write_value(known: Field, value: Any, version: int) -> Any:
    if value is None:
        if version not in known.nullable:
            raise ProtocolError(f"{known.attribute} is null, which version {version} does not allow")
        return None
    if known.is_array:
        return [_write_item(known, item, version) for item in value]
    return _write_item(known, value, version)


def _write_item(known: Field, value: Any, version: int) -> Any:
    if known.struct is not None:
        return _write_struct(value, version)
    if known.kind in ("bytes", "record_data"):
        return base64.b64encode(record_view(value)).decode("ascii")
    return str(value) if known.kind == "uuid" else value


def from_json(cls: type[M], value: Any, version: int) -> M:
    """The message that `to_json` wrote.  Unknown names are ignored; values of the wrong type are an error."""
    cls.schema.check_version(version)
    made: M = _read_struct(cls.schema, value, version, cls.schema.name)
    return made


def _read_struct(schema: Schema, value: Any, version: int, path: str) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(path, "an object", value)
    made = schema.new()
    for known in schema.fields:
        if known.name in value:
            setattr(made, known.attribute, _read_value(known, value[known.name], version, path))
        elif version in known.versions and known.tag is None:
            raise ProtocolError(
                f"{path} lacks {known.name}, which version {version} must have", field=known.name
            )
    return made


def _read_value(known: Field, value: Any, version: int, path: str) -> Any:
    path = f"{path}.{known.name}"
    if value is None and version in known.nullable:
        return None
    if not known.is_array:
        return _read_item(known, value, version, path)
    if not isinstance(value, list):
        raise _mismatch(path, "a list", value)
    return [_read_item(known, item, version, path) for item in value]


def _read_item(known: Field, value: Any, version: int, path: str) -> Any:
    if known.struct is not None:
        return _read_struct(known.struct.schema, value, version, path)
    if known.kind in INTEGER_RANGES:
        return _read_integer(known.kind, value, path)
    if known.kind == "bool":
        if not isinstance(value, bool):
            raise _mismatch(path, "true or false", value)
        return value
    if known.kind == "float64":
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _mismatch(path, "a number", value)
        return float(value)
    if not isinstance(value, str):
        raise _mismatch(path, "a text", value)
    return value if known.kind == "string" else _read_text(known.kind, value, path)


def _read_integer(kind: str, value: Any, path: str) -> int:
    lowest, highest = INTEGER_RANGES[kind]
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise _mismatch(path, f"a number from {lowest} to {highest}", value)
    return value


def _read_text(kind: str, value: str, path: str) -> bytes:
    try:
        return Uuid.parse(value) if kind == "uuid" else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        expected = "an id of 22 characters" if kind == "uuid" else "base64"
        raise _mismatch(path, expected, value) from error


def _mismatch(path: str, expected: str, value: Any) -> ProtocolError:
    return ProtocolError(f"{path} must be {expected}, not {str(value)[:60]!r}", field=path)


def json_text(value: Any) -> str:
    """JSON on one line as Java's tools write it: no spaces, non-ASCII characters unescaped, doubles in Java's
    form."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return java_double(value)
    text = json.dumps(value, ensure_ascii=False)
    if "\\u" in text:
        # Only control characters are escaped; Java's library writes their digits in upper case.
        return _ESCAPE.sub(lambda match: match[1] + match[2].upper(), text)
    return text


def java_double(value: float) -> str:
    """A double as Java prints it: plain from 10^-3 up to 10^7, else with an exponent; NaN and Infinity
    quoted."""
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{int(exponent) + len(digits) - 1}"
