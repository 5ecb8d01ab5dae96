"""Lines to records, with keys, headers and nulls as set by `console-producer --property`.

The counterpart of Apache Kafka's LineMessageReader.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from barnabas.cli.framework.exits import CommandError, UsageError

# Bounds the memory for a line; brokers accept far smaller records.
MAX_LINE_CHARACTERS = 1 << 28


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """The record of one line."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class LineReader:
    """Reads one record per line."""

    def __init__(self, properties: Mapping[str, str], program: str) -> None:
        self._program = program
        self._parse_key = is_true(properties.get("parse.key"))
        self._parse_headers = is_true(properties.get("parse.headers"))
        self._ignore_error = is_true(properties.get("ignore.error"))
        self._null: str | None = properties.get("null.marker")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._headers_key_separator = properties.get("headers.key.separator", ":")
        self._check()
        try:
            self._between_headers = re.compile(self._headers_separator)
        except re.error as error:
            raise UsageError(
                f"{program}: headers.separator={self._headers_separator} is not a regular expression: {error}"
            ) from error
        self._line_number = 0

    def _check(self) -> None:
        """Equal separators would make lines ambiguous."""
        key = ("key.separator", self._key_separator)
        separator = ("headers.separator", self._headers_separator)
        delimiter = ("headers.delimiter", self._headers_delimiter)
        header_key = ("headers.key.separator", self._headers_key_separator)
        null = ("null.marker", self._null)
        for first, second in (
            (delimiter, separator),
            (delimiter, header_key),
            (separator, header_key),
            (null, key),
            (null, separator),
            (null, delimiter),
            (null, header_key),
        ):
            if first[1] == second[1]:
                raise UsageError(f"{self._program}: {first[0]} and {second[0]} must differ")
        for name, text in (key, separator, delimiter, header_key):
            if not text:
                raise UsageError(f"{self._program}: {name} must not be empty")

    def records(self, source: BinaryIO, prompt: BinaryIO | None = None) -> Iterator[ReadRecord]:
        """Yields a record for each line until the input ends; writes `>` to `prompt` before each line."""
        # Bytes that are not UTF-8 pass through unchanged.  As in Java, a line ends with \n, \r or both.
        text = io.TextIOWrapper(source, encoding="utf-8", errors="surrogateescape", newline=None)
        try:
            while True:
                self._line_number += 1
                if prompt is not None:
                    prompt.write(b">")
                    prompt.flush()
                line = text.readline(MAX_LINE_CHARACTERS)
                if not line:
                    return
                if len(line) == MAX_LINE_CHARACTERS:
                    raise self._refused(f"line number {self._line_number} is too long")
                yield self.parse(line.removesuffix("\n"))
        finally:
            text.detach()

    def parse(self, line: str) -> ReadRecord:
        headers = self._before(self._parse_headers, line, 0, self._headers_delimiter, "headers delimiter")
        start = 0 if headers is None else len(headers) + len(self._headers_delimiter)
        key = self._before(self._parse_key, line, start, self._key_separator, "key separator")
        start += 0 if key is None else len(key) + len(self._key_separator)
        is_listed = headers is not None and headers != self._null
        return ReadRecord(
            self._bytes(key), self._bytes(line[start:]), self._headers(headers or "") if is_listed else ()
        )

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "surrogateescape")

    def _before(self, is_wanted: bool, line: str, start: int, separator: str, name: str) -> str | None:
        if not is_wanted:
            return None
        end = line.find(separator, start)
        if end >= 0:
            return line[start:end]
        if self._ignore_error:
            return None
        raise self._refused(f"No {name} found on line number {self._line_number}: '{line}'", may_ignore=True)

    def _headers(self, text: str) -> tuple[tuple[str, bytes | None], ...]:
        pairs = self._between_headers.split(text)
        while len(pairs) > 1 and not pairs[-1]:
            # Java's split drops trailing empty strings.
            pairs.pop()
        return tuple(self._header(pair) for pair in pairs)

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, separator, value = pair.partition(self._headers_key_separator)
        if not separator:
            if self._ignore_error:
                return pair, None
            raise self._refused(
                f"No header key separator found in pair '{pair}' on line number {self._line_number}",
                may_ignore=True,
            )
        if key == self._null:
            raise self._refused(
                f"Header keys should not be equal to the null marker '{self._null}' as they can't be null"
            )
        return key, self._bytes(value)

    def _refused(self, message: str, *, may_ignore: bool = False) -> CommandError:
        advice = " (with ignore.error=true such a line is sent unchanged)" if may_ignore else ""
        return CommandError(f"{self._program}: {message}{advice}")


def is_true(text: str | None) -> bool:
    return text is not None and text.strip().lower() == "true"
