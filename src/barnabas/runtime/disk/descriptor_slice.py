"""The slice that real files and large files in memory share: a range of a file with a descriptor.

Contains reading, dividing and sending such a range.  Keeping the descriptor open belongs in each kind of
disk.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from typing import Self

from barnabas.runtime.disk import descriptor_io
from barnabas.runtime.disk.descriptor_io import DiskFeatures
from barnabas.runtime.disk.disk import Sink, refuse


class DescriptorSlice(ABC):
    """A range of a file that has a descriptor."""

    __slots__ = ("_descriptor", "_features", "_length", "_offset")

    def __init__(self, descriptor: int, offset: int, length: int, features: DiskFeatures) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self._length = length
        self._features = features

    @property
    @abstractmethod
    def path(self) -> str:
        """The current name of the file, for errors."""

    @abstractmethod
    def _range(self, offset: int, length: int) -> Self:
        """Another range of the same file."""

    @property
    def length(self) -> int:
        return self._length

    def read(self) -> bytes:
        data = descriptor_io.read_full(self._descriptor, self._offset, self._length)
        if len(data) < self._length:
            refuse(errno.ESTALE, self.path, "the file was truncated below this slice: read it again")
        return data

    def bring_in(self) -> None:
        descriptor_io.bring_in(self._descriptor, self._offset, self._length, self._features)

    def sub(self, offset: int, length: int) -> Self:
        if offset < 0 or length < 0:
            refuse(errno.EINVAL, self.path)
        offset = min(offset, self._length)
        return self._range(self._offset + offset, min(length, self._length - offset))

    def send_to(self, sink: Sink, offset: int) -> int:
        remaining = self._length - offset
        if remaining <= 0:
            return 0
        start = self._offset + offset
        return descriptor_io.send_range(self._descriptor, start, remaining, sink, self._features, self.path)
