"""Compiles the encoder of a message at one version: a Python function without any version check.

Contains the field layout for writing; reading belongs in `decoder`.  The generated code calls nothing but the
functions of `primitives`.

The function appends pieces to a list.  Adjacent fixed-width fields become one `struct` call, and nested
structs are written inline, so that a message costs one function call however deep it is.
"""

from __future__ import annotations

import struct
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.primitives import (
    SHORT_LENGTHS,
    ProtocolError,
    encode_unsigned_varint,
    string_length,
)
from barnabas.protocol.schema import Field, Schema
from barnabas.protocol.source import FIXED, READY_LENGTHS, STEP_ELEMENTS, Source, array_structs


def compile_encoder(schema: Schema, version: int, *, in_steps: bool = False) -> Any:
    """`encode(message, append)` for this version.

    `in_steps`: a generator that yields after every STEP_ELEMENTS array elements.
    """
    writer = _EncoderWriter(schema, version, in_steps=in_steps)
    with writer.source.block("def encode(message, append):"):
        if in_steps:
            writer.source.line("next_step = step")
        writer.struct(schema, "message")
        writer.flush()
        writer.source.line("return")
        if in_steps:
            # Makes this a generator even for a message without an array.
            writer.source.line("yield")
    return writer.source.build("encode")


def compile_encoder_in_steps(schema: Schema, version: int) -> Any:
    return compile_encoder(schema, version, in_steps=True)


def cannot_carry(name: str, version: int) -> ProtocolError:
    """As in Apache Kafka: an error if a value would silently be lost."""
    return ProtocolError(
        f"version {version} cannot carry {name} with a value other than its default",
        code=ErrorCode.UNSUPPORTED_VERSION,
    )


