"""A broker of the collectors' own, which tests may stop and start again."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tools.ports import free_ports
from tools.raw_broker import BrokerProcess

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def _process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    (port,) = map(str, free_ports(1))
    with BrokerProcess(tmp_path_factory.mktemp("collect"), "--port", port) as process:
        yield process


@pytest.fixture
def broker(_process: BrokerProcess) -> BrokerProcess:
    """It runs, whatever the test before did with it."""
    if not _process.is_running:
        _process.start()
    return _process


@pytest.fixture
def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.address[0]}:{broker.address[1]}"


@pytest.fixture
def topic() -> str:
    return f"collected-{os.getpid()}-{next(_numbers)}"
