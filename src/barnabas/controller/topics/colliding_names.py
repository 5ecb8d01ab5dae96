"""Topic names that metrics could not tell apart: which of them are taken."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.topic_names import collision_key


class CollidingNames:
    """The names that hold a period or an underscore, by what they become in metrics."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def add(self, name: str) -> None:
        if _may_collide(name):
            self._names.setdefault(collision_key(name), {})[name] = None

    def remove(self, name: str) -> None:
        same = self._names.get(collision_key(name))
        if same is not None:
            same.pop(name, None)
            if not same:
                del self._names[collision_key(name)]

    def replace(self, names: Iterable[str]) -> None:
        self._names.clear()
        for name in names:
            self.add(name)

    def find(self, name: str) -> str | None:
        """A topic that is there and that this name would collide with; perhaps the very same."""
        same = self._names.get(collision_key(name)) if _may_collide(name) else None
        return None if same is None else next(iter(same))


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name
