"""Compiles the decoder of a message at one version.

Contains the field layout for reading; writing belongs in `encoder`.

The generated function reads from a buffer at a position and never trusts a number in it: a string, a byte
field or a section of tagged fields must fit into the remaining bytes, and so must the count of a list times
the minimal size of its elements, before anything is allocated.  Records are views of the buffer; everything
else is copied.  Unknown tagged fields are checked and skipped, since a decoded message is never written back.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.protocol.primitives import ProtocolError, continue_length, skip_tagged_fields
from barnabas.protocol.schema import Field, Schema
from barnabas.protocol.source import FIXED, READY_LENGTHS, STEP_ELEMENTS, Source, array_structs, minimal_size

# The maximum number of elements in all arrays of a message that is read in steps: each of them becomes an
# object, which takes a hundred times the memory of its bytes.
MAX_ELEMENTS = 500_000


def compile_decoder(schema: Schema, version: int, *, in_steps: bool = False) -> Any:
    """`decode(buffer, position) -> (message, position)` for this version.

    `in_steps`: a generator that yields after every STEP_ELEMENTS array elements and returns what the function
    returns, so that other requests are served while a megabyte of names is read.
    """
    writer = _DecoderWriter(schema, version, in_steps=in_steps)
    source = writer.source
    with source.block("def decode(buffer, position):"):
        if in_steps:
            source.line("elements = 0; next_step = step")
        if writer.has_records:
            source.line("buffer = view(buffer)")
        else:
            source.line("if buffer.__class__ is not bytes:")
            source.line("    buffer = bytes(buffer)")
        source.line("end = len(buffer)")
        source.new_struct(schema.cls, "message")
        writer.struct(schema, "message")
        writer.flush()
        source.line("return message, position")
        if in_steps:
            # Makes this a generator even for a message without an array.
            source.line("yield")
    return source.build("decode")


def compile_decoder_in_steps(schema: Schema, version: int) -> Any:
    return compile_decoder(schema, version, in_steps=True)


def too_many() -> ProtocolError:
    return ProtocolError(f"more than {MAX_ELEMENTS} elements in one message")


def too_long(what: str, announced: int, left: int) -> ProtocolError:
    return ProtocolError(f"{what} of {announced} does not fit into the {left} bytes that are left")


def is_null(name: str, version: int) -> ProtocolError:
    return ProtocolError(f"{name} is null, which version {version} does not allow")


def has_records(schema: Schema, version: int) -> bool:
    present = [known for known in schema.fields if version in known.versions]
    return any(
        known.kind == "record_data" if known.struct is None else has_records(known.struct.schema, version)
        for known in present
    )


class _DecoderWriter:
    def __init__(self, schema: Schema, version: int, *, in_steps: bool) -> None:
        self.version = version
        self.in_steps = in_steps
        self.flexible = version in schema.flexible
        self.has_records = has_records(schema, version)
        self.source = Source(f"decoder of {schema.name} version {version}")
        self.source.names |= {
            "view": memoryview,
            "Uuid": Uuid,
            "new_bytes": bytes.__new__,
            "unpack_from": struct.unpack_from,
            "continue_length": continue_length,
            "skip_tagged_fields": skip_tagged_fields,
            "too_long": too_long,
            "is_null": is_null,
            "ProtocolError": ProtocolError,
            "too_many": too_many,
            "step": STEP_ELEMENTS,
        }
        self._path: list[str] = []
        # Fixed-width values that are unpacked together: struct characters and targets.
        self._run: list[tuple[str, str]] = []
        self._run_fields: list[str] = []
        # Lines to add once those values are unpacked.
        self._after: list[str] = []

    def _add(self, character: str, target: str) -> None:
        self._run.append((character, target))
        self._run_fields.append(self.source.field)

    def flush(self) -> None:
        """Read the pending run with one call."""
        if not self._run:
            return
        source = self.source
        unpacker = struct.Struct(">" + "".join(character for character, _ in self._run))
        targets = ", ".join(target for _, target in self._run)
        if unpacker.format == ">B":
            source.line(f"{targets} = buffer[position]", of=self._run_fields)
        else:
            name = source.struct_name("unpack", unpacker.format[1:], unpacker.unpack_from)
            comma = "," if len(self._run) == 1 else ""
            source.line(f"{targets}{comma} = {name}(buffer, position)", of=self._run_fields)
        source.line(f"position += {unpacker.size}")
        for line in self._after:
            source.line(line)
        self._run.clear()
        self._run_fields.clear()
        self._after.clear()

    def struct(self, schema: Schema, instance: str) -> None:
        tagged = []
        for known in schema.fields:
            self._path.append(known.attribute)
            self.source.field = ".".join(self._path)
            target = f"{instance}.{known.attribute}"
            if self.version not in known.versions:
                self.source.assign_default(known, target)
            elif known.tag is not None:
                self.source.assign_default(known, target)
                tagged.append(known)
            else:
                self._value(known, target)
            self._path.pop()
        if self.flexible:
            self._tagged_section(schema, tagged, instance)

    def _value(self, known: Field, target: str) -> None:
        if known.is_array:
            self._array(known, target)
        elif known.kind == "struct":
            self._nested(known, target)
        elif known.kind == "uuid":
            raw = self.source.variable("raw")
            self._add("16s", raw)
            self._after.append(f"{target} = new_bytes(Uuid, {raw})")
        elif known.kind in FIXED:
            self._add(FIXED[known.kind][0], target)
        elif known.kind == "string":
            self._string(known, f"{target} = {{}}", nullable=self.version in known.nullable)
        else:
            self._bytes(known, target)

    def _length(self, *, compact: bool, character: str) -> str:
        """Read a length; the variable holds the actual length, or -1 for null."""
        length = self.source.variable("length")
        self._add("B" if compact else character, length)
        self.flush()
        if compact:
            self.source.line(f"if {length} > 127:")
            self.source.line(f"    {length}, position = continue_length(buffer, position, {length})")
            self.source.line(f"{length} -= 1")
        return length

    def _null(self, known: Field, assignment: str, *, nullable: bool) -> None:
        self.source.line("else:")
        if nullable:
            self.source.line("    " + assignment.format("None"))
        else:
            self.source.line(f"    raise is_null({known.attribute!r}, {self.version})")

    def _string(self, known: Field, assignment: str, *, nullable: bool) -> None:
        source = self.source
        compact = self.flexible and known.compact
        length, stop = self._length(compact=compact, character="h"), source.variable("stop")
        with source.block(f"if {length} >= 0:"):
            source.line(f"{stop} = position + {length}")
            limit = f" or {length} > 32767" if compact else ""
            source.line(f"if {stop} > end{limit}:")
            source.line(f"    raise too_long('a string', {length}, end - position)")
            if self.has_records:
                source.line(assignment.format(f"str(buffer[position:{stop}], 'utf-8', 'replace')"))
            else:
                source.line(assignment.format(f"buffer[position:{stop}].decode('utf-8', 'replace')"))
            source.line(f"position = {stop}")
        self._null(known, assignment, nullable=nullable)

    def _bytes(self, known: Field, target: str) -> None:
        source = self.source
        length, stop = self._length(compact=self.flexible, character="i"), source.variable("stop")
        with source.block(f"if {length} >= 0:"):
            source.line(f"{stop} = position + {length}")
            source.line(f"if {stop} > end:")
            source.line(f"    raise too_long('a byte field', {length}, end - position)")
            copied = f"buffer[position:{stop}]"
            source.line(f"{target} = {copied if known.kind == 'record_data' else f'bytes({copied})'}")
            source.line(f"position = {stop}")
        self._null(known, f"{target} = {{}}", nullable=self.version in known.nullable)

    def _array(self, known: Field, target: str) -> None:
        source = self.source
        length = self._length(compact=self.flexible, character="i")
        size = self._item_size(known)
        with source.block(f"if {length} >= 0:"):
            source.line(f"if {length} * {size} > end - position:")
            source.line(f"    raise too_long('a list', {length}, end - position)")
            if self.in_steps:
                self._count(length)
            if known.kind == "uuid":
                stop = source.variable("stop")
                source.line(f"{stop} = position + {length} * 16")
                starts = f"range(position, {stop}, 16)"
                source.line(f"{target} = [new_bytes(Uuid, buffer[start:start + 16]) for start in {starts}]")
                source.line(f"position = {stop}")
            elif known.kind in FIXED:
                character = FIXED[known.kind][0]
                unpackers = tuple(ready.unpack_from for ready in array_structs(character))
                ready = source.struct_name("unpack", f"short_{known.kind}s", unpackers)
                short = f"{ready}[{length}](buffer, position)"
                long = f"unpack_from('>%d{character}' % {length}, buffer, position)"
                source.line(f"{target} = list({short} if {length} < {READY_LENGTHS} else {long})")
                source.line(f"position += {length} * {size}")
            else:
                self._items(known, target, length)
        self._null(known, f"{target} = {{}}", nullable=self.version in known.nullable)

    def _item_size(self, known: Field) -> int:
        if known.struct is not None:
            # An element of zero bytes would let a count of two billion pass, so require at least one byte.
            return max(1, minimal_size(known.struct.schema, self.version, flexible=self.flexible))
        if known.kind in FIXED:
            return FIXED[known.kind][1]
        return 1 if self.flexible else 2

    def _count(self, length: str) -> None:
        """All elements count towards the bound, and those of the enclosing arrays towards the steps too."""
        self.source.line(f"elements += {length}")
        self.source.line(f"if elements > {MAX_ELEMENTS}:")
        self.source.line("    raise too_many()")

    def _items(self, known: Field, target: str, length: str) -> None:
        source, items = self.source, self.source.variable("items")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({length}):"):
            if self.in_steps:
                source.line("next_step -= 1")
                source.line("if not next_step:")
                source.line("    next_step = step")
                source.line("    yield")
            if known.struct is None:
                self._string(known, f"{items}.append({{}})", nullable=False)
            else:
                item = source.variable("item")
                source.new_struct(known.struct, item)
                source.line(f"{items}.append({item})")
                self.struct(known.struct.schema, item)
                self.flush()

    def _nested(self, known: Field, target: str) -> None:
        assert known.struct is not None
        source, part = self.source, self.source.variable("part")
        if self.version not in known.nullable:
            source.new_struct(known.struct, part)
            source.line(f"{target} = {part}")
            self.struct(known.struct.schema, part)
            return
        mark = source.variable("mark")
        self._add("b", mark)
        self.flush()
        with source.block(f"if {mark} {'>' if known.tag is not None else '>='} 0:"):
            source.new_struct(known.struct, part)
            source.line(f"{target} = {part}")
            self.struct(known.struct.schema, part)
            self.flush()
        source.line("else:")
        source.line(f"    {target} = None")

    def _tagged_section(self, schema: Schema, tagged: list[Field], instance: str) -> None:
        """Read the tagged fields (KIP-482); the count is almost always zero."""
        source, count = self.source, self.source.variable("count")
        self._add("B", count)
        self.flush()
        if not any(known.tag is not None for known in schema.fields):
            source.line(f"if {count}:")
            source.line(f"    position = skip_tagged_fields(buffer, position, {count})")
            return
        with source.block(f"if {count}:"):
            source.line(f"if {count} > 127:")
            source.line(f"    {count}, position = continue_length(buffer, position, {count})")
            source.line(f"if {count} * 2 > end - position:")
            source.line(f"    raise too_long('a list of tagged fields', {count}, end - position)")
            tag, size, stop = source.variable("tag"), source.variable("size"), source.variable("stop")
            with source.block(f"for _ in range({count}):"):
                for number in (tag, size):
                    source.line(f"{number} = buffer[position]; position += 1")
                    source.line(f"if {number} > 127:")
                    source.line(f"    {number}, position = continue_length(buffer, position, {number})")
                source.line(f"{stop} = position + {size}")
                source.line(f"if {stop} > end:")
                source.line(f"    raise too_long('a tagged field', {size}, end - position)")
                for known in schema.fields:
                    if known.tag is not None:
                        with source.block(f"if {tag} == {known.tag}:"):
                            self._tagged_field(known, f"{instance}.{known.attribute}", stop, known in tagged)
                            source.line("continue")
                source.line(f"position = {stop}")

    def _tagged_field(self, known: Field, target: str, stop: str, belongs: bool) -> None:
        source = self.source
        if not belongs:
            text = f"tag {known.tag} is not valid in version {self.version}"
            source.line(f"raise ProtocolError({text!r})")
            return
        self._path.append(known.attribute)
        source.field = ".".join(self._path)
        self._value(known, target)
        self.flush()
        self._path.pop()
        source.line(f"if position != {stop}:")
        source.line(f"    raise ProtocolError('tagged field {known.attribute} does not fill its size')")
