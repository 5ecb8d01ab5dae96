"""The output of the friendly commands: `-o table|wide|json|jsonl|yaml|name`.

A command provides rows of JSON-compatible data and declares the columns of a table; everything else follows.
Rows are printed as they arrive, so that the output of an endless command can be piped.

    printer = Printer(options.output, COLUMNS, name="topic")
    for row in rows:
        printer.row(row)
    printer.end()
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

from barnabas.cli.framework.exits import one_line
from barnabas.cli.framework.text.terminal import GAP, folded, tell, terminal_width
from barnabas.cli.friendly.yaml_text import yaml_item

Row = Mapping[str, object]

# A table truncates longer cells; `wide` does not.
MAX_CELL = 80
# The rows that determine the column widths of a table; later ones may be wider.
ROWS_AHEAD = 1_000
NOTHING = "-"
# The width below which a text is not cut, even if the table then is wider than the terminal.
LEAST_CELL = 8


class Output(StrEnum):
    """The formats of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    JSONL = "jsonl"
    YAML = "yaml"
    NAME = "name"


FORMATS = tuple(output.value for output in Output)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: the field that it shows, and how."""

    field: str
    is_number: bool = False
    # Only with `-o wide`.
    is_wide: bool = False
    show: Callable[[object], str] | None = None
    title: str = ""
    # Not cut where the table is wider than the terminal: half a time is none.
    is_whole: bool = False
    # The field to show instead, prefixed with its name, if the first is None.
    other: str = ""

    @property
    def heading(self) -> str:
        return self.title or self.field.replace("_", " ").upper()

    def cell(self, row: Row) -> str:
        value = row.get(self.field)
        if value is None and row.get(self.other) is not None:
            return f"{self.other.rpartition('_')[2]}:{row[self.other]}"
        if value is None:
            return NOTHING
        return one_line(self.show(value) if self.show is not None else plain(value))


def plain(value: object) -> str:
    """A value as a table cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(plain, value)) or NOTHING
    if isinstance(value, Mapping):
        return ",".join(f"{key}={plain(item)}" for key, item in value.items()) or NOTHING
    return str(value) or NOTHING


