"""Python source under construction, shared by the compilers of encoders and decoders.

Contains lines, names and blocks, and the formats of fixed-width types.  The order of fields and the meaning
of a version belong in the compilers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from barnabas.protocol.schema import Field, Message, Schema

# The struct character and the size of every fixed-width type.
FIXED: dict[str, tuple[str, int]] = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


# Reading or writing in steps yields after this many array elements: about a tenth of a millisecond.
STEP_ELEMENTS = 256
# Lists of numbers up to this length use a prebuilt struct per length.
READY_LENGTHS = 17


@cache
def array_structs(character: str, prefix: str = "") -> tuple[struct.Struct, ...]:
    """Structs of 0, 1, 2, … numbers, preceded by a length."""
    return tuple(struct.Struct(f">{prefix}{count}{character}") for count in range(READY_LENGTHS))


class Source:
    """Lines of one function, the values they refer to, and the field that each line belongs to."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.field = ""
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._depth = 0
        self._count = 0

    def line(self, text: str, *, of: Sequence[str] = ()) -> None:
        """Add a line; it belongs to the current field, or to those given by `of`."""
        self._lines.append("    " * self._depth + text)
        fields = list(dict.fromkeys(of or [self.field]))
        self._fields.append(fields[0] if len(fields) == 1 else f"{fields[0]}..{fields[-1]}")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, hint: str) -> str:
        """A name that is not used elsewhere."""
        self._count += 1
        return f"{hint}{self._count}"

    def constant(self, hint: str, value: Any) -> str:
        """The name under which the function refers to `value`."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.variable(hint)
        self.names[name] = value
        return name

    def struct_name(self, verb: str, layout: str, function: Any) -> str:
        """A readable name for a struct's function: `pack_hiiB`."""
        name = f"{verb}_{layout}".replace("?", "_bool_")
        self.names[name] = function
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def build(self, name: str) -> Any:
        """Compile; returns the function with its table of fields by line."""
        code = compile(self.text(), f"<{self.title}>", "exec")
        exec(code, self.names)  # the codec's own code  # nosec B102
        function = self.names[name]
        function.fields_by_line = self._fields
        return function

    def default(self, known: Field) -> str:
        """An expression for the default of a field that is not a struct."""
        if known.is_array and known.default is not None:
            return "[]"
        if known.kind == "uuid":
            return self.constant("uuid", known.default)
        return repr(known.default)

    def assign_default(self, known: Field, target: str) -> None:
        """Lines that assign the default of a field to `target`; a struct is newly created, field by field."""
        if known.default is None or known.is_array or known.struct is None:
            self.line(f"{target} = {self.default(known)}")
            return
        made = self.variable("default")
        self.new_struct(known.struct, made)
        for part in known.struct.schema.fields:
            self.assign_default(part, f"{made}.{part.attribute}")
        self.line(f"{target} = {made}")

    def new_struct(self, struct: type[Message], variable: str) -> None:
        self.names.setdefault("new", object.__new__)
        self.line(f"{variable} = new({self.constant(struct.__name__, struct)})")

    def differs(self, known: Field, value: str) -> str:
        """An expression that is true when `value` is not the default of the field."""
        if known.default is None:
            return f"{value} is not None"
        if known.is_array or known.kind == "bytes":
            test = value
        elif known.struct is not None:
            parts = known.struct.schema.fields
            test = " or ".join(self.differs(part, f"{value}.{part.attribute}") for part in parts)
        elif known.kind == "bool":
            return f"not {value}" if known.default else value
        else:
            test = f"{value} != {self.default(known)}"
        return f"({value} is None or {test})" if known.ever_null else f"({test})"


def minimal_size(schema: Schema, version: int, *, flexible: bool) -> int:
    """The minimal encoded size of a struct at a version: a count is checked against it before a list
    grows."""
    size = 1 if flexible else 0
    for known in schema.fields:
        if version in known.versions and known.tag is None:
            size += _minimal_field_size(known, version, flexible=flexible)
    return size


def _minimal_field_size(known: Field, version: int, *, flexible: bool) -> int:
    compact = flexible and known.compact
    if known.is_array:
        return 1 if compact else 4
    if known.struct is not None:
        if version in known.nullable:
            return 1
        return minimal_size(known.struct.schema, version, flexible=flexible)
    if known.kind in FIXED:
        return FIXED[known.kind][1]
    if compact:
        return 1
    return 2 if known.kind == "string" else 4