class _EncoderWriter:
    def __init__(self, schema: Schema, version: int, *, in_steps: bool) -> None:
        self.version = version
        self.in_steps = in_steps
        self.flexible = version in schema.flexible
        self.source = Source(f"encoder of {schema.name} version {version}")
        self.source.names |= {
            "SHORT": SHORT_LENGTHS,
            "unsigned_varint": encode_unsigned_varint,
            "string_length": string_length,
            "cannot_carry": cannot_carry,
            "pack": struct.pack,
            "join": b"".join,
            "ProtocolError": ProtocolError,
            "step": STEP_ELEMENTS,
        }
        self._append = "append"
        self._path: list[str] = []
        # Fixed-width values that are packed together: struct characters and expressions.
        self._run: list[tuple[str, str]] = []
        self._run_fields: list[str] = []

    def _packed(self, last: str = "", value: str = "") -> str:
        """An expression for the pending run as bytes, with an optional last value appended."""
        layout = "".join(character for character, _ in self._run) + last
        values = ", ".join([*(value for _, value in self._run if value), *([value] if value else [])])
        packer = struct.Struct(">" + layout)
        if not values:
            return repr(bytes(packer.size))
        return f"{self.source.struct_name('pack', layout, packer.pack)}({values})"

    def _add(self, character: str, value: str) -> None:
        self._run.append((character, value))
        self._run_fields.append(self.source.field)

    def _write_run(self, expression: str) -> None:
        self.source.line(f"{self._append}({expression})", of=self._run_fields)
        self._run.clear()
        self._run_fields.clear()

    def flush(self) -> None:
        """Write the pending run as one piece."""
        if self._run:
            self._write_run(self._packed())

    def struct(self, schema: Schema, instance: str) -> None:
        tagged = []
        for known in schema.fields:
            self._path.append(known.attribute)
            self.source.field = ".".join(self._path)
            value = f"{instance}.{known.attribute}"
            if self.version not in known.versions:
                self._absent(known, value)
            elif known.tag is not None:
                tagged.append(known)
            else:
                self._value(known, value)
            self._path.pop()
        if self.flexible:
            self._tagged_section(tagged, instance)

    def _absent(self, known: Field, value: str) -> None:
        if not known.ignorable:
            self.source.line(f"if {self.source.differs(known, value)}:")
            self.source.line(f"    raise cannot_carry({known.attribute!r}, {self.version})")

    def _value(self, known: Field, value: str) -> None:
        if known.is_array:
            self._array(known, value)
        elif known.kind == "struct":
            self._nested(known, value)
        elif known.kind in FIXED:
            self._add(FIXED[known.kind][0], value)
        elif known.kind == "string":
            self._string(known, value)
        else:
            self._bytes(known, value)

    def _length(self, length: str, *, compact: bool, character: str, text: bool = False) -> None:
        """Write the length prefix; compact lengths are already one higher, zero being null."""
        if not compact:
            self._add(character, length)
            self.flush()
            return
        longer = f"{'string_length' if text else 'unsigned_varint'}({length})"
        if self._run:
            shorter, longer = self._packed("B", length), f"{self._packed()} + {longer}"
        else:
            shorter = f"SHORT[{length}]"
        self._write_run(f"{shorter} if {length} < 128 else {longer}")

    def _string(self, known: Field, value: str, *, nullable: bool | None = None) -> None:
        source, text, length = self.source, self.source.variable("text"), self.source.variable("length")
        compact = self.flexible and known.compact
        plus_one = " + 1" if compact else ""
        if self.version in known.nullable if nullable is None else nullable:
            source.line(f"{text} = {value}")
            source.line(f"if {text} is None:")
            source.line(f"    {text} = b''; {length} = {0 if compact else -1}")
            source.line("else:")
            source.line(f"    {text} = {text}.encode(); {length} = len({text}){plus_one}")
        else:
            source.line(f"{text} = {value}.encode(); {length} = len({text}){plus_one}")
        self._length(length, compact=compact, character="h", text=True)
        source.line(f"{self._append}({text})")

    def _bytes(self, known: Field, value: str) -> None:
        source, data, length = self.source, self.source.variable("data"), self.source.variable("length")
        source.line(f"{data} = {value}")
        if self.version in known.nullable:
            source.line(f"if {data} is None:")
            source.line(f"    {data} = b''; {length} = {0 if self.flexible else -1}")
            with source.block("else:"):
                self._count_bytes(known, data, length)
        else:
            self._count_bytes(known, data, length)
        self._length(length, compact=self.flexible, character="i")
        source.line(f"{self._append}({data})")

    def _count_bytes(self, known: Field, data: str, length: str) -> None:
        plus_one = " + 1" if self.flexible else ""
        if known.kind != "record_data":
            self.source.line(f"{length} = len({data}){plus_one}")
            return
        # Records are usually bytes; a slice of a file has a length but is not a sequence.
        self.source.line("try:")
        self.source.line(f"    {length} = len({data}){plus_one}")
        self.source.line("except TypeError:")
        self.source.line(f"    {length} = {data}.length{plus_one}")

    def _array(self, known: Field, value: str) -> None:
        source, items, length = self.source, self.source.variable("items"), self.source.variable("length")
        plus_one = " + 1" if self.flexible else ""
        source.line(f"{items} = {value}")
        if self.version in known.nullable:
            source.line(f"if {items} is None:")
            source.line(f"    {items} = (); {length} = {0 if self.flexible else -1}")
            source.line("else:")
            source.line(f"    {length} = len({items}){plus_one}")
        else:
            source.line(f"{length} = len({items}){plus_one}")
        if known.kind in FIXED and known.kind != "uuid":
            self._numbers(known, items, length)
            return
        self._length(length, compact=self.flexible, character="i")
        if known.kind == "uuid":
            self._uuids(items)
            return
        item = source.variable("item")
        with source.block(f"for {item} in {items}:"):
            if self.in_steps:
                source.line("next_step -= 1")
                source.line("if not next_step:")
                source.line("    next_step = step")
                source.line("    yield")
            if known.struct is not None:
                self.struct(known.struct.schema, item)
            else:
                self._string(known, item, nullable=False)
            self.flush()

    def _numbers(self, known: Field, items: str, length: str) -> None:
        """A list of numbers is one piece with its length; short ones use a prebuilt struct."""
        self.flush()
        character = FIXED[known.kind][0]
        packers = tuple(ready.pack for ready in array_structs(character, "B" if self.flexible else "i"))
        ready = self.source.struct_name("pack", f"short_{known.kind}s", packers)
        short = f"{ready}[len({items})]({length}, *{items})"
        prefix = f"unsigned_varint({length})" if self.flexible else f"pack('>i', {length})"
        long = f"{prefix} + pack('>%d{character}' % len({items}), *{items})"
        self.source.line(f"{self._append}({short} if len({items}) < {READY_LENGTHS} else {long})")

    def _uuids(self, items: str) -> None:
        joined = self.source.variable("joined")
        self.source.line(f"{joined} = join({items})")
        self.source.line(f"if len({joined}) != 16 * len({items}):")
        self.source.line("    raise ProtocolError('an id has 16 bytes')")
        self.source.line(f"{self._append}({joined})")

    def _nested(self, known: Field, value: str) -> None:
        assert known.struct is not None
        source, part = self.source, self.source.variable("part")
        source.line(f"{part} = {value}")
        if self.version not in known.nullable:
            self.struct(known.struct.schema, part)
            return
        # A nullable struct is preceded by a marker: a byte, or in a tagged field a varint.
        null = b"\x00" if known.tag is not None else b"\xff"
        self.flush()
        source.line(f"if {part} is None:")
        source.line(f"    {self._append}({null!r})")
        with source.block("else:"):
            source.line(f"{self._append}({bytes([1])!r})")
            self.struct(known.struct.schema, part)
            self.flush()

    def _tagged_section(self, tagged: list[Field], instance: str) -> None:
        """The tagged fields in ascending order, each preceded by its tag and size; usually there are none."""
        if not tagged:
            self._add("x", "")
            return
        self.flush()
        source = self.source
        tests = {known.attribute: source.differs(known, f"{instance}.{known.attribute}") for known in tagged}
        with source.block(f"if {' or '.join(tests.values())}:"):
            count = source.variable("count")
            source.line(f"{count} = {' + '.join(f'bool({test})' for test in tests.values())}")
            source.line(f"{self._append}(unsigned_varint({count}))")
            for known in sorted(tagged, key=lambda known: known.tag or 0):
                with source.block(f"if {tests[known.attribute]}:"):
                    self._tagged_field(known, f"{instance}.{known.attribute}")
        source.line("else:")
        source.line(f"    {self._append}({bytes(1)!r})")

    def _tagged_field(self, known: Field, value: str) -> None:
        source, outer = self.source, self._append
        pieces, joined = source.variable("pieces"), source.variable("joined")
        self._path.append(known.attribute)
        source.field = ".".join(self._path)
        source.line(f"{pieces} = []")
        self._append = f"{pieces}.append"
        self._value(known, value)
        self.flush()
        self._append = outer
        self._path.pop()
        source.line(f"{joined} = join({pieces})")
        source.line(f"{outer}({encode_unsigned_varint(known.tag or 0)!r})")
        source.line(f"{outer}(unsigned_varint(len({joined})))")
        source.line(f"{outer}({joined})")
