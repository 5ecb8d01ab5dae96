"""Topic names that would collide in metric names."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.topic_names import collision_key


class CollidingNames:
    """Topic names with a period or an underscore, by their form in metric names."""

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
        """Returns an existing topic whose name collides with this one, or is equal to it."""
        same = self._names.get(collision_key(name)) if _may_collide(name) else None
        return None if same is None else next(iter(same))


def _may_collide(name: str) -> bool:
    return "." in name or "_" in name
