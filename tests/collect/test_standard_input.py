"""Lines of a pipe."""

from __future__ import annotations

import asyncio
import os

from barnabas.collect.standard_input import StandardInput


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
