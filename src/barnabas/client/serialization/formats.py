"""Apache Kafka's own formats, in its byte order."""

from __future__ import annotations

import struct
from typing import Generic, TypeVar

T = TypeVar("T")
N = TypeVar("N", int, float)


class Format(Generic[T]):
    """A serializer and a deserializer; None is no key or value, and stays None.

    A subclass says how one object becomes bytes (`dump`) and comes back (`load`).
    """

    def dump(self, value: T) -> bytes:
        """The bytes of an object."""
        raise NotImplementedError

    def load(self, data: bytes) -> T:
        """The object of these bytes."""
        raise NotImplementedError

    def serialize(self, topic: str, data: T) -> bytes | None:
        """`dump`, but None for None."""
        # Type checkers take the type of keys and values from this one, so it does not say `T | None`.
        return None if data is None else self.dump(data)

    def deserialize(self, topic: str, data: bytes | None) -> T:
        """`load`, but None for None."""
        # The same: a record without a value has None all the same.
        return None if data is None else self.load(data)  # type: ignore[return-value]

    def __repr__(self) -> str:
        return type(self).__name__


class _String(Format[str]):
    def dump(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"STRING takes a str, not {type(value).__name__}")
        return value.encode()

    def load(self, data: bytes) -> str:
        return data.decode()

    def __repr__(self) -> str:
        return "STRING"


class _Number(Format[N]):
    def __init__(self, name: str, form: str) -> None:
        self._name = name
        self._form = struct.Struct(form)

    def dump(self, value: N) -> bytes:
        try:
            return self._form.pack(value)
        except struct.error as error:
            raise ValueError(f"{value!r} is not a {self._name}: {error}") from None

    def load(self, data: bytes) -> N:
        if len(data) != self._form.size:
            raise ValueError(f"{len(data)} bytes are not a number of {self._form.size} bytes")
        number: N = self._form.unpack(data)[0]
        return number

    def __repr__(self) -> str:
        return self._name.upper()


STRING: Format[str] = _String()
SHORT: Format[int] = _Number("short", ">h")
INTEGER: Format[int] = _Number("integer", ">i")
LONG: Format[int] = _Number("long", ">q")
FLOAT: Format[float] = _Number("float", ">f")
DOUBLE: Format[float] = _Number("double", ">d")
