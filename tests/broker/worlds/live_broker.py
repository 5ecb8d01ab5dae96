"""A broker in a process of its own for the tests that attack, crowd or starve it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.raw_broker import BrokerProcess

MEMORY = Path("/dev/shm")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """On a file system in memory where there is one: its syncs cost nothing."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="barnabas-test-", dir=place) as folder:
        yield Path(folder)


@contextmanager
def live_broker(*options: str, open_files: int | None = None) -> Iterator[BrokerProcess]:
    """Running; it has stopped cleanly, without a fault in its log, when this ends."""
    with quick_folder() as folder:
        broker = BrokerProcess(folder, *options, open_files=open_files)
        with broker:
            yield broker
            assert broker.is_running, broker.log.read_text("utf-8")[-2000:]
            assert broker.stop() == 0
        assert not broker.faults, "\n".join(broker.faults)
