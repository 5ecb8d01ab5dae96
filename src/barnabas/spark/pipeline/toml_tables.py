"""Tables of a TOML file, with errors that name the file and the full key."""

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

    def wrong(self, key: str, problem: str) -> PipelineError:
        name = ".".join(part for part in (self._name, key) if part)
        return PipelineError(f"{self.file}: {name}: {problem}" if name else f"{self.file}: {problem}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Add the position in the file to errors of the definition."""
        try:
            yield
        except PipelineError as error:
            message = str(error)
            raise (
                error if message.startswith(self.file) else PipelineError(f"{self.where}: {message}")
            ) from error

    def allow(self, *names: str) -> None:
        for key in self._values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                raise self.wrong(key, f"there is no such key{hint}; allowed are {', '.join(names)}")

    def has(self, key: str) -> bool:
        return key in self._values

    def is_table(self, key: str) -> bool:
        return isinstance(self._values.get(key), Mapping)

    def is_list(self, key: str) -> bool:
        return isinstance(self._values.get(key), list)

    def given(self) -> list[str]:
        return list(self._values)

    # Values ---------------------------------------------------------------------------------------------

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, f"{value!r} is not a string; put it in quotes")
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
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(key, f'{value!r} is not a list of strings, such as ["a", "b"]')
        return tuple(value)

    def plain(self, key: str) -> str:
        """Return a string, number or boolean as the string that Spark takes."""
        value = self._values[key]
        if isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str | int | float):
            raise self.wrong(key, f"{value!r} is neither a string nor a number")
        return str(value)

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of options; TOML parses `kafka.client.id = "x"` without quotes as nested tables."""
        results: dict[str, str] = {}
        table = self.table(key)
        for name in table.given():
            if isinstance(table._values[name], Mapping):
                results.update({f"{name}.{inner}": value for inner, value in table.texts(name).items()})
            else:
                results[name] = table.plain(name)
        return results

    def texts_in_order(self) -> list[tuple[str, str]]:
        """Return all keys with their strings; a key may have dots."""
        return [(key, self.required_text(key)) for key in self._values]

    def number(self, key: str, default: float) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"{value!r} is not a number")
        return float(value)

    def whole(self, key: str, default: int) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, f"{value!r} is not a whole number")
        return value

    def rows(self, key: str) -> list[Mapping[str, Any]]:
        """Return a list of tables as they are."""
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise self.wrong(key, f"it is not a list of tables; write {key} = [{{ column = value }}]")
        return value

    def list_of_tables(self, key: str) -> list[Table]:
        value = self._values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise self.wrong(key, f"it is not a list of tables; write [[{key}]]")
        return [Table(self.file, f"{key}[{number}]", each) for number, each in enumerate(value)]

    def table(self, key: str) -> Table:
        value = self._values.get(key, {})
        name = ".".join(part for part in (self._name, key) if part)
        if not isinstance(value, Mapping):
            raise self.wrong(key, f"{value!r} is not a table; write [{name}]")
        return Table(self.file, name, value)

    def tables(self) -> Iterator[tuple[str, Table]]:
        for key in self._values:
            yield key, self.table(key)
