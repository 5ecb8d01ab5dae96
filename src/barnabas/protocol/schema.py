"""How a message is declared: once, for all its versions.

    class OffsetDeleteRequest(Message, key=47, versions=(0, 0)):
        class Partition(Message):
            partition_index: int32
        group_id: string
        ...

Contains the declarations and their meaning.  `compile` derives encoders and decoders from the schema,
`json_form` the JSON.

A field is an annotation: one of the types below, a nested message, or a list of these; `| None` allows null.
`field()` adds details where needed.  A field without a default must be passed to the constructor.
Instances are small (slots), mutable, compare by value and do not know their version: the same object can be
encoded at several.
"""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, dataclass_transform

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.primitives import Buffer, ProtocolError, RecordSlice, join_pieces

int8: TypeAlias = int
int16: TypeAlias = int
int32: TypeAlias = int
int64: TypeAlias = int
uint16: TypeAlias = int
uint32: TypeAlias = int
float64: TypeAlias = float
string: TypeAlias = str
uuid: TypeAlias = Uuid
# Record batches.  They decode to views of the frame; a broker may respond with slices of a file.
record_data: TypeAlias = Buffer | RecordSlice

# The default of a field that declares none, by type.
ZERO_VALUES: dict[str, object] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), 0),
    "bool": False,
    "float64": 0.0,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "record_data": None,
}

