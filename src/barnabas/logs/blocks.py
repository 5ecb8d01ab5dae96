"""Lines that say something only together, though none is indented: a record is a block of them.

journald's export, MySQL's slow queries, java.util.logging (a line for the class, one for the message), the
console of .NET, Samba, and the alert log of Oracle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from barnabas.logs.levels import level_of
from barnabas.logs.records import Record
from barnabas.logs.structured import of_values
from barnabas.logs.times import CTIME, HALVES, ISO, Times

LONGEST = 1_000  # Lines.


@dataclass(frozen=True, slots=True)
class Block:
    """A format whose records are blocks."""

    name: str
    # Whether a line begins a block, if these lines before it are in one.
    begins: Callable[[str, Sequence[str]], bool]
    # None: the lines are no block.
    read: Callable[[Sequence[str], Times], Record | None]

    def split(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The blocks; the first one may be the rest of one that began before."""
        block: list[str] = []
        for line in lines:
            if block and (self.begins(line, block) or len(block) >= LONGEST):
                yield block
                block = []
            block.append(line)
        if block:
            yield block


# journald's export: KEY=value, or KEY, then eight bytes with the length of the value, and the value.
# https://systemd.io/JOURNAL_EXPORT_FORMATS

_CURSOR, _REALTIME = "__CURSOR=", "__REALTIME_TIMESTAMP="
_FIELD = re.compile(r"([A-Z_][A-Z\d_]*)(?:=(.*))?", re.DOTALL)
_NEXT_FIELD = re.compile(r"(?:_[A-Z_]+|MESSAGE|PRIORITY|(?:SYSLOG|CODE|MESSAGE)_\w+)=")
_LENGTH = re.compile(r"([^\0]{0,3}?)(\0{4,8})")


def _begins_entry(line: str, block: Sequence[str]) -> bool:
    if line.startswith(_REALTIME):
        return not (block and block[-1].startswith(_CURSOR))
    return line.startswith(_CURSOR)


def _entry(lines: Sequence[str], times: Times) -> Record | None:
    values: dict[str, object] = {}
    name, text = "", ""
    for line in lines:
        if name and not (_is_whole(text) or _NEXT_FIELD.match(line)):
            text = f"{text}\n{line}" if text else line
            continue
        if name:
            values[name] = _LENGTH.sub("", text, count=1)
            name, text = "", ""
        field = _FIELD.fullmatch(line)
        if field is None:
            return None
        if field[2] is None:
            name = field[1]
        else:
            values[field[1]] = field[2]
    if name:
        values[name] = _LENGTH.sub("", text, count=1)
    return of_values(values, times, "journal", "\n".join(lines)) if values else None


def _is_whole(text: str) -> bool:
    """Whether a value has the length that stands before it, as far as decoded text shows that."""
    found = _LENGTH.match(text)
    if found is None:
        return False
    # Ten is a line's end, and blank lines are not seen here.
    head = found[1] or ("\n" if len(found[2]) == 7 else "")
    if len(head) + len(found[2]) != 8 or not head.isascii():
        return False
    length = int.from_bytes(head.encode(), "little")
    return len(text[found.end() :].encode()) >= length


# MySQL's slow queries

_SLOW_HEAD = "# User@Host: "
_SLOW_PAIR = re.compile(r"(\w+): (\S+)")
_SLOW_USER = re.compile(r"(\S+?)\[[^\]]*\] @ (\S*)")
_SET_TIME = re.compile(r"SET timestamp=(\d+)(?:\.\d+)?;", re.IGNORECASE)


def _begins_slow(line: str, block: Sequence[str]) -> bool:
    if line.startswith("# Time: "):
        return True
    return line.startswith(_SLOW_HEAD) and (not block or not block[-1].startswith("# Time: "))


def _slow(lines: Sequence[str], times: Times) -> Record | None:
    time, fields, statement = None, dict[str, object](), list[str]()
    for line in lines:
        if line.startswith("# Time: "):
            time = times.iso(line[8:].strip())
        elif line.startswith("#"):
            if (user := _SLOW_USER.search(line)) is not None:
                fields.update(user=user[1], client=user[2])
            fields.update((name.lower(), value) for name, value in _SLOW_PAIR.findall(line))
        elif (found := _SET_TIME.fullmatch(line)) is not None:
            time = time or times.iso(found[1])
        elif line.lower().startswith("use ") and not statement:
            fields["database"] = line[4:].rstrip(";")
        else:
            statement.append(line)
    if not statement or not lines[0].startswith("# "):
        return None
    return Record(time, None, None, "\n".join(statement), "mysql-slow", fields)


# A line that says when and where, and then the message


def _headed(name: str, head: str, message: str = r"\s*(?P<message>.*)") -> Block:
    """Blocks of a line that fits `head` and of one that fits `message`; further lines are a trace."""
    first, second = re.compile(head), re.compile(message, re.DOTALL)

    def begins(line: str, block: Sequence[str]) -> bool:
        return first.fullmatch(line) is not None

    def read(lines: Sequence[str], times: Times) -> Record | None:
        start = first.fullmatch(lines[0])
        rest = [line for line in lines[1:] if not line.lstrip().startswith("=> ")]  # Scopes of .NET.
        said = second.fullmatch(rest[0]) if rest else None
        if start is None or said is None:
            return None
        fields: dict[str, object] = {**start.groupdict(), **said.groupdict()}
        fields = {key: value for key, value in fields.items() if value is not None}
        time, level, service = (fields.pop(key, None) for key in ("time", "level", "service"))
        text = str(fields.pop("message"))
        settled = times.iso(str(time)) if time else None
        if len(rest) > 1:
            fields["trace"] = "\n".join(rest[1:])
        return Record(
            settled,
            level_of(str(level)) if level else None,
            None if service is None else str(service),
            text,
            name,
            fields,
        )

    return Block(name, begins, read)


BLOCKS = (
    Block("journal", _begins_entry, _entry),
    Block("mysql-slow", _begins_slow, _slow),
    _headed(
        "java",
        rf"(?P<time>{HALVES}|{ISO}) (?P<service>[\w$]+(?:\.[\w$]+)+) (?P<function>[\w$<>]+)",
        r"(?P<level>[A-Z]{4,7}): (?P<message>.*)",
    ),
    _headed(
        "dotnet",
        rf"(?:(?P<time>{ISO}) )?(?P<level>trce|dbug|info|warn|fail|crit): (?P<service>[\w.`+<>,-]+)"
        r"\[(?P<event>-?\d+)\]",
    ),
    _headed(
        "samba", rf"\[(?P<time>{ISO}), *(?P<rank>\d+)(?:,[^\]]*)?\] (?P<source>\S+:\d+)\((?P<function>\w+)\)"
    ),
    _headed("oracle", rf"(?P<time>{ISO}|{CTIME})"),
)
