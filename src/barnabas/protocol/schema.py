"""How a message is declared: once, for all its versions.

    class OffsetDeleteRequest(Message, key=47, versions=(0, 0)):
        class Partition(Message):
            partition_index: int32
        group_id: string
        ...

What lives here: the declarations and what they mean.  What may not: bytes; `compile` makes encoders and
decoders from the schema, `json_form` the JSON.

A field is an annotation: one of the types below, a nested message, or a list of these; `| None` allows null.
`field()` says more where it is needed.  A field without a default must be given to the constructor.
Instances are small (slots), mutable, compare by value and never hold the version: the same object can be
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
# Record batches.  They decode to views of the frame; a broker may answer with slices of a file.
record_data: TypeAlias = Buffer | RecordSlice

# What a field holds when nothing was said, by type.
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
    """What `field()` was told."""

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
    """Say more of a field than its type.

    `versions` have the field; `nullable` narrows the versions in which `| None` holds.  A `tag` makes it a
    tagged field (KIP-482), written only when it differs from its default.  Encoding refuses a value other
    than the default in a version without the field, unless the field is `ignorable`.  A field that is not
    `compact` keeps the old length prefix in flexible versions too.  `name` is its name in JSON where the
    words of the attribute do not give it.
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
    first, *rest = attribute.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


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
        """The default, new where it can be changed."""
        if self.default is None:
            return None
        if self.is_array:
            return []
        return self.struct.schema.new() if self.struct is not None else self.default


class Schema:
    """What is known of one message class."""

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
        """In the order of the wire.  Resolved at first use, so that importing a module stays cheap."""
        if self._fields is None:
            self._fields = tuple(
                self._resolve(attribute, annotation, declaration)
                for attribute, (annotation, declaration) in self._declared.items()
            )
        return self._fields

    @property
    def is_whole(self) -> bool:
        """False for the parts of messages, which have no versions of their own."""
        return self.versions is not NO_VERSIONS

    def check_version(self, version: int) -> None:
        if version not in self.versions:
            known = f"{self.versions} are known" if self.is_whole else "it is a part of one"
            raise ProtocolError(
                f"version {version} of {self.name} is no message: {known}", code=ErrorCode.UNSUPPORTED_VERSION
            )

    def new(self) -> Any:
        """A new instance with every field at its default, also those a constructor asks for."""
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
        first, *rest = path.split(".")
        found = getattr(self.cls, first, None) or getattr(sys.modules[self.cls.__module__], first)
        for name in rest:
            found = getattr(found, name)
        return found  # type: ignore[no-any-return]  # looked up by name


def explained(error: Exception, function: Any, summary: str) -> ProtocolError:
    """The error of a compiled function as the codec's own, with the field and the byte it stopped at.

    Compiled functions keep no record of where they are; the line that raised tells it afterwards.
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
    """Decoders read on until Python refuses, which costs nothing where all is well; its words tell nobody."""
    if isinstance(error, IndexError) or str(error).startswith("unpack"):
        return "the bytes end too early"
    return str(error)


class Compiled(dict[int, Any]):
    """The encoders or decoders of a class by version; what is missing is compiled."""

    __slots__ = ("_compiler", "_schema")

    def __init__(self, schema: Schema, compiler: str) -> None:
        self._schema = schema
        self._compiler = compiler

    def __missing__(self, version: int) -> Any:
        self._schema.check_version(version)
        # The compilers are imported by the first message that is written or read.
        from barnabas.protocol import compile as compilers

        made = self[version] = getattr(compilers, self._compiler)(self._schema, version)
        return made


class MessageMeta(type):
    """Turns annotations into slots and a schema; the defaults leave the class body."""

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
        # The real constructor takes this one's place when the first instance is made.
        from barnabas.protocol.compile import install_constructor

        install_constructor(self.schema)
        type(self).__init__(self, **values)

    def encode(self, version: int) -> bytes:
        """The message as one run of bytes.  Slices of files are read."""
        return join_pieces(self.encode_pieces(version))

    def encode_pieces(self, version: int) -> list[Buffer | RecordSlice]:
        """The message as pieces to be sent one after the other; records are not copied into them."""
        pieces: list[Buffer | RecordSlice] = []
        encoder = self._encoders[version]
        try:
            encoder(self, pieces.append)
        except (struct.error, TypeError, AttributeError, ValueError, ProtocolError) as error:
            summary = f"cannot write version {version} of {self.schema.name}"
            raise explained(error, encoder, summary) from error
        return pieces

    def encode_steps(self, version: int, pieces: list[Buffer | RecordSlice]) -> Generator[None, None, None]:
        """Like `encode_pieces`, but a step at a time; who steps may take what is in `pieces` out of it."""
        encoder = self._encoders_in_steps[version]
        try:
            yield from encoder(self, pieces.append)
        except (struct.error, TypeError, AttributeError, ValueError, ProtocolError) as error:
            summary = f"cannot write version {version} of {self.schema.name}"
            raise explained(error, encoder, summary) from error

    @classmethod
    def decode(cls, buffer: Buffer, version: int) -> Self:
        """Read a message that fills the whole buffer."""
        message, position = cls.decode_from(buffer, 0, version)
        if position != len(buffer):
            raise ProtocolError(
                f"{len(buffer) - position} bytes are left over behind version {version} of {cls.schema.name}",
                position=position,
            )
        return message

    @classmethod
    def decode_from(cls, buffer: Buffer, position: int, version: int) -> tuple[Self, int]:
        """Read a message that starts at `position`; also returns where it ends."""
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
        """Like `decode_from`, but a step at a time, and with a bound on the number of elements."""
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
