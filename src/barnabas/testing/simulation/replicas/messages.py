"""What nodes send each other, beside the requests of production."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.metadata.image import Image


class Ask:
    """A request, with a number that no other one of its sender has."""

    __slots__ = ("number", "request")

    def __init__(self, number: int, request: object) -> None:
        self.number = number
        self.request = request

    def __repr__(self) -> str:
        return f"ask {self.number} {type(self.request).__name__}"


class Answer:
    """A response, or an error without one."""

    __slots__ = ("error", "number", "response")

    def __init__(self, number: int, response: object, error: ErrorCode = ErrorCode.NONE) -> None:
        self.number = number
        self.response = response
        self.error = error

    def __repr__(self) -> str:
        return f"answer {self.number} {self.error.name}"


class Committed:
    """The newest image that a controller knows to be committed."""

    __slots__ = ("image",)

    def __init__(self, image: Image) -> None:
        self.image = image

    def __repr__(self) -> str:
        return f"image {self.image.offset}"


@dataclass(frozen=True, slots=True)
class Write:
    """A client's batch for a partition."""

    topic: str
    index: int
    acks: int
    count: int
    value: int


@dataclass(frozen=True, slots=True)
class Written:
    """The offset of its first record."""

    base_offset: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class Delete:
    """DeleteRecords: before this offset, or before the high watermark (-1)."""

    topic: str
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """Whether the leader has done it."""

    error: ErrorCode
