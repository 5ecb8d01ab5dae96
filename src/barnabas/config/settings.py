"""A parsed configuration: immutable typed values and the warnings about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from barnabas.config.option import Mode


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Settings(Mapping[str, Any]):
    """Typed values by option name, defaults included.

    `settings["segment.bytes"]` is an int because its row says INT: bool, str, int, float, a tuple of str for
    LIST, a `Password`, or None where an option has no value.  `given` holds the values that were set, as they
    were written, including unknown keys; `warnings` are complete log lines.
    """

    scope: str
    mode: Mode
    values_by_name: Mapping[str, Any]
    given: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Any:
        try:
            return self.values_by_name[name]
        except KeyError:
            raise KeyError(f"{self.scope} has no option {name} in {self.mode.name} mode") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        return f"Settings({self.scope}, {len(self.given)} given)"

    def is_given(self, name: str) -> bool:
        """Whether this option was set explicitly, even to its default value."""
        return name in self.given