MAX_VERSION = 2**15 - 1
_UNSAID: Any = object()
# As a default: a new nested message with all its defaults.
NEW: Any = object()
_ANNOTATION = re.compile(r"(?P<list>list\[)?(?P<type>[A-Za-z0-9_.]+)]?(?P<null> \| None)?")


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; empty when the lower is above the upper."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """`"3+"`, `"2-4"` or `"0"`."""
        if text.endswith("+"):
            return cls(int(text[:-1]), MAX_VERSION)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.highest == MAX_VERSION:
            return f"{self.lowest}+"
        return str(self.lowest) if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


ALL_VERSIONS = Versions(0, MAX_VERSION)
NO_VERSIONS = Versions(1, 0)


@dataclass(frozen=True, slots=True)
class Declaration:
    """The arguments of `field()`."""

    versions: Versions = ALL_VERSIONS
    default: Any = _UNSAID
    nullable: Versions | None = None
    tag: int | None = None
    ignorable: bool = False
    compact: bool = True
    name: str | None = None


def field(
    versions: str = "0+",
    *,
    default: Any = _UNSAID,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    compact: bool = True,
    name: str | None = None,
) -> Any:
    """Declare details of a field besides its type.

    `versions` have the field; `nullable` narrows the versions in which `| None` holds.  A `tag` makes it a
    tagged field (KIP-482), written only when it differs from its default.  Encoding raises for a value other
    than the default in a version without the field, unless the field is `ignorable`.  A field that is not
    `compact` keeps the old length prefix in flexible versions too.  `name` is its name in JSON where it
    cannot be derived from the attribute.
    """
    return Declaration(
        versions=Versions.parse(versions),
        default=default,
        nullable=None if nullable is None else Versions.parse(nullable),
        tag=tag,
        ignorable=ignorable,
        compact=compact,
        name=name,
    )


def camel_case(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


@dataclass(frozen=True, slots=True)
class Field:
    """A field with its type resolved."""

    attribute: str
    name: str
    kind: str
    struct: type[Message] | None
    is_array: bool
    versions: Versions
    nullable: Versions
    default: Any
    required: bool
    tag: int | None
    ignorable: bool
    compact: bool

    @property
    def ever_null(self) -> bool:
        return self.nullable.lowest <= self.nullable.highest

    def new_default(self) -> Any:
        """The default; a new object if it is mutable."""
        if self.default is None:
            return None
        if self.is_array:
            return []
        return self.struct.schema.new() if self.struct is not None else self.default


class Schema:
    """The schema of one message class."""

    __slots__ = ("_declared", "_fields", "cls", "flexible", "key", "name", "versions")

    def __init__(
        self,
        cls: type[Message],
        declared: dict[str, tuple[str, Declaration]],
        key: int | None,
        versions: tuple[int, int] | None,
        flexible: int | None,
    ) -> None:
        self.cls = cls
        self.name = cls.__qualname__
        self.key = key
        self.versions = NO_VERSIONS if versions is None else Versions(*versions)
        self.flexible = NO_VERSIONS if flexible is None else Versions(flexible, MAX_VERSION)
        self._declared = declared
        self._fields: tuple[Field, ...] | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        """In wire order.  Resolved on first use, so that importing a module stays cheap."""
        if self._fields is None:
            self._fields = tuple(
                self._resolve(attribute, annotation, declaration)
                for attribute, (annotation, declaration) in self._declared.items()
            )
        return self._fields

    @property
    def is_whole(self) -> bool:
        """False for nested structs, which have no versions of their own."""
        return self.versions is not NO_VERSIONS

    def check_version(self, version: int) -> None:
        if version not in self.versions:
            known = f"{self.versions} are known" if self.is_whole else "it is a part of one"
            raise ProtocolError(
                f"version {version} of {self.name} is no message: {known}", code=ErrorCode.UNSUPPORTED_VERSION
            )

    def new(self) -> Any:
        """A new instance with every field at its default, including those the constructor requires."""
        instance = self.cls.__new__(self.cls)
        for known in self.fields:
            setattr(instance, known.attribute, known.new_default())
        return instance

    def _resolve(self, attribute: str, annotation: str, declaration: Declaration) -> Field:
        match = _ANNOTATION.fullmatch(annotation)
        if match is None:
            raise TypeError(f"{self.name}.{attribute}: {annotation} is no type of a message")
        kind = match["type"]
        struct = None if kind in ZERO_VALUES else self._nested(kind)
        nullable = NO_VERSIONS
        if match["null"]:
            nullable = declaration.nullable or declaration.versions
        default = declaration.default
        if default is _UNSAID:
            default = [] if match["list"] else NEW if struct is not None else ZERO_VALUES[kind]
        return Field(
            attribute=attribute,
            name=declaration.name or camel_case(attribute),
            kind="struct" if struct is not None else kind,
            struct=struct,
            is_array=match["list"] is not None,
            versions=declaration.versions,
            nullable=nullable,
            default=default,
            required=declaration.default is _UNSAID,
            tag=declaration.tag,
            ignorable=declaration.ignorable,
            compact=declaration.compact,
        )

    def _nested(self, path: str) -> type[Message]:
        first, *others = path.split(".")
        nested: type[Message] = getattr(self.cls, first, None) or getattr(
            sys.modules[self.cls.__module__], first
        )
        for name in others:
            nested = getattr(nested, name)
        return nested


def explained(error: Exception, function: Any, summary: str) -> ProtocolError:
    """Turns the error of a compiled function into the codec's own, with the field and the byte it stopped at.

    Compiled functions do not track their progress; it is derived from the line that raised.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not function.__code__:
        trace = trace.tb_next
    code = error.code if isinstance(error, ProtocolError) else ErrorCode.INVALID_REQUEST
    detail = error.message if isinstance(error, ProtocolError) else _reason(error)
    if trace is None:
        return ProtocolError(f"{summary}: {detail}", code=code)
    return ProtocolError(
        f"{summary}: {detail}",
        code=code,
        field=function.fields_by_line[trace.tb_lineno - 1],
        position=trace.tb_frame.f_locals.get("position"),
    )


def _reason(error: Exception) -> str:
    """Decoders read until Python raises, which costs nothing for valid input; its message says little."""
    if isinstance(error, IndexError) or str(error).startswith("unpack"):
        return "the bytes end too early"
    return str(error)


class Compiled(dict[int, Any]):
    """The encoders or decoders of a class by version, compiled on demand."""

    __slots__ = ("_compiler", "_schema")

    def __init__(self, schema: Schema, compiler: str) -> None:
        self._schema = schema
        self._compiler = compiler

    def __missing__(self, version: int) -> Any:
        self._schema.check_version(version)
        # The compilers are imported when the first message is encoded or decoded.
        from barnabas.protocol import compile as compilers

        made = self[version] = getattr(compilers, self._compiler)(self._schema, version)
        return made


