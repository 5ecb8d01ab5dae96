"""A reader of DER (X.690): tags and lengths, every one checked before it is used.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

INTEGER, OCTET_STRING, OBJECT_ID = 0x02, 0x04, 0x06
SEQUENCE, SET = 0x30, 0x31
# A length of more bytes than this would be larger than any certificate.
_MAX_LENGTH_BYTES = 4
_LONG_FORM = 0x80
_MANY = 0x1F


class Element(NamedTuple):
    """One element: its tag and its contents."""

    tag: int
    content: bytes

    def children(self) -> Iterator[Element]:
        """The elements within; ValueError if the contents are not elements."""
        position = 0
        while position < len(self.content):
            element, position = read_element(self.content, position)
            yield element

    def expect(self, tag: int) -> Element:
        """This element, if it has the tag."""
        if self.tag != tag:
            raise ValueError(f"an element has the tag {self.tag:#x} instead of {tag:#x}")
        return self


def read_element(data: bytes, position: int = 0) -> tuple[Element, int]:
    """The element at a position, and where the next one begins."""
    if position + 2 > len(data):
        raise ValueError("the data end within an element")
    tag, length = data[position], data[position + 1]
    if tag & _MANY == _MANY:
        raise ValueError("a tag has several bytes")
    start = position + 2
    if length & _LONG_FORM:
        count = length & ~_LONG_FORM
        if not 0 < count <= _MAX_LENGTH_BYTES or start + count > len(data):
            raise ValueError("the length of an element is not valid")
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    end = start + length
    if end > len(data):
        raise ValueError("an element is longer than the data")
    return Element(tag, data[start:end]), end


def object_id(content: bytes) -> str:
    """An object identifier as dotted numbers."""
    if not content or content[-1] & _LONG_FORM:
        raise ValueError("an object identifier ends in the middle of a number")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & ~_LONG_FORM
        if not byte & _LONG_FORM:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
