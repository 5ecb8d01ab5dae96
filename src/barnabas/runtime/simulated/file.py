"""The content of a simulated file: what programs see, and what the device may hold if power fails now.

Contains pages, their state at the last sync, and the draw of what survives.  Names and folders belong in
simulated.names, faults in simulated.disk_faults.

The model is that of a page cache above a device: a page of 4,096 bytes that was changed since the last sync
may have been written or not, or torn at sectors of 512 bytes.  The length is written separately from the
pages, so a file may be long enough and yet contain zeroes.  An unsynced truncation may be undone.  Only
synced data is certain to survive.
"""

from __future__ import annotations

import enum
from collections import deque

from barnabas.runtime.disk.disk import Buffer
from barnabas.runtime.random import Random

PAGE_BYTES = 4096
SECTOR_BYTES = 512
_SECTORS = PAGE_BYTES // SECTOR_BYTES

SIZES_MAX = 64
"""Sizes remembered since the last sync: an end between two writes is likelier than one within a write."""


class Survival(enum.IntEnum):
    """What survives of a file that was changed since its last sync; drawn for each file."""

    NOTHING = 0
    EVERYTHING = 1
    PREFIX = 2
    PAGES = 3


class SimulatedContent:
    """One file.  `data` is what programs see; the other attributes allow going back."""

    __slots__ = (
        "_least_size",
        "_lost",
        "_old_pages",
        "_shared",
        "_sizes",
        "_synced_size",
        "data",
        "modified_ms",
        "path",
    )

    def __init__(self, path: str, modified_ms: int) -> None:
        self.path = path
        self.modified_ms = modified_ms
        self.data = bytearray()
        self._shared = False
        """True when a copy shares the bytearray: then it is copied before it is changed."""
        self._old_pages: dict[int, bytes] = {}
        """Pages changed since the last sync, as they were then (empty beyond its end)."""
        self._lost: set[int] = set()
        """Pages dropped by a failed sync: no later sync writes them."""
        self._synced_size = 0
        self._least_size = 0
        """The smallest size since the last sync: everything beyond was truncated at some time."""
        self._sizes: deque[int] = deque(maxlen=SIZES_MAX)
        """The latest sizes of the file since the last sync."""

    def copy(self) -> SimulatedContent:
        """An independent copy; the bytes are shared until one of the two is changed."""
        twin = SimulatedContent(self.path, self.modified_ms)
        twin.data = self.data
        twin._shared = self._shared = True
        twin._old_pages = dict(self._old_pages)
        twin._lost = set(self._lost)
        twin._synced_size = self._synced_size
        twin._least_size = self._least_size
        twin._sizes = self._sizes.copy()
        return twin

    @property
    def is_synced(self) -> bool:
        """True when a power loss now would change nothing."""
        return not self._old_pages and self._synced_size == len(self.data)

    def write(self, offset: int, data: Buffer) -> None:
        end = offset + len(data)
        if end == offset:
            return
        if self._shared:
            self._own()
        if offset // PAGE_BYTES not in self._old_pages or end > (offset // PAGE_BYTES + 1) * PAGE_BYTES:
            self._remember(offset, end)
        if self._lost:
            self._lost.difference_update(range(offset // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1))
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset:end] = data
        self._sizes.append(len(self.data))

    def truncate(self, size: int) -> None:
        self._own()
        if size < len(self.data):
            self._remember(size, len(self.data))
            del self.data[size:]
            self._least_size = min(self._least_size, size)
        else:
            self.data.extend(bytes(size - len(self.data)))
        self._sizes.append(size)

    def sync(self) -> None:
        """Everything is durable now, except for pages dropped by an earlier failure."""
        size = len(self.data)
        self._lost = {page for page in self._lost if page * PAGE_BYTES < size}
        self._old_pages = {page: self._old_pages[page][: size - page * PAGE_BYTES] for page in self._lost}
        self._synced_size = self._least_size = size
        self._sizes.clear()

    def fail_sync(self) -> None:
        """As on Linux: changed pages are marked clean although they were not written.

        Programs still see them, and a later sync succeeds without writing them.
        """
        self._lost.update(self._old_pages)

    def lose_power(self, random: Random) -> None:
        """Become what the device holds; what survives is drawn."""
        if self.is_synced:
            return
        survival = Survival(random.integer(0, 3))
        if survival is Survival.NOTHING:
            self._become(self._synced())
        elif survival is Survival.PAGES:
            self._become(self._some_pages(random))
        else:
            size = len(self.data)
            if survival is Survival.PREFIX:
                size = self._some_size(random)
            survivor = self._after_cut(size)
            for page in self._old_pages:
                self._write_page(survivor, page)
            self._become(survivor)

    def _some_pages(self, random: Random) -> bytearray:
        """Each changed page is present, missing or torn; an unsynced truncation or the new length may be
        undone."""
        if self._least_size < self._synced_size and random.integer(0, 1) == 0:
            survivor = self._synced()
            limit = self._least_size
        else:
            at_full_length = random.integer(0, 1) == 1
            limit = len(self.data) if at_full_length else self._some_size(random)
            survivor = self._after_cut(limit)
        for page in sorted(self._old_pages):
            if page * PAGE_BYTES < limit:
                sectors = random.integer(0, 2**_SECTORS - 1)
                self._write_page(survivor, page, (0, 2**_SECTORS - 1, sectors)[random.integer(0, 2)])
        return survivor

    def _some_size(self, random: Random) -> int:
        """A possible end of the file since its latest truncation: between two writes, or within one."""
        if random.integer(0, 1) == 0:
            return random.integer(self._least_size, len(self.data))
        ends = [size for size in self._sizes if self._least_size <= size <= len(self.data)]
        return [self._least_size, *ends][random.integer(0, len(ends))]

    def _own(self) -> None:
        if self._shared:
            self.data = bytearray(self.data)
            self._shared = False

    def _remember(self, start: int, end: int) -> None:
        """Save the device's version of the pages from start to end, before they change."""
        for page in range(start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1):
            if page not in self._old_pages:
                position = page * PAGE_BYTES
                stop = min(position + PAGE_BYTES, self._synced_size)
                self._old_pages[page] = bytes(self.data[position:stop])

    def _synced(self) -> bytearray:
        """The content as of the last sync."""
        content = bytearray(self.data[: self._synced_size])
        content.extend(bytes(self._synced_size - len(content)))
        for page, old in self._old_pages.items():
            position = page * PAGE_BYTES
            if position < self._synced_size:
                stop = min(position + PAGE_BYTES, self._synced_size)
                content[position:stop] = old[: stop - position].ljust(stop - position, b"\0")
        return content

    def _after_cut(self, size: int) -> bytearray:
        """What was synced and never truncated since, at a new length."""
        content = self._synced()
        del content[min(size, self._least_size) :]
        content.extend(bytes(size - len(content)))
        return content

    def _write_page(self, survivor: bytearray, page: int, sectors: int = 2**_SECTORS - 1) -> None:
        """Copy the sectors of a changed page that the device has written, up to the survivor's length."""
        if page in self._lost:
            return
        for sector in range(_SECTORS):
            if sectors >> sector & 1:
                start = page * PAGE_BYTES + sector * SECTOR_BYTES
                stop = min(start + SECTOR_BYTES, len(survivor), len(self.data))
                if start < stop:
                    survivor[start:stop] = self.data[start:stop]

    def _become(self, survivor: bytearray) -> None:
        self.data = survivor
        self._shared = False
        self._old_pages.clear()
        self._lost.clear()
        self._synced_size = self._least_size = len(survivor)
        self._sizes.clear()
