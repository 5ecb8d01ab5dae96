"""The codec of messages with one element in each of their lists, without message objects.

Compiled from the schema, for APIs on the hot path whose usual request names one topic and one partition.  For
any other shape the reader returns None, and the usual decoder reads the message or reports its fault.

    read(buffer, position) -> the values of all fields in the order of the schema | None
    write(*values) -> bytes

Fields that a version does not have read as their defaults, so the values have the same positions in all
versions.  Tagged fields (KIP-482) must be absent, and are written as absent.  Records are views.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.protocol.primitives import (
    SHORT_LENGTHS,
    Buffer,
    ProtocolError,
    continue_length,
    string_length,
)
from barnabas.protocol.schema import Field, Schema
from barnabas.protocol.source import FIXED, Source

# One more than what they count, in compact lengths (KIP-482).
_COMPACT_ONE = 2
_COMPACT_NONE = 1
_LONGEST_SHORT = 127

ReadSingle = Callable[[Buffer, int], tuple[Any, ...] | None]
WriteSingle = Callable[..., bytes]


def compile_single_reader(schema: Schema, version: int) -> ReadSingle:
    """The reader of this version; TypeError for a schema that has no such shape."""
    schema.check_version(version)
    return _ReaderWriter(schema, version).build(schema)


def compile_single_writer(schema: Schema, version: int, given: tuple[str, ...]) -> WriteSingle:
    """The writer of this version: it takes the fields that are `given`; all others are at their defaults.

    A list that holds a given field has one element, any other list is empty.
    """
    schema.check_version(version)
    return _WriterWriter(schema, version, given).build(schema)


class _ReaderWriter:
    def __init__(self, schema: Schema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.source = Source(f"single reader of {schema.name} version {version}")
        self.source.names |= {
            "Uuid": Uuid,
            "continue_length": continue_length,
            "Faults": (struct.error, IndexError, UnicodeDecodeError, ProtocolError),
        }
        # Fixed-width values to be unpacked together, what must not hold for them, and what is made of them.
        self._run: list[tuple[str, str]] = []
        self._conditions: list[str] = []
        self._after: list[str] = []
        self._values: list[str] = []

    def build(self, schema: Schema) -> ReadSingle:
        source = self.source
        with source.block("def read(buffer, position):"):
            with source.block("try:"):
                self._struct(schema)
                self._flush()
                source.line("if position != len(buffer):")
                source.line("    return None")
                source.line(f"return ({', '.join(self._values)},)")
            source.line("except Faults:")
            source.line("    return None")
        made: ReadSingle = source.build("read")
        return made

    def _struct(self, schema: Schema) -> None:
        for known in schema.fields:
            if known.tag is None:
                self._field(known, is_present=self.version in known.versions)
        if self.flexible:
            self._expect("B", "tags", "")

    def _field(self, known: Field, *, is_present: bool) -> None:
        if known.is_array:
            if known.struct is None or not is_present:
                raise TypeError(f"{known.name} is no list of which one element can be read")
            count = ("B", f" != {_COMPACT_ONE}") if self.flexible else ("i", " != 1")
            self._expect(count[0], "count", count[1])
            self._struct(known.struct.schema)
            return
        if known.struct is not None:
            raise TypeError(f"{known.name}: a struct outside of a list is not read here")
        target = self.source.variable(known.attribute)
        self._values.append(target)
        if not is_present:
            self._after.append(f"{target} = {self.source.default(known)}")
        elif known.kind in FIXED:
            self._run.append((FIXED[known.kind][0], target))
            if known.kind == "uuid":
                self._after.append(f"{target} = Uuid({target})")
        else:
            self._sized(known, target)

    def _expect(self, character: str, hint: str, wrong_if: str) -> None:
        """A value that says another shape if it is so; any but zero if nothing is said."""
        name = self.source.variable(hint)
        self._run.append((character, name))
        self._conditions.append(name + wrong_if)

    def _sized(self, known: Field, target: str) -> None:
        """A string, bytes or records: a length, then so many bytes."""
        source, length = self.source, self.source.variable("length")
        compact = self.flexible and known.compact
        is_text = known.kind == "string"
        self._run.append(("B" if compact else "h" if is_text else "i", length))
        self._flush()
        if compact:
            with source.block(f"if {length} > {_LONGEST_SHORT}:"):
                # Two bytes are enough for most batches: those are read without a call.
                source.line(f"if buffer[position] <= {_LONGEST_SHORT}:")
                source.line(f"    {length} += (buffer[position] << 7) - 128; position += 1")
                source.line("else:")
                source.line(f"    {length}, position = continue_length(buffer, position, {length})")
        start = self.source.variable("start")
        with source.block(f"if {length} {'>' if compact else '>='} 0:"):
            source.line(f"{start} = position")
            source.line(f"position += {length}{' - 1' if compact else ''}")
            source.line(f"{target} = {self._made_of(known, f'buffer[{start}:position]')}")
        with source.block("else:"):
            is_nullable = self.version in known.nullable
            source.line(f"{target} = None" if is_nullable else "return None")

    @staticmethod
    def _made_of(known: Field, part: str) -> str:
        if known.kind == "string":
            return f"str({part}, 'utf-8')"
        return part if known.kind == "record_data" else f"bytes({part})"

    def _flush(self) -> None:
        source = self.source
        if self._run:
            layout = "".join(character for character, _ in self._run)
            packed = struct.Struct(">" + layout)
            targets = ", ".join(target for _, target in self._run)
            if layout == "B":  # one byte is read more quickly without a struct
                source.line(f"{targets} = buffer[position]")
            else:
                unpack = source.struct_name("unpack", layout, packed.unpack_from)
                source.line(f"{targets}, = {unpack}(buffer, position)")
            source.line(f"position += {packed.size}")
        if self._conditions:
            source.line(f"if {' or '.join(self._conditions)}:")
            source.line("    return None")
        for line in self._after:
            source.line(line)
        self._run, self._conditions, self._after = [], [], []


class _WriterWriter:
    def __init__(self, schema: Schema, version: int, given: tuple[str, ...]) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self._given = given
        self.source = Source(f"single writer of {schema.name} version {version}")
        self.source.names |= {"SHORT": SHORT_LENGTHS, "string_length": string_length, "join": b"".join}
        # Fixed-width values to be packed together: struct characters and expressions.
        self._run: list[tuple[str, str]] = []
        self._parts: list[str] = []

    def build(self, schema: Schema) -> WriteSingle:
        unknown = set(self._given) - set(_leaves(schema))
        if unknown:
            raise TypeError(f"{schema.name} has no fields {sorted(unknown)}")
        source = self.source
        with source.block(f"def write({', '.join(self._given)}):"):
            self._struct(schema)
            self._flush()
            source.line(f"return join(({', '.join(self._parts)},))")
        made: WriteSingle = source.build("write")
        return made

    def _struct(self, schema: Schema) -> None:
        for known in schema.fields:
            if known.tag is None and self.version in known.versions:
                self._field(known)
        if self.flexible:
            self._run.append(("B", "0"))

    def _field(self, known: Field) -> None:
        if known.is_array:
            if known.struct is None and known.attribute in self._given:
                raise TypeError(f"{known.name}: a list of values is not written here")
            is_single = known.struct is not None and not set(_leaves(known.struct.schema)).isdisjoint(
                self._given
            )
            if self.flexible:
                self._run.append(("B", str(_COMPACT_ONE if is_single else _COMPACT_NONE)))
            else:
                self._run.append(("i", "1" if is_single else "0"))
            if is_single and known.struct is not None:
                self._struct(known.struct.schema)
        elif known.kind in FIXED:
            is_given = known.attribute in self._given
            value = known.attribute if is_given else self.source.default(known)
            self._run.append((FIXED[known.kind][0], value))
        elif known.kind == "string":
            self._string(known)
        else:
            raise TypeError(f"{known.name}: a {known.kind} is not written here")

    def _string(self, known: Field) -> None:
        compact = self.flexible and known.compact
        if known.attribute not in self._given:
            text = known.default
            length = -1 if text is None else len(text)
            if text:
                raise TypeError(f"{known.name}: a default other than empty or null is not written here")
            self._run.append(("B", str(length + 1)) if compact else ("h", str(length)))
            return
        text, length_name = self.source.variable("text"), self.source.variable("length")
        self.source.line(f"{text} = {known.attribute}.encode()")
        self.source.line(f"{length_name} = len({text}){' + 1' if compact else ''}")
        if compact:
            self._flush()
            short = f"SHORT[{length_name}] if {length_name} <= {_LONGEST_SHORT}"
            self._parts.append(f"{short} else string_length({length_name})")
        else:
            self._run.append(("h", length_name))
            self._flush()
        self._parts.append(text)

    def _flush(self) -> None:
        if not self._run:
            return
        layout = "".join(character for character, _ in self._run)
        packed = struct.Struct(">" + layout)
        values = [value for _, value in self._run]
        if all(value.lstrip("-").isdigit() for value in values):
            self._parts.append(repr(packed.pack(*map(int, values))))
        else:
            pack = self.source.struct_name("pack", layout, packed.pack)
            self._parts.append(f"{pack}({', '.join(values)})")
        self._run = []


def _leaves(schema: Schema) -> Iterator[str]:
    """The attributes that hold values, whatever they are nested in."""
    for known in schema.fields:
        if known.struct is None:
            yield known.attribute
        else:
            yield from _leaves(known.struct.schema)
