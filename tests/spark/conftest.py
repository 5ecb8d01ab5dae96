"""One Spark session and one broker for all tests of the Spark side: a second JVM would cost ten seconds.

With several test processes, all of these run in the same one (tests/conftest.py).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.clients.conftest import start_dev
from tests.spark.java import QUICK_START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
# Each partition of a shuffle is a task and a state store in every batch.  And what writes checkpoints by
# default starts processes for every file (`readlink`).  Checks in tests/verify that make a session of their
# own, all that kill and restart among them, run with the default.
FEW_ROWS: dict[str, Any] = {
    "spark.sql.shuffle.partitions": 1,
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def pytest_itemcollected(item: pytest.Item) -> None:
    """PySpark leaves sockets to the garbage collector."""
    item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
    item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from barnabas.spark import session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUICK_START.items():
            patch.setenv(name, value)
        made = session("tests", "local[2]", **FEW_ROWS)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def broker_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the broker has its files; its logs are in `data/data`."""
    return tmp_path_factory.mktemp("spark-broker")


@pytest.fixture(scope="session")
def bootstrap(broker_folder: Path) -> Iterator[str]:
    """Where the broker is."""
    process, place = start_dev(broker_folder)
    yield place
    process.terminate()
    assert process.wait(300) == 0
    assert process.stdout is not None
    process.stdout.close()
    # A fault on the server's side fails the tests even if no client noticed.
    faults = [
        line for line in (broker_folder / "stderr.txt").read_text("utf-8").splitlines() if " ERROR " in line
    ]
    assert not faults, "\n".join(faults)


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """An unused topic name."""

    def name() -> str:
        return f"{request.node.originalname.replace('test_', '')[:60]}-{os.getpid()}-{next(_numbers)}"

    return name


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    return fresh_name()
