"""Conversion of text to typed values and back, exactly as Apache Kafka's ConfigDef does it.

Contains Java's rules for trimming, numbers, booleans and lists, and Java's formatting of doubles.  Nothing
here knows a particular option.
"""

from __future__ import annotations

import re
from typing import Any

from barnabas.config.errors import invalid_value
from barnabas.config.option import Option, Type

# String.trim() strips every character up to the space, and no other kind of white space.
JAVA_BLANKS = "".join(map(chr, range(0x21)))
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII
)
_HEX_DOUBLE = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?", re.ASCII
)
_BITS = {Type.SHORT: 16, Type.INT: 32, Type.LONG: 64}
_LAST_BMP_CHARACTER = 0xFFFF
HIDDEN = "[hidden]"


class Password:
    """A secret that no log line, message or response shows; read `value` to use it."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return HIDDEN


def parse_value(option: Option, value: object) -> Any:
    """The typed form of the value that a file or a caller gave for `option`.

    Text is parsed as Java parses it; a value that already has the right type is taken unchanged.  `None`
    stays `None`, like a key without a value in Apache Kafka.
    """
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return _parse_text(option.type, value.strip(JAVA_BLANKS))
        return _take_typed(option.type, value)
    except _RefusedError as refusal:
        shown = HIDDEN if option.sensitive else value
        raise invalid_value(option.name, shown, refusal.why, allowed=allowed_values(option)) from None


def allowed_values(option: Option) -> str:
    """The values an option accepts, for humans: `INT, [1,...]`."""
    accepted = "true, false" if option.type is Type.BOOLEAN else str(option.type)
    return accepted if option.valid is None else f"{accepted}, {option.valid}"


class _RefusedError(Exception):
    def __init__(self, why: str) -> None:
        self.why = why


def _parse_text(kind: Type, text: str) -> Any:
    match kind:
        case Type.STRING | Type.CLASS:
            return text
        case Type.INT | Type.LONG | Type.SHORT:
            return _parse_integer(kind, text)
        case Type.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise _RefusedError("Expected value to be either true or false")
            return lowered == "true"
        case Type.LIST:
            return tuple(_COMMA.split(text)) if text else ()
        case Type.DOUBLE:
            return _parse_double(text)
        case Type.PASSWORD:
            return Password(text)


def _parse_integer(kind: Type, text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # isdecimal() accepts what Character.digit() does, but Java works on UTF-16 units and so rejects the rest.
    if not digits.isdecimal() or max(map(ord, digits)) > _LAST_BMP_CHARACTER:
        raise _RefusedError(f"Not a number of type {kind}")
    try:
        return _in_range(kind, int(text))
    except ValueError:  # Python does not parse thousands of digits; no integer type is that wide.
        raise _RefusedError(f"Not a number of type {kind}") from None


def _in_range(kind: Type, number: int) -> int:
    limit = 1 << (_BITS[kind] - 1)
    if not -limit <= number < limit:
        raise _RefusedError(f"Not a number of type {kind}")
    return number


def _parse_double(text: str) -> float:
    # parseDouble trims by itself, accepts a type suffix, and knows NaN and Infinity in this spelling only.
    if _DOUBLE.fullmatch(text):
        return float(text.rstrip("fFdD"))
    if _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(text.rstrip("fFdD"))
        except OverflowError:
            return float("-inf") if text.startswith("-") else float("inf")
    raise _RefusedError("Not a number of type DOUBLE")


def _take_typed(kind: Type, value: object) -> Any:
    match kind:
        case Type.INT | Type.LONG | Type.SHORT if isinstance(value, int) and not isinstance(value, bool):
            return _in_range(kind, value)
        case Type.BOOLEAN if isinstance(value, bool):
            return value
        case Type.DOUBLE if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case Type.LIST if isinstance(value, list | tuple):
            return tuple(value)
        case Type.PASSWORD if isinstance(value, Password):
            return value
        case Type.CLASS:
            return value
    raise _RefusedError(_WRONG_TYPE[kind].format(type(value).__name__))


_WRONG_TYPE = {
    Type.BOOLEAN: "Expected value to be either true or false",
    Type.STRING: "Expected value to be a string, but it was a {}",
    Type.PASSWORD: "Expected value to be a string, but it was a {}",
    Type.INT: "Expected value to be a 32-bit integer, but it was a {}",
    Type.SHORT: "Expected value to be a 16-bit integer (short), but it was a {}",
    Type.LONG: "Expected value to be a 64-bit integer (long), but it was a {}",
    Type.DOUBLE: "Expected value to be a double, but it was a {}",
    Type.LIST: "Expected a comma separated list.",
}


def format_value(option: Option, value: Any) -> str | None:
    """The text of a typed value, as DescribeConfigs shows it; secrets are hidden."""
    if value is None:
        return None
    match option.type:
        case Type.BOOLEAN:
            return "true" if value else "false"
        case Type.LIST:
            return ",".join(map(str, value))
        case Type.DOUBLE:
            return format_double(value)
        case Type.PASSWORD:
            return HIDDEN
        case Type.CLASS if not isinstance(value, str):
            return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else repr(value)
    return str(value)


def format_double(number: float) -> str:
    """`Double.toString`: plain digits from 10^-3 up to 10^7, and `d.dddEn` outside."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = _decimal_parts(number)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _decimal_parts(number: float) -> tuple[str, str, int]:
    """Sign, significant digits and the exponent of the first digit, from Python's shortest form."""
    mantissa, _, exponent = f"{number!r}".partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole) - 1 if whole.strip("0") else -1 - (len(fraction) - len(fraction.lstrip("0")))
    return sign, digits.rstrip("0") or "0", leading + int(exponent or 0)
