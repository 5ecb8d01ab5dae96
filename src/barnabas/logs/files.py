"""Files of log lines: what they hold, as records with templates."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedReader, FileIO, TextIOWrapper
from itertools import islice
from typing import Any, TextIO

from barnabas.logs.known import NOTHING_KNOWN, Known
from barnabas.logs.reader import SAMPLE, Reader
from barnabas.logs.records import UNKNOWN, Record
from barnabas.logs.templates import Templates

LONGEST_LINE = 1 << 20  # Longer lines are read in parts.
CHUNK = 100_000  # Records whose templates are learned together.
STANDARD_INPUT = "-"
_FIRST = 8192
_JOURNAL = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=")  # journald's export gives lengths as bytes.
_COMPRESSED: dict[bytes, Callable[[BufferedReader], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}


class NotALogError(ValueError):
    """The file does not hold lines of text."""


@dataclass(slots=True)
class Tally:
    """What the lines of a file were."""

    formats: Counter[str] = field(default_factory=Counter)
    first_unknown: str | None = None

    def add(self, record: Record) -> None:
        self.formats[record.format] += 1
        if record.format == UNKNOWN and self.first_unknown is None:
            self.first_unknown = record.message

    @property
    def total(self) -> int:
        return self.formats.total()

    @property
    def unknown(self) -> int:
        return self.formats[UNKNOWN]

    @property
    def mostly_unknown(self) -> bool:
        return self.unknown * 2 > self.total


def read_records(path: str, known: Known = NOTHING_KNOWN) -> Iterator[Record]:
    """The records of a file, perhaps compressed, or of the standard input (`-`).  Times without a year are
    settled by its last change."""
    with ExitStack() as stack:
        # Zero is the descriptor of the standard input.
        raw = FileIO(0, closefd=False) if path == STANDARD_INPUT else FileIO(path)
        file: BufferedReader = BufferedReader(stack.enter_context(raw))
        arrival = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
        try:
            unpacked = stack.enter_context(_unpacked(file))
            text = stack.enter_context(_text(unpacked))
            yield from Reader(arrival, known, known.format_of(path)).records(_lines(text))
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
            raise NotALogError(f"cannot be unpacked: {error}") from error


def _unpacked(file: BufferedReader) -> AbstractContextManager[BufferedReader]:
    first = file.peek(_FIRST)
    for magic, opened in _COMPRESSED.items():
        if first.startswith(magic):
            return closing(BufferedReader(opened(file)))
    return nullcontext(file)


def _text(file: BufferedReader) -> TextIOWrapper:
    first = file.peek(_FIRST)[:_FIRST]
    if not first:
        raise NotALogError("is empty")
    encoding = "utf-16" if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    if b"\0" in first and encoding != "utf-16" and not first.startswith(_JOURNAL):
        raise NotALogError("is binary, not lines of text")
    return TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")


def _lines(text: TextIO) -> Iterator[str]:
    """The lines without their ends; a line longer than LONGEST_LINE in parts."""
    rest = ""
    while block := text.read(LONGEST_LINE):
        *whole, rest = (rest + block).split("\n")
        for line in whole:
            yield line[:-1] if line.endswith("\r") else line
        if len(rest) >= LONGEST_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest.rstrip("\r")


def detect(path: str, known: Known = NOTHING_KNOWN) -> Tally:
    """The formats of the first lines of a file."""
    tally = Tally()
    for record in islice(read_records(path, known), SAMPLE):
        tally.add(record)
    return tally


def parse(path: str, tally: Tally, known: Known = NOTHING_KNOWN) -> Iterator[tuple[Record, str]]:
    """The records of a file with their templates; `tally` counts them.

    The templates of a record are learned from it, from all before it and from those of its chunk after it.
    """
    records = read_records(path, known)
    templates = Templates()
    while chunk := list(islice(records, CHUNK)):
        shapes = templates.learn([record.message for record in chunk])
        for record, shape in zip(chunk, shapes, strict=True):
            tally.add(record)
            yield record, templates.template(shape)
