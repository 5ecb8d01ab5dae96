"""Following files by glob patterns, through rotation and restarts.

Contains the discovery of files and the saving of their positions; reading one file belongs in `follower`.

Rotation by renaming: the old file is read to its end under its new name, and for a while longer, because its
writer may still have it open; the new one is read from its start.  Rotation by copying and truncating: a file
that no longer contains what was read last is read from its start again.  A file that was renamed while no
collector ran is found by its inode in its folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import logging
import os
import stat
from collections.abc import AsyncGenerator, Iterable, Sequence

from barnabas.collect.follower import Follower, TruncatedError
from barnabas.collect.lines import MAX_LINE_BYTES
from barnabas.collect.positions import Position, PositionsFile
from barnabas.collect.sources import Lines

logger = logging.getLogger(__name__)

# The pause when no file has grown, and the interval of the search for new files.
POLL_S = 0.1
DISCOVERY_INTERVAL_S = 1.0
# A renamed file is closed after it has not grown for this long: a service that is told to reopen its log may
# take a while.
RENAMED_IDLE_S = 30.0
# Beyond this number of renamed files, the oldest ones are closed as soon as they are read.
MAX_RENAMED = 256
# The smallest interval between saves; after a crash, lines written since the last save are sent again.
SAVE_S = 1.0
MAX_OPEN_FILES = 4096
NEVER_S = float("-inf")


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
        """`from_end`: at the first start (no saved positions), skip what files already contain.  `until_end`:
        stop when all files are read, instead of waiting for more."""
        self._patterns = list(patterns)
        self._positions = positions
        self._from_end = from_end
        self._until_end = until_end
        self._max_line_bytes = max_line_bytes
        # Positions of files that are not followed yet, perhaps because they cannot be opened now.
        self._saved: dict[tuple[int, int], Position] = {}
        self._unmatched = dict.fromkeys(patterns)
        self._followed: dict[tuple[int, int], Follower] = {}
        self._by_place: dict[int, Follower] = {}
        self._places = 0
        self._is_stopped = asyncio.Event()
        self._is_saved = True
        self._next_save_s = 0.0
        self._warned: set[str] = set()

    @property
    def followed(self) -> list[Follower]:
        return list(self._followed.values())

    @property
    def unmatched(self) -> list[str]:
        """The patterns that have matched no file so far."""
        return list(self._unmatched)

    # ------------------------------------------------------------------------------------------------ reading

    async def read(self) -> AsyncGenerator[Lines, None]:
        loop = asyncio.get_running_loop()
        self._discover(loop.time(), skip=self._load())
        self._warn_of_unmatched()
        self._save_if_due(loop.time())
        next_look_s = loop.time() + DISCOVERY_INTERVAL_S
        while not self._is_stopped.is_set():
            has_read = False
            for follower in self.followed:
                # One chunk each, so that a long file does not delay the others.
                found = self._read_some(follower, loop.time())
                if found is not None:
                    has_read = True
                    yield found
                if self._is_stopped.is_set():
                    return
            if loop.time() >= next_look_s:
                self._discover(loop.time(), skip=False)
                next_look_s = loop.time() + DISCOVERY_INTERVAL_S
            self._save_if_due(loop.time())
            if not has_read:
                if self._until_end:
                    for found in self._last_lines():
                        yield found
                    return
                await self._pause()

    def _load(self) -> bool:
        """Load the saved positions; returns whether the current content of files is skipped."""
        if self._positions is None:
            return self._from_end
        is_first = not self._positions.is_there
        self._saved = {entry.identity: entry for entry in self._positions.load()}
        # The next start must know that this one happened.
        self._is_saved = not is_first
        return self._from_end and is_first

    def _warn_of_unmatched(self) -> None:
        for pattern in self._unmatched:
            waiting = "" if self._until_end else " yet; waiting for one"
            logger.warning("no file matches %s%s", pattern, waiting)

    def _read_some(self, follower: Follower, now_s: float) -> Lines | None:
        """Read what was added to a file, perhaps no whole line; None if nothing was."""
        try:
            lines = self._read_or_restart(follower)
        except OSError as error:
            self._warn_once(
                f"read {follower.path}", f"{follower.path} can no longer be read: {error.strerror}"
            )
            self._suspend(follower)
            return None
        if lines is not None:
            follower.last_growth_s = now_s
        elif self._is_finished(follower, now_s):
            lines = follower.end()
            self._leave(follower, keep=bool(lines))
        return None if lines is None else Lines(follower.path, lines, follower.place, follower.offset)

    def _read_or_restart(self, follower: Follower) -> list[bytes] | None:
        try:
            return follower.read()
        except TruncatedError:
            self._start_again(follower)
            return follower.read()

    @staticmethod
    def _is_finished(follower: Follower, now_s: float) -> bool:
        since_s = follower.renamed_since_s
        return since_s is not None and now_s - max(since_s, follower.last_growth_s) > RENAMED_IDLE_S

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

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_stopped.wait(), POLL_S)

    # ---------------------------------------------------------------------------------------------- discovery

    def _discover(self, now_s: float, *, skip: bool) -> None:
        """Follow new files and update changed names; `skip` what new files already contain."""
        seen: set[tuple[int, int]] = set()
        for path, identity in self._matching():
            seen.add(identity)
            follower = self._followed.get(identity)
            if follower is not None:
                follower.path = follower.matched_path = path
                follower.renamed_since_s = None
            elif (follower := self._open(path, identity)) is not None:
                position = self._saved.pop(identity, None)
                if position is not None and follower.is_same_as(position):
                    follower.start_at(position.offset)
                elif skip:
                    follower.start_at_end()
                self._follow(follower)
        for identity, follower in self._followed.items():
            if identity not in seen and follower.renamed_since_s is None:
                follower.renamed_since_s = now_s
        self._find_renamed(seen, now_s)
        self._limit_renamed()

    def _matching(self) -> list[tuple[str, tuple[int, int]]]:
        """Return the paths of files, sorted, and their identities, which survive renaming."""
        found = {}
        for pattern in self._patterns:
            for path in glob.glob(pattern, recursive=True):
                try:
                    info = os.stat(path)
                except OSError:
                    continue
                if stat.S_ISREG(info.st_mode):
                    found[path] = (info.st_dev, info.st_ino)
                    self._unmatched.pop(pattern, None)
        return sorted(found.items())

    def _find_renamed(self, seen: set[tuple[int, int]], now_s: float) -> None:
        """Find files that were followed before and match no pattern now, most likely renamed by a
        rotation."""
        folders: dict[str, dict[tuple[int, int], str]] = {}
        for identity, position in list(self._saved.items()):
            if identity in seen:
                continue  # It cannot be opened now, but perhaps later.
            folder = os.path.dirname(position.path) or "."
            if folder not in folders:
                folders[folder] = _files_in(folder)
            path = folders[folder].get(identity)
            if path is not None and os.path.basename(path) == os.path.basename(position.path):
                self._drop_position(position)
                continue
            if path is not None:
                follower = self._open(path, identity)
                if follower is None:
                    continue
                if follower.is_same_as(position):
                    del self._saved[identity]
                    follower.start_at(position.offset)
                    follower.matched_path = position.path
                    follower.renamed_since_s = now_s
                    self._follow(follower)
                    continue
                follower.close()
            logger.warning(
                "%s, read up to byte %d before, was removed or replaced; what it contained after that is not "
                "collected",
                position.path,
                position.offset,
            )
            del self._saved[identity]
            self._is_saved = False

    def _drop_position(self, position: Position) -> None:
        """Drop the position of a file whose name no longer matches: the patterns have changed."""
        logger.warning(
            "%s, read up to byte %d before, matches none of the patterns any more and is not followed",
            position.path,
            position.offset,
        )
        del self._saved[position.identity]
        self._is_saved = False

    def _limit_renamed(self) -> None:
        renamed = [entry for entry in self.followed if entry.renamed_since_s is not None]
        renamed.sort(key=lambda entry: entry.renamed_since_s or 0.0)
        for follower in renamed[: max(0, len(renamed) - MAX_RENAMED)]:
            follower.renamed_since_s = follower.last_growth_s = NEVER_S

    def _open(self, path: str, identity: tuple[int, int]) -> Follower | None:
        """Open a file; returns None, with one warning, if that is not possible now."""
        if len(self._followed) >= MAX_OPEN_FILES:
            self._warn_once("limit", f"more than {MAX_OPEN_FILES} files match: {path} and others must wait")
            return None
        try:
            follower = Follower(path, identity, self._places, self._max_line_bytes)
        except OSError as error:
            self._warn_once(path, f"{path} cannot be read: {error.strerror}")
            return None
        self._warned.discard(path)
        return follower

    def _follow(self, follower: Follower) -> None:
        self._places += 1
        self._followed[follower.identity] = follower
        self._by_place[follower.place] = follower
        self._is_saved = False
        logger.info("following %s from byte %d", follower.path, follower.offset)

    def _leave(self, follower: Follower, *, keep: bool = False) -> None:
        """Stop following a file; `keep` it until its last lines are acknowledged."""
        self._followed.pop(follower.identity, None)
        follower.is_left = True
        if not keep and follower.written_offset >= follower.offset:
            self._forget(follower)

    def _suspend(self, follower: Follower) -> None:
        """Stop following a file that may be opened again later, at the acknowledged position."""
        self._saved[follower.identity] = follower.position()
        self._followed.pop(follower.identity, None)
        self._forget(follower)

    def _forget(self, follower: Follower) -> None:
        self._by_place.pop(follower.place, None)
        follower.close()
        self._is_saved = False

    def _warn_once(self, about: str, line: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            logger.warning("%s", line)

    # ---------------------------------------------------------------------------------------------- positions

    def written(self, place: int, position: int) -> None:
        follower = self._by_place.get(place)
        if follower is None:
            return
        follower.written_offset = position
        self._is_saved = False
        if follower.is_left and follower.written_offset >= follower.offset:
            self._forget(follower)

    def _save_if_due(self, now_s: float) -> None:
        if self._is_saved or now_s < self._next_save_s:
            return
        self._next_save_s = now_s + SAVE_S
        try:
            self._save()
        except OSError as error:
            # A full disk may have space again later; until then lines are worth more than positions.
            self._warn_once("save", f"positions cannot be saved, trying again: {error}")
        else:
            self._warned.discard("save")

    def _save(self) -> None:
        if self._positions is not None:
            followed = [follower.position() for follower in self._by_place.values()]
            self._positions.save([*followed, *self._saved.values()])
        self._is_saved = True

    def stop(self) -> None:
        self._is_stopped.set()

    def close(self) -> None:
        """Raises OSError if the positions cannot be saved."""
        try:
            if not self._is_saved:
                self._save()
        except OSError as error:
            assert self._positions is not None
            raise OSError(
                error.errno,
                f"positions are not saved ({error.strerror}); the next start sends again what was written "
                "since they were last saved",
                self._positions.path,
            ) from error
        finally:
            for follower in self._by_place.values():
                follower.close()


def _files_in(folder: str) -> dict[tuple[int, int], str]:
    found = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False):
                    info = entry.stat()
                    found[info.st_dev, info.st_ino] = entry.path
    except OSError:
        return {}
    return found
