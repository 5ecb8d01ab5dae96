"""What may be given as a serializer or deserializer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Serializer(Protocol[T_contra]):
    """Turns keys or values of a topic into bytes; it is called for None too: no key, or no value."""

    def serialize(self, topic: str, data: T_contra, /) -> bytes | None:
        """The bytes to send."""


class Deserializer(Protocol[T_co]):
    """Turns the bytes of keys or values of a topic into objects."""

    def deserialize(self, topic: str, data: bytes | None, /) -> T_co:
        """The object that `record.key` or `record.value` will be."""


# A function of one argument is not called for None: a record without a key or value has None.
SerializerGiven = Callable[[T], bytes] | Serializer[T] | type[Serializer[T]]
DeserializerGiven = Callable[[bytes], T] | Deserializer[T] | type[Deserializer[T]]
