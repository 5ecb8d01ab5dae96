"""A broker for the friendly commands: barnabas in a separate process, or the one that
`BARNABAS_FRIENDLY_BOOTSTRAP` names.

`make verify` uses this to run the same tests against Apache Kafka; those that inspect the process itself are
excluded.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from barnabas.cli.friendly.framework import BOOTSTRAP_VARIABLE
from tools.raw_broker import BrokerProcess

# ACLs apply to the resources they name; everything else is allowed, so that one broker serves all tests.
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.min.session.timeout.ms": "1000",
}
ELSEWHERE_VARIABLE = "BARNABAS_FRIENDLY_BOOTSTRAP"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if ELSEWHERE_VARIABLE in os.environ:
        pytest.skip("this test looks at our broker's process")
    overrides = [word for name, value in SETTINGS.items() for word in ("--override", f"{name}={value}")]
    with BrokerProcess(tmp_path_factory.mktemp("friendly"), *overrides) as broker:
        yield broker


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    given = os.environ.get(ELSEWHERE_VARIABLE)
    if given is not None:
        return given
    broker: BrokerProcess = request.getfixturevalue("broker")
    return f"{broker.address[0]}:{broker.address[1]}"


@pytest.fixture(autouse=True)
def _is_default(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, bootstrap)


@pytest.fixture
def fresh_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """A unique name."""

    def name() -> str:
        return f"{request.node.originalname.replace('test_', '')[:40]}-{os.getpid()}-{next(_numbers)}"

    return name


@pytest.fixture
def topic(fresh_name: Callable[[], str]) -> str:
    return fresh_name()


@pytest.fixture
def group(fresh_name: Callable[[], str]) -> str:
    return fresh_name()
