"""Lines of a pipe."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from barnabas.collect.standard_input import CHUNK_BYTES, StandardInput

PATIENCE_S = 60


def test_an_incomplete_line_is_returned_on_stop() -> None:
    readable, writable = os.pipe()

    async def run() -> list[bytes]:
        source = StandardInput(readable)
        results: list[bytes] = []
        os.write(writable, b"whole\nhalf")
        async for some in source.read():
            results += some.lines
            source.stop()
        return results

    try:
        assert asyncio.run(run()) == [b"whole", b"half"]
    finally:
        os.close(readable)
        os.close(writable)


def lines_of(descriptor: int) -> list[bytes]:
    async def run() -> list[bytes]:
        async with asyncio.timeout(PATIENCE_S):
            return [line async for found in StandardInput(descriptor).read() for line in found.lines]

    return asyncio.run(run())


@pytest.mark.parametrize("text", [b"", b"one\n", b"one\ntwo", b"x" * 100_000 + b"\ntwo\n"])
def test_the_end_of_a_file_ends_the_reading(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "input").write_bytes(text)
    with (tmp_path / "input").open("rb") as file:
        assert lines_of(file.fileno()) == text.splitlines()


def test_the_end_of_a_pipe_ends_the_reading() -> None:
    readable, writable = os.pipe()
    os.write(writable, b"one\ntwo\nthree")
    os.close(writable)
    try:
        assert lines_of(readable) == [b"one", b"two", b"three"]
    finally:
        os.close(readable)


def test_positions_count_lines() -> None:
    readable, writable = os.pipe()

    async def run() -> list[tuple[str, int]]:
        found = []
        os.write(writable, b"one\ntwo\n")
        async for some in StandardInput(readable).read():
            found.append((some.origin, some.position))
            if len(found) == 1:
                os.write(writable, b"three\n")
                os.close(writable)
        return found

    try:
        assert asyncio.run(run()) == [("stdin", 2), ("stdin", 3)]
    finally:
        os.close(readable)


def test_a_long_file_can_be_stopped(tmp_path: Path) -> None:
    """Other tasks, such as the one that handles a signal, run between chunks."""
    (tmp_path / "input").write_bytes(b"x\n" * 20 * CHUNK_BYTES)

    async def run(descriptor: int) -> int:
        source = StandardInput(descriptor)
        asyncio.get_running_loop().call_soon(source.stop)
        return sum([len(found.lines) async for found in source.read()])

    with (tmp_path / "input").open("rb") as file:
        assert 0 < asyncio.run(run(file.fileno())) < 20 * CHUNK_BYTES
