"""Bytes to text, as Apache Kafka's deserializers and Java's toString do it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from barnabas.cli.framework.exits import UsageError

Text = Callable[[bytes], bytes]
_PACKAGE = "org.apache.kafka.common.serialization."
_ENDING = "Deserializer"


def _as_is(data: bytes) -> bytes:
    return data


def _whole(form: str) -> Text:
    packed = struct.Struct(form)
    return lambda data: str(_number(packed, data)).encode()


def _number(packed: struct.Struct, data: bytes) -> int:
    if len(data) != packed.size:
        raise ValueError(f"Size of data received by the deserializer is not {packed.size}")
    value: int = packed.unpack(data)[0]
    return value


def _fraction(form: str) -> Text:
    packed = struct.Struct(form)
    return lambda data: java_fraction(_number(packed, data), form).encode()


def java_fraction(value: float, form: str) -> str:
    """The shortest digits that identify a float (`>f`) or a double (`>d`), as Java prints them."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if not 1e-3 <= abs(value) < 1e7 and value:
        digits, _, exponent = _shortest(value, form).partition("e")
        return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
    if not value:
        return "-0.0" if str(value).startswith("-") else "0.0"
    from decimal import Decimal

    plain = format(Decimal(_shortest(value, form)), "f")
    return plain if "." in plain else plain + ".0"


def _shortest(value: float, form: str) -> str:
    """With an exponent, and with just enough digits to parse back to the same value."""
    packed = struct.Struct(form).pack
    for digits in range(17):
        text = f"{value:.{digits}e}"
        if packed(float(text)) == packed(value):
            break
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{exponent}"


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ValueError(f"{data.hex()} is not a boolean")
    return b"true" if data == b"\1" else b"false"


def _escaped(data: bytes) -> bytes:
    """As Kafka's Bytes.toString prints it."""
    return "".join(
        chr(byte) if 32 <= byte <= 126 and byte != 92 else f"\\x{byte:02X}" for byte in data
    ).encode()


def _uuid(data: bytes) -> bytes:
    digits = data.decode("ascii").replace("-", "")
    if len(digits) != 32:
        raise ValueError("it is not a UUID")
    value = f"{int(digits, 16):032x}"
    return "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:])).encode()


_TEXTS: dict[str, Text] = {
    # Java prints the identity of a byte array, which is useless.
    "ByteArray": _as_is,
    "ByteBuffer": _as_is,
    "Bytes": _escaped,
    "Boolean": _boolean,
    "Short": _whole(">h"),
    "Integer": _whole(">i"),
    "Long": _whole(">q"),
    "Float": _fraction(">f"),
    "Double": _fraction(">d"),
    "UUID": _uuid,
}


def deserializer(properties: Mapping[str, str], option: str, program: str) -> Text:
    """The deserializer that `key.deserializer`, `value.deserializer` or `headers.deserializer` names."""
    given = properties.get(option, "")
    name = given.removeprefix(_PACKAGE).removesuffix(_ENDING)
    if not given:
        return _as_is
    if name == "String":
        return _string(_encoding(properties, option), program)
    if name in _TEXTS:
        return _TEXTS[name]
    known = ", ".join(sorted([*_TEXTS, "String"]))
    raise UsageError(f"{program}: {option}={given} cannot be loaded (there is no Java); available: {known}")


def _encoding(properties: Mapping[str, str], option: str) -> str:
    """Properties of a deserializer are prefixed with the option; the encoding has two names."""
    for name in (f"{option}.{option}.encoding", f"{option}.deserializer.encoding"):
        if name in properties:
            return properties[name]
    return "utf-8"


def _string(encoding: str, program: str) -> Text:
    try:
        "".encode(encoding)
    except LookupError as error:
        raise UsageError(f"{program}: {error}") from error
    return lambda data: data.decode(encoding, "replace").encode()
