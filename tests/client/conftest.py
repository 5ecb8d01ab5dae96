"""What the client's tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

TIMEOUT_S = 180


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Run a coroutine to its end, within a time limit."""

    def run_in_time(work: Coroutine[Any, Any, Any]) -> Any:
        async def in_time() -> Any:
            async with asyncio.timeout(TIMEOUT_S):
                return await work

        return asyncio.run(in_time())

    return run_in_time
