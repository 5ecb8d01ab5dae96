"""A broker for the client's tests: ours, in a process of its own, or whichever `BARNABAS_CLIENT_BOOTSTRAP`
names.

`make verify` runs the same tests against Apache Kafka that way.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tools.raw_broker import BrokerProcess

BOOTSTRAP_VARIABLE = "BARNABAS_CLIENT_BOOTSTRAP"
# Groups settle by heartbeats, so frequent heartbeats make tests of groups faster.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.min.session.timeout.ms": "1000",
}
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker is."""
    given = os.environ.get(BOOTSTRAP_VARIABLE)
    if given is not None:
        yield given
        return
    overrides = [word for name, value in SETTINGS.items() for word in ("--override", f"{name}={value}")]
    broker = BrokerProcess(tmp_path_factory.mktemp("client"), *overrides)
    with broker:
        yield f"{broker.address[0]}:{broker.address[1]}"
    # A fault of the server fails the tests even if the client did not notice it.
    assert not broker.faults, "\n".join(broker.faults)


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """An unused name."""

    def name() -> str:
        return f"{request.node.originalname.replace('test_', '')[:50]}-{os.getpid()}-{next(_numbers)}"

    return name


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    return fresh_name()


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    return fresh_name()
