"""The watches of one session, by path."""

from __future__ import annotations

from functools import partial

from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.zookeeper.client import Watch, WatchEvent, WatchKind


class Watches:
    """Those of `get` see the znode itself, those of `children` its children; both see that it is deleted."""

    def __init__(self) -> None:
        self.data: dict[str, list[Watch]] = {}
        self.children: dict[str, list[Watch]] = {}

    def add_data(self, path: str, watch: Watch) -> None:
        self.data.setdefault(path, []).append(watch)

    def add_children(self, path: str, watch: Watch) -> None:
        self.children.setdefault(path, []).append(watch)

    def fire(self, kind: WatchKind, path: str) -> None:
        """Call the watches of this path that see such a change; each is called once."""
        watches: list[Watch] = []
        if kind is not WatchKind.CHILDREN_CHANGED:
            watches += self.data.pop(path, ())
        if kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
            watches += self.children.pop(path, ())
        event = WatchEvent(kind, path)
        call_each(partial(watch, event) for watch in watches)
