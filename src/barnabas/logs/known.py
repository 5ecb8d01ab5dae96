"""What is known of lines of one's own, beside the tables: formats, names of fields, formats of sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from barnabas.logs.formats import Format
from barnabas.logs.levels import level_of
from barnabas.logs.records import Record
from barnabas.logs.structured import Names
from barnabas.logs.times import Times

if TYPE_CHECKING:
    import pyarrow as pa

_PARTS = ("time", "level", "service", "message")


class FormatFunctionError(ValueError):
    """A format's function failed, or returned something else than lines."""


@dataclass(frozen=True, slots=True)
class Function:
    """A format that a function reads: of a batch with the column `value`, a batch of as many rows with the
    column `message` and, where there is something to say, `time`, `level`, `service` and others, which become
    fields.  A row without a message is none of this format."""

    name: str
    call: Callable[[pa.RecordBatch], Any]

    def read(self, lines: Sequence[str], times: Times) -> list[Record | None]:
        import pyarrow as pa

        batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])
        try:
            found = self.call(batch)
            columns = {name: found.column(name).to_pylist() for name in found.schema.names}
        except Exception as error:
            raise FormatFunctionError(f"the format {self.name}: {type(error).__name__}: {error}") from error
        if "message" not in columns or any(len(column) != len(lines) for column in columns.values()):
            raise FormatFunctionError(
                f"the format {self.name}: its function must return a column `message`, and {len(lines)} rows "
                f"for so many lines; it returned {found.num_rows} rows with {', '.join(columns)}"
            )
        return [self._record(columns, row, times) for row in range(len(lines))]

    def _record(self, columns: dict[str, list[Any]], row: int, times: Times) -> Record | None:
        message = columns["message"][row]
        if message is None:
            return None
        time, level, service = (columns[part][row] if part in columns else None for part in _PARTS[:3])
        fields = {
            name: column[row]
            for name, column in columns.items()
            if name not in _PARTS and column[row] is not None
        }
        return Record(
            time.isoformat().replace("+00:00", "Z")
            if isinstance(time, datetime)
            else times.iso(str(time))
            if time is not None
            else None,
            level_of(str(level)) if level is not None else None,
            None if service is None else str(service),
            str(message),
            self.name,
            fields,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """Formats are tried before those of the table, and names of fields before the usual ones."""

    formats: tuple[Format, ...] = ()
    functions: tuple[Function, ...] = ()
    names: Names = field(default_factory=Names)
    # The format of a source, by a pattern for its name.
    sources: tuple[tuple[str, str], ...] = ()

    def format_of(self, source: str) -> str | None:
        return next((name for pattern, name in self.sources if fnmatchcase(source, pattern)), None)


NOTHING_KNOWN = Known()
