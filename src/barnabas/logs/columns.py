"""Lines in columns that a line before them names: W3C's extended format (IIS, CloudFront), Zeek."""

from __future__ import annotations

import re

from barnabas.logs.levels import level_of_status
from barnabas.logs.records import Record
from barnabas.logs.times import Times

COLUMNS = "w3c"
_DIRECTIVE = re.compile(
    r"#(Software|Version|Date|Fields|Start-Date|End-Date|GMT-Offset|Remark|separator|set_separator"
    r"|empty_field|unset_field|path|open|close|fields|types)\b[:\s]\s*(.*)"
)
_STATUS, _METHOD, _PATH, _QUERY = "sc-status", "cs-method", "cs-uri-stem", "cs-uri-query"


class Columns:
    """Remembers the names of the columns."""

    def __init__(self, times: Times) -> None:
        self._times = times
        self._names: list[str] = []
        self._separator: str | None = None  # White space.

    def read(self, line: str) -> Record | None:
        """None if no line before has named so many columns.  The lines that name them are records, too."""
        if line.startswith("#"):
            found = _DIRECTIVE.match(line)
            if found is None:
                return None
            if found[1] in ("Fields", "fields"):
                self._names = found[2].split()
                self._separator = "\t" if found[1] == "fields" else None
            return Record(None, None, None, line, COLUMNS)
        if not self._names:
            return None
        values = line.split(self._separator)
        if len(values) != len(self._names):
            # An empty column, or one with spaces: tabs part them then.
            values = line.split("\t")
        if len(values) != len(self._names):
            return None
        return self._record(line, dict(zip(self._names, values, strict=True)))

    def _record(self, line: str, values: dict[str, str]) -> Record | None:
        date, clock = values.pop("date", None), values.pop("time", None)
        stamp = values.pop("ts", None) or " ".join(part for part in (date, clock) if part)
        time = self._times.iso(stamp)
        if time is None:
            return None
        fields: dict[str, object] = {name: value for name, value in values.items() if value != "-"}
        status, level = fields.get(_STATUS), None
        if isinstance(status, str) and len(status) == 3 and status.isdecimal():
            fields["status"], level = status, level_of_status(status)
        message = line[len(stamp) :].strip() if line.startswith(stamp) else line
        if _METHOD in fields and _PATH in fields:
            query = f"?{fields[_QUERY]}" if _QUERY in fields else ""
            message = f"{fields[_METHOD]} {fields[_PATH]}{query}"
        return Record(time, level, None, message, COLUMNS, fields)