class MessageMeta(type):
    """Turns annotations into slots and a schema; removes the defaults from the class body."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: tuple[int, int] | None = None,
        flexible: int | None = None,
    ) -> MessageMeta:
        declared: dict[str, tuple[str, Declaration]] = {}
        for attribute, annotation in namespace.get("__annotations__", {}).items():
            if not annotation.startswith("ClassVar"):
                declared[attribute] = (annotation, namespace.pop(attribute, None) or Declaration())
        namespace["__slots__"] = tuple(declared)
        cls: Any = super().__new__(mcs, name, bases, namespace)
        cls.schema = Schema(cls, declared, key, versions, flexible)
        cls._encoders = Compiled(cls.schema, "compile_encoder")
        cls._decoders = Compiled(cls.schema, "compile_decoder")
        cls._encoders_in_steps = Compiled(cls.schema, "compile_encoder_in_steps")
        cls._decoders_in_steps = Compiled(cls.schema, "compile_decoder_in_steps")
        return cls  # type: ignore[no-any-return]  # the attributes above are only known to subclasses of Message


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Message(metaclass=MessageMeta):
    """The base of all messages and of their parts."""

    schema: ClassVar[Schema]
    _encoders: ClassVar[Compiled]
    _decoders: ClassVar[Compiled]
    _encoders_in_steps: ClassVar[Compiled]
    _decoders_in_steps: ClassVar[Compiled]

    def __init__(self, **values: Any) -> None:
        # The real constructor replaces this one when the first instance is created.
        from barnabas.protocol.compile import install_constructor

        install_constructor(self.schema)
        type(self).__init__(self, **values)

    def encode(self, version: int) -> bytes:
        """The message as a single bytes object.  Slices of files are read."""
        return join_pieces(self.encode_pieces(version))

    def encode_pieces(self, version: int) -> list[Buffer | RecordSlice]:
        """The message as pieces to be sent in order; records are not copied."""
        pieces: list[Buffer | RecordSlice] = []
        encoder = self._encoders[version]
        try:
            encoder(self, pieces.append)
        except (struct.error, TypeError, AttributeError, ValueError, ProtocolError) as error:
            summary = f"cannot write version {version} of {self.schema.name}"
            raise explained(error, encoder, summary) from error
        return pieces

    def encode_steps(self, version: int, pieces: list[Buffer | RecordSlice]) -> Generator[None, None, None]:
        """Like `encode_pieces`, but in steps; the caller may remove items from `pieces` between steps."""
        encoder = self._encoders_in_steps[version]
        try:
            yield from encoder(self, pieces.append)
        except (struct.error, TypeError, AttributeError, ValueError, ProtocolError) as error:
            summary = f"cannot write version {version} of {self.schema.name}"
            raise explained(error, encoder, summary) from error

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Decode a message that fills the whole buffer."""
        message, position = cls.decode_from(buffer, 0, version)
        if position != len(buffer):
            raise ProtocolError(
                f"{len(buffer) - position} bytes are left over behind version {version} of {cls.schema.name}",
                position=position,
            )
        return message

    @classmethod
    def decode_from(cls, buffer: Buffer, position: int, version: int) -> tuple[Self, int]:
        """Decode a message that starts at `position`; also returns where it ends."""
        decoder = cls._decoders[version]
        try:
            return decoder(buffer, position)  # type: ignore[no-any-return]  # compiled for this class
        except (struct.error, IndexError, ProtocolError) as error:
            summary = f"cannot read version {version} of {cls.schema.name}"
            raise explained(error, decoder, summary) from error

    @classmethod
    def decode_steps(
        cls, buffer: Buffer, position: int, version: int
    ) -> Generator[None, None, tuple[Self, int]]:
        """Like `decode_from`, but in steps, and with a limit on the number of elements."""
        decoder = cls._decoders_in_steps[version]
        try:
            return (yield from decoder(buffer, position))  # type: ignore[no-any-return]  # compiled for this class
        except (struct.error, IndexError, ProtocolError) as error:
            summary = f"cannot read version {version} of {cls.schema.name}"
            raise explained(error, decoder, summary) from error

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(
            getattr(self, known.attribute) == getattr(other, known.attribute) for known in self.schema.fields
        )

    __hash__ = None  # type: ignore[assignment]  # instances can be changed

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{known.attribute}={getattr(self, known.attribute)!r}" for known in self.schema.fields
        )
        return f"{self.schema.name}({fields})"
