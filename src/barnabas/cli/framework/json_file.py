"""Reads JSON files, and checks them field by field, so that each mistake gets a precise message."""

from __future__ import annotations

import json
from typing import Any

from barnabas.cli.framework.exits import CommandError, Exit, UsageError

MAX_FILE_BYTES = 64 * 1024 * 1024


def read_json_file(path: str, fault: str) -> Any:
    """The contents of a file; `fault` is the error message if it is not JSON."""
    from barnabas.runtime.disk.folder_disk import FolderDisk

    disk = FolderDisk()
    try:
        if disk.size(path) > MAX_FILE_BYTES:
            raise CommandError(f"{path} has more than {MAX_FILE_BYTES} bytes")
        text = disk.read_bytes(path)
    except OSError as error:
        code = Exit.NOT_FOUND if isinstance(error, FileNotFoundError) else Exit.FAILED
        raise CommandError(f"Unable to read file {path}", code) from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{fault} ({path}: {error})") from error


def check_version(data: Any, path: str) -> None:
    """Only version 1 of each format is supported; the field is optional."""
    version = field(data, "version", int, path, default=1)
    if version != 1:
        raise UsageError(f"Not supported version field value {version}")


def field(data: Any, name: str, kind: type, path: str, default: Any = None) -> Any:
    """One field of an object; required unless there is a default."""
    if not isinstance(data, dict):
        raise UsageError(
            f"{path}: an object with the field {name!r} is expected, not {json.dumps(data)[:60]}"
        )
    value = data.get(name, default)
    if value is None:
        raise UsageError(f"{path}: the field {name!r} is missing in {json.dumps(data)[:80]}")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{path}: the field {name!r} has the wrong type in {json.dumps(data)[:80]}")
    return value


def items(data: Any, name: str, kind: type, path: str) -> list[Any]:
    """A field that is a list of values of one type."""
    values: list[Any] = field(data, name, list, path)
    if not all(isinstance(value, kind) for value in values):
        raise UsageError(f"{path}: the list {name!r} has an element of the wrong type")
    return values
