"""The result of a call about several things: a value or an error for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from barnabas.base.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")


class Outcomes(Mapping[K, V], Generic[K, V]):
    """Values by key; accessing a key that failed raises its error."""

    __slots__ = ("_found",)

    def __init__(self, found: Mapping[K, V | KafkaError]) -> None:
        self._found = dict(found)

    def __getitem__(self, key: K) -> V:
        value = self._found[key]
        if isinstance(value, KafkaError):
            raise value
        return value

    def __iter__(self) -> Iterator[K]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def __repr__(self) -> str:
        return f"Outcomes({self._found!r})"

    def error_of(self, key: K) -> KafkaError | None:
        """The error of a key; None if it has a value."""
        value = self._found[key]
        return value if isinstance(value, KafkaError) else None

    @property
    def errors(self) -> dict[K, KafkaError]:
        """The failures by key."""
        return {key: value for key, value in self._found.items() if isinstance(value, KafkaError)}

    @property
    def values_by_key(self) -> dict[K, V]:
        """The successes by key."""
        return {key: value for key, value in self._found.items() if not isinstance(value, KafkaError)}

    def raise_first(self) -> Outcomes[K, V]:
        """Raise the first error, if there is one; else return self: for callers that need all to succeed."""
        for error in self.errors.values():
            raise error
        return self
