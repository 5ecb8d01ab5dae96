"""Following files by their globs, through rotation and restarts.

What lives here: which files there are, and when their positions are saved.  What may not: one file's reading
(follower).

Rotation by renaming: the old file is read to its end under its new name, the new one from its start.
Rotation by copying and truncating: a file that became shorter is read from its start again.  A file that was
renamed while nobody collected is looked for by its inode in its folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
import os
import stat
from collections.abc import AsyncGenerator, Iterable, Sequence

from barnabas.collect.follower import Follower
from barnabas.collect.lines import MAX_LINE_BYTES
from barnabas.collect.positions import Position, PositionsFile
from barnabas.collect.sources import Lines

logger = logging.getLogger(__name__)

# How long to sleep when no file has grown, and between looks for new files.
POLL_S = 0.1
LOOK_S = 1.0
# A file without its name gets this long to grow once more before it is left.
LAST_WORDS_S = 5.0
# Positions are saved so often at most; a crash repeats what was written since.
SAVE_S = 1.0
MAX_OPEN_FILES = 4096


class FileSource:
    """All files that match any of the patterns."""

    def __init__(
        self,
        patterns: Sequence[str],
        positions: PositionsFile | None = None,
        *,
        from_end: bool = False,
        until_end: bool = False,
        max_line_bytes: int = MAX_LINE_BYTES,
    ) -> None:
        """`from_end`: of files that are there at the first start, only what is added later.  `until_end`:
        stop when all files are read, instead of waiting for more."""
        self._patterns = list(patterns)
        self._positions = positions
        self._from_end = from_end
        self._until_end = until_end
        self._max_line_bytes = max_line_bytes
        self._followed: dict[tuple[int, int], Follower] = {}
        self._by_place: dict[int, Follower] = {}
        self._places = 0
        self._is_stopped = asyncio.Event()
        self._is_saved = True
        self._next_save_s = 0.0
        self._told: set[str] = set()

    @property
    def followed(self) -> list[Follower]:
        return list(self._followed.values())

    # ---------------------------------------------------------------------------------------------- reading

    async def read(self) -> AsyncGenerator[Lines, None]:
        loop = asyncio.get_running_loop()
        saved = {one.identity: one for one in self._positions.load()} if self._positions is not None else {}
        self._look(saved, is_first=True)
        self._look_for_renamed(saved)
        next_look_s = loop.time() + LOOK_S
        while not self._is_stopped.is_set():
            has_read = False
            for follower in self.followed:
                # One chunk each, so that a long file does not keep the others waiting.
                found = self._read_some(follower, loop.time())
                if found is not None:
                    has_read = True
                    yield found
                if self._is_stopped.is_set():
                    return
            if loop.time() >= next_look_s:
                self._look(saved, is_first=False)
                next_look_s = loop.time() + LOOK_S
            self._save_now_and_then(loop.time())
            if not has_read:
                if self._until_end:
                    for found in self._last_lines():
                        yield found
                    return
                await self._rest()

    def _read_some(self, follower: Follower, now_s: float) -> Lines | None:
        """What was added to it since, perhaps no whole line; None if nothing was."""
        try:
            lines = follower.read()
            if lines is None and follower.is_truncated():
                self._start_again(follower)
                lines = follower.read()
        except OSError as error:
            logger.warning("%s cannot be read any more: %s", follower.path, error.strerror)
            self._leave(follower)
            return None
        if lines is not None:
            follower.last_growth_s = now_s
        elif follower.is_without_name and now_s - follower.last_growth_s > LAST_WORDS_S:
            lines = follower.end()
            self._leave(follower, keep=bool(lines))
        return None if lines is None else Lines(follower.path, lines, follower.place, follower.offset)

    def _start_again(self, follower: Follower) -> None:
        logger.warning("%s was truncated: reading it from its start", follower.path)
        del self._by_place[follower.place]
        follower.start_again(self._places)
        self._places += 1
        self._by_place[follower.place] = follower
        self._is_saved = False

    def _last_lines(self) -> Iterable[Lines]:
        for follower in self.followed:
            lines = follower.end()
            if lines:
                yield Lines(follower.path, lines, follower.place, follower.offset)

    async def _rest(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_stopped.wait(), POLL_S)

    # ---------------------------------------------------------------------------------- which files there are

    def _look(self, saved: dict[tuple[int, int], Position], *, is_first: bool) -> None:
        """Follow what is new, and know the names that changed."""
        seen: set[tuple[int, int]] = set()
        for path in sorted(
            {path for pattern in self._patterns for path in glob.glob(pattern, recursive=True)}
        ):
            try:
                found = os.stat(path)
            except OSError:
                continue
            if not stat.S_ISREG(found.st_mode):
                continue
            identity = (found.st_dev, found.st_ino)
            seen.add(identity)
            follower = self._followed.get(identity)
            if follower is not None:
                follower.path = path
                follower.is_without_name = False
            else:
                self._follow(path, identity, saved.pop(identity, None), skip=is_first and self._from_end)
        for identity, follower in self._followed.items():
            if identity not in seen:
                follower.is_without_name = True

    def _look_for_renamed(self, saved: dict[tuple[int, int], Position]) -> None:
        """Files that were followed before, and no pattern finds: renamed, most likely, by a rotation."""
        folders: dict[str, dict[tuple[int, int], str]] = {}
        for identity, position in list(saved.items()):
            folder = os.path.dirname(position.path) or "."
            if folder not in folders:
                folders[folder] = _files_in(folder)
            path = folders[folder].get(identity)
            if path is not None:
                follower = self._follow(path, identity, position, skip=False, is_known_only=True)
                if follower is not None:
                    follower.is_without_name = True
                    continue
            logger.warning(
                "%s, read up to byte %d before, is gone or another file now; what it held after that is not "
                "collected",
                position.path,
                position.offset,
            )
            del saved[identity]
            self._is_saved = False

    def _follow(
        self,
        path: str,
        identity: tuple[int, int],
        position: Position | None,
        *,
        skip: bool,
        is_known_only: bool = False,
    ) -> Follower | None:
        if len(self._followed) >= MAX_OPEN_FILES:
            self._tell_once(
                "limit", f"more than {MAX_OPEN_FILES} files match: {path} and others have to wait"
            )
            return None
        try:
            follower = Follower(path, identity, self._places, self._max_line_bytes)
        except OSError as error:
            self._tell_once(path, f"{path} cannot be read: {error.strerror}")
            return None
        if position is not None and follower.is_same_as(position):
            follower.start_at(position.offset)
        elif is_known_only:
            follower.close()
            return None
        elif skip:
            follower.start_at_end()
        self._places += 1
        self._followed[identity] = follower
        self._by_place[follower.place] = follower
        self._is_saved = False
        logger.info("following %s from byte %d", path, follower.offset)
        return follower

    def _leave(self, follower: Follower, *, keep: bool = False) -> None:
        """Follow it no more; `keep` it until its last lines are written."""
        self._followed.pop(follower.identity, None)
        follower.is_left = True
        if not keep and follower.written_offset >= follower.offset:
            self._forget(follower)

    def _forget(self, follower: Follower) -> None:
        self._by_place.pop(follower.place, None)
        follower.close()
        self._is_saved = False

    def _tell_once(self, about: str, line: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("%s", line)

    # -------------------------------------------------------------------------------------------- positions

    def written(self, place: int, position: int) -> None:
        follower = self._by_place.get(place)
        if follower is None:
            return
        follower.written_offset = position
        self._is_saved = False
        if follower.is_left and follower.written_offset >= follower.offset:
            self._forget(follower)

    def _save_now_and_then(self, now_s: float) -> None:
        if not self._is_saved and now_s >= self._next_save_s:
            self._save()
            self._next_save_s = now_s + SAVE_S

    def _save(self) -> None:
        if self._positions is not None:
            self._positions.save(follower.position() for follower in self._by_place.values())
        self._is_saved = True

    def stop(self) -> None:
        self._is_stopped.set()

    def close(self) -> None:
        if not self._is_saved:
            self._save()
        for follower in self._by_place.values():
            follower.close()


def _files_in(folder: str) -> dict[tuple[int, int], str]:
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    info = entry.stat(follow_symlinks=False)
                    found[info.st_dev, info.st_ino] = entry.path
    except OSError:
        return {}
    return found
