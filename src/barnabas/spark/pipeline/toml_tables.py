"""Tables of a TOML file, where every wrong key or value is told with its file and its full name.

What lives here: types and names of keys.  What may not: what they mean.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barnabas.spark.pipeline.definition import PipelineError


class Table:
    """One table; `where` is its file and its name: `orders.toml: sinks.counts`."""

    def __init__(self, file: str, name: str, values: Mapping[str, Any]) -> None:
        self.file = file
        self._name = name
        self._values = values

    @property
    def where(self) -> str:
        return f"{self.file}: {self._name}" if self._name else self.file

    def wrong(self, key: str, what: str) -> PipelineError:
        name = ".".join(part for part in (self._name, key) if part)
        return PipelineError(f"{self.file}: {name}: {what}" if name else f"{self.file}: {what}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What the definition refuses is told with the place in the file."""
        try:
            yield
        except PipelineError as error:
            told = str(error)
            raise error if told.startswith(self.file) else PipelineError(f"{self.where}: {told}") from error

    def allow(self, *names: str) -> None:
        for key in self._values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise self.wrong(key, f"there is no such key{hint}; allowed are {', '.join(names)}")

    def has(self, key: str) -> bool:
        return key in self._values

    def given(self) -> list[str]:
        return list(self._values)

    # Values ---------------------------------------------------------------------------------------------

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, f"{value!r} is no text; put it in quotes")
        return value

    def required_text(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise self.wrong(key, f'it is missing; add {key} = "..."')
        return value

    def flag(self, key: str) -> bool:
        value = self._values.get(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"{value!r} is neither true nor false")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.wrong(key, f'{value!r} is no list of texts, such as ["a", "b"]')
        return tuple(value)

    def plain(self, key: str) -> str:
        """A text, a number or a truth, as the text that Spark takes."""
        value = self._values[key]
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self.wrong(key, f"{value!r} is no text and no number")
        return str(value)

    def texts(self, key: str) -> dict[str, str]:
        """A table of options; `kafka.client.id = "x"` without quotes is a table in a table to TOML."""
        results: dict[str, str] = {}
        table = self.table(key)
        for name in table.given():
            if isinstance(table._values[name], Mapping):
                results.update({f"{name}.{inner}": value for inner, value in table.texts(name).items()})
            else:
                results[name] = table.plain(name)
        return results

    def table(self, key: str) -> Table:
        value = self._values.get(key, {})
        name = ".".join(part for part in (self._name, key) if part)
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"{value!r} is no table; write [{name}]")
        return Table(self.file, name, value)

    def tables(self) -> Iterator[tuple[str, Table]]:
        for key in self._values:
            yield key, self.table(key)