class Printer:
    """Prints rows in the requested format."""

    def __init__(
        self,
        output: str,
        columns: Sequence[Column],
        *,
        name: str | Callable[[Row], str],
        stream: TextIO | None = None,
        is_endless: bool = False,
        empty: str = "",
    ) -> None:
        self._output = Output(output)
        # Said on stderr if there are no rows, so that nobody takes an empty result for a hanging command.
        self._empty = empty
        is_wide = self._output is Output.WIDE
        self._columns = [column for column in columns if is_wide or not column.is_wide]
        self._name = name
        self._stream = sys.stdout if stream is None else stream
        # JSON escapes what the stream cannot encode: an escape of the terminal's would not be valid JSON.
        self._is_ascii = not is_unicode(self._stream)
        self._count = 0
        # The cells of the first rows of a table, until the widths are known; an endless command prints each
        # row at once.
        self._ahead: list[list[str]] | None = []
        self._rows_ahead = 1 if is_endless else ROWS_AHEAD
        self._widths: list[int] = []
        # The widest cells that fit, on a terminal.
        self._limits: list[int] | None = None

    def row(self, row: Row) -> None:
        write = self._stream.write
        self._count += 1
        match self._output:
            case Output.TABLE | Output.WIDE:
                self._table_row([self._cut(column.cell(row)) for column in self._columns])
            case Output.JSON:
                write("[\n" if self._count == 1 else ",\n")
                write(_indented(json.dumps(row, indent=2, ensure_ascii=self._is_ascii)))
            case Output.JSONL:
                write(json.dumps(row, ensure_ascii=self._is_ascii, separators=(", ", ": ")) + "\n")
            case Output.YAML:
                write(yaml_item(row))
            case Output.NAME:
                name = self._name
                write(one_line(str(row[name]) if isinstance(name, str) else name(row)) + "\n")

    def all(self, rows: Iterable[Row]) -> int:
        """Prints rows and finishes; returns the number of rows."""
        for row in rows:
            self.row(row)
        self.end()
        return self._count

    def end(self) -> None:
        """Prints what is still buffered, and closes the format."""
        if self._output is Output.JSON:
            self._stream.write("[]\n" if self._count == 0 else "\n]\n")
        elif self._output is Output.YAML and self._count == 0:
            self._stream.write("[]\n")
        elif self._ahead:
            self._print_buffered()
        if self._count == 0 and self._empty:
            tell(self._empty)

    def flush(self) -> None:
        """Prints and flushes all rows so far."""
        if self._ahead:
            self._print_buffered()
        self._stream.flush()

    # Tables ----------------------------------------------------------------------------------------------

    def _cut(self, cell: str) -> str:
        if self._output is Output.WIDE or len(cell) <= MAX_CELL:
            return cell
        return cut(cell, MAX_CELL)

    def _table_row(self, cells: list[str]) -> None:
        if self._ahead is None:
            self._line(cells)
            return
        self._ahead.append(cells)
        if len(self._ahead) >= self._rows_ahead:
            self._print_buffered()

    def _print_buffered(self) -> None:
        """Determines the column widths from the first rows, and prints them."""
        rows = self._ahead or []
        self._ahead = None
        headings = [column.heading for column in self._columns]
        widths = [max(len(row[number]) for row in [headings, *rows]) for number in range(len(headings))]
        self._widths = self._fitting(widths)
        self._line(headings, Style.BOLD)
        for row in rows:
            self._line(row)

    def _fitting(self, widths: list[int]) -> list[int]:
        """On a terminal a table is as wide as it at most: the widest texts are cut, numbers are not."""
        if self._output is Output.WIDE or not self._stream.isatty():
            return widths
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - terminal_width()
        shrinkable = [
            number for number, column in enumerate(self._columns) if not (column.is_number or column.is_whole)
        ]
        while excess > 0 and shrinkable:
            widest = max(shrinkable, key=lambda number: widths[number])
            if widths[widest] <= LEAST_CELL:
                break
            widths[widest] -= 1
            excess -= 1
        self._limits = list(widths)
        return widths

    def _line(self, cells: Sequence[str], style: Style | None = None) -> None:
        if self._limits is not None:
            cells = [cut(cell, limit) for cell, limit in zip(cells, self._limits, strict=True)]
        parts = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(cells, self._widths, self._columns, strict=True)
        ]
        text = GAP.join(parts).rstrip()
        self._stream.write((styled(text, style, self._stream) if style else text) + "\n")


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream can take any character."""
    encoding = (stream.encoding or "utf-8").lower().replace("_", "-")
    return encoding in ("utf-8", "utf8", "utf-8-sig", "utf-16", "utf-32")


def cut(cell: str, limit: int) -> str:
    return cell if len(cell) <= limit else cell[: limit - 1] + "…"


def print_headline(title: str, colour: Style, text: str) -> None:
    """A title in colour, and a text beside it."""
    lines = folded(text, title + GAP, sys.stdout)
    print(styled(title, colour, sys.stdout) + lines.removeprefix(title))


def count_of(number: int, what: str) -> str:
    """`1 topic`, `2 topics`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def check_reader(stream: TextIO) -> None:
    """Raises BrokenPipeError if whoever read the output has gone (`| head`): a command that waits for new
    rows would otherwise notice only when it prints the next one."""
    if not hasattr(select, "poll"):
        return
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):  # It has no descriptor.
        return
    watch = select.poll()
    watch.register(descriptor, 0)
    if any(events & select.POLLERR for _, events in watch.poll(0)):
        raise BrokenPipeError


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


# Colours ----------------------------------------------------------------------------------------------------


class Style(StrEnum):
    """ANSI codes."""

    BOLD = "1"
    RED = "31"
    GREEN = "32"
    YELLOW = "33"


def has_colours(stream: TextIO) -> bool:
    """On terminals with colours, unless NO_COLOR is set (https://no-color.org)."""
    is_allowed = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return is_allowed and stream.isatty()


def styled(text: str, style: Style, stream: TextIO) -> str:
    return f"\x1b[{style.value}m{text}\x1b[0m" if has_colours(stream) else text
