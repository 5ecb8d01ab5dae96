"""Follows a znode whose sequential children announce changes: `/config/changes`, `/kafka-acl-changes`.

Each broker reads the announcements that are newer than the last one it has seen, and then what they name.
Announcements older than fifteen minutes are removed, as Apache Kafka's brokers do it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Any

from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.network.request_steps import RequestWork, Steps, awaited
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper.client import (
    WatchEvent,
    ZooKeeperClient,
    ZooKeeperCode,
    ZooKeeperError,
)

logger = logging.getLogger(__name__)

EXPIRATION_MS = 15 * 60 * 1_000
_DIGITS = 10

# Reads what an announcement names; raises MalformedZnodeError.
Announced = Callable[[str, bytes | None], Generator[Promise[Any] | None, Any, None]]


class Notifications:
    """The announcements below one znode."""

    def __init__(
        self,
        client: ZooKeeperClient,
        path: str,
        prefix: str,
        announced: Announced,
        work: RequestWork,
        clock: Clock,
    ) -> None:
        self._client = client
        self._path = path
        self._prefix = prefix
        self._announced = announced
        self._work = work
        self._clock = clock
        self._last = -1
        self._is_reading = False
        self._is_due = False
        # Watches of an earlier session, or of one that was begun again, are not those of now.
        self._session = 0

    def begin(self) -> Steps[None]:
        """Watches from now on; what was announced before is what the caller reads after this."""
        self._session += 1
        names = (yield from awaited(self._client.children(self._path, self._watch()))) or []
        self._last = max((_number(name) for name in names), default=-1)

    def stop(self) -> None:
        self._session += 1

    def _watch(self) -> Callable[[WatchEvent], None]:
        session = self._session

        def changed(event: WatchEvent) -> None:
            if session == self._session:
                self._read_soon()

        return changed

    def _read_soon(self) -> None:
        if self._is_reading:
            self._is_due = True
            return
        self._is_reading = True
        read, _ = self._work.start(self._read())
        read.then(lambda _: self._was_read(), self._failed)

    def _failed(self, error: BaseException) -> None:
        """If the connection is lost they are read with the next one; a session that has ended begins anew."""
        logger.warning("the announcements below %s could not be read: %s", self._path, error)
        if isinstance(error, ZooKeeperError) and error.code is ZooKeeperCode.CONNECTION_LOSS:
            # Perhaps the watch has not been set again, and the announcement that it told of is unread.
            self._is_due = True
        self._was_read()

    def _was_read(self) -> None:
        self._is_reading = False
        if self._is_due:
            self._is_due = False
            self._read_soon()

    def _read(self) -> Steps[None]:
        names = (yield from awaited(self._client.children(self._path, self._watch()))) or []
        ordered = sorted((name for name in names if name.startswith(self._prefix)), key=_number)
        for name in ordered:
            path = f"{self._path}/{name}"
            if _number(name) <= self._last:
                continue
            znode = yield from awaited(self._client.get(path))
            if znode is not None:
                try:
                    yield from self._announced(path, znode.data)
                except (MalformedZnodeError, ValueError) as error:
                    logger.error("%s; it is left alone", error)
            self._last = _number(name)
        yield from self._purge(ordered)

    def _purge(self, names: list[str]) -> Steps[None]:
        oldest_ms = self._clock.wall_ms() - EXPIRATION_MS
        for name in names:
            path = f"{self._path}/{name}"
            znode = yield from awaited(self._client.get(path))
            if znode is not None and znode.stat.ctime_ms > oldest_ms:
                return  # the later ones are younger
            try:
                yield from awaited(self._client.delete(path))
            except ZooKeeperError as error:
                if error.code is not ZooKeeperCode.NO_NODE:
                    raise


def _number(name: str) -> int:
    digits = name[-_DIGITS:]
    return int(digits) if digits.isdecimal() else -1
