"""Java .properties files, read and written as java.util.Properties does.

Contains the text format only; opening files is up to the caller.  Bytes are ISO-8859-1, as Apache Kafka reads
them; other characters are written as \\uXXXX.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

ENCODING = "iso-8859-1"
# A configuration file is small; a larger file is rejected before it is parsed.
LARGEST_FILE = 4 * 1024 * 1024

_BLANKS = " \t\f"
_SEPARATORS = "=:"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SECONDS_PER_DAY = 86_400


class PropertiesError(ValueError):
    """Not a valid .properties file; the text says where and why."""


def loads(data: bytes) -> dict[str, str]:
    """The keys and values of a file; the last value of a repeated key wins."""
    if len(data) > LARGEST_FILE:
        raise PropertiesError(f"the file has {len(data)} bytes, at most {LARGEST_FILE} are allowed")
    values = {}
    for number, line in _logical_lines(data.decode(ENCODING)):
        try:
            key, value = _split(line)
            values[_unescape(key)] = _unescape(value)
        except PropertiesError as error:
            raise PropertiesError(f"line {number}: {error}") from None
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank lines, continuations joined, each with the number of its first
    line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    joined, first = "", 0
    for number, line in enumerate(lines, 1):
        line = line.lstrip(_BLANKS)
        if not joined:
            if not line or line[0] in "#!":
                continue
            first = number
        if not _is_continued(line):
            yield first, joined + line
            joined = ""
        elif number < len(lines):
            joined += line[:-1]
        else:
            yield first, joined + line[:-1]


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line: the first unescaped blank, `=` or `:` ends the key."""
    end = 0
    while end < len(line) and line[end] not in _BLANKS and line[end] not in _SEPARATORS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    value = line[end:].lstrip(_BLANKS)
    if value[:1] and value[0] in _SEPARATORS:
        value = value[1:].lstrip(_BLANKS)
    return line[:end], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[position]
        position += 1
        if escaped == "u":
            out.append(_unicode(text[position : position + 4]))
            position += 4
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    return _join_surrogates("".join(out))


def _unicode(digits: str) -> str:
    try:
        if len(digits) != 4 or not digits.isalnum():
            raise ValueError(digits)
        return chr(int(digits, 16))
    except ValueError:
        # The digits may be any characters, a line break included: the message must stay on one line.
        shown = digits if digits.isprintable() else ascii(digits)[1:-1]
        raise PropertiesError(f"Malformed \\uxxxx encoding: \\u{shown}") from None


def _join_surrogates(text: str) -> str:
    """Java's strings hold UTF-16 code units; a surrogate pair is one character here."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def dumps(values: Mapping[str, str], comments: str | None = None, time_ms: int | None = None) -> bytes:
    """The file that Properties.store writes, in the given order; without a time there is no date line."""
    lines = []
    if comments is not None:
        lines.append(_comment(comments))
    if time_ms is not None:
        lines.append(f"#{format_date(time_ms)}")
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in values.items()]
    return "".join(f"{line}\n" for line in lines).encode(ENCODING)


def _comment(text: str) -> str:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    marked = [line if line[:1] and line[0] in "#!" else f"#{line}" for line in lines]
    first, others = f"#{lines[0]}", marked[1:]
    escaped = (
        "".join(character if ord(character) <= 0xFF else _units(character) for character in line)
        for line in (first, *others)
    )
    return "\n".join(escaped)


def _escape(text: str, *, is_key: bool) -> str:
    out = []
    for position, character in enumerate(text):
        if character in _ESCAPED:
            out.append(_ESCAPED[character])
        elif character in "=:#!" or (character == " " and (is_key or position == 0)):
            out.append("\\" + character)
        elif " " <= character <= "~":
            out.append(character)
        else:
            out.append(_units(character))
    return "".join(out)


def _units(character: str) -> str:
    digits = character.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{digits[start : start + 4]}" for start in range(0, len(digits), 4))


def format_date(time_ms: int) -> str:
    """`Date.toString` in UTC: `Sun Nov 15 07:36:20 UTC 2026`."""
    days, seconds = divmod(time_ms // 1000, _SECONDS_PER_DAY)
    year, month, day = _civil(days)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{_WEEKDAYS[(days + 3) % 7]} {_MONTHS[month - 1]} {day:02d} {clock} UTC {year}"


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970, using 400-year eras that begin in March."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
