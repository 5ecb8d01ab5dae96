"""The pytest plugin: the fixtures `kafka`, `cluster` and `clock`, and those with coroutines.

It imports no broker until one is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from barnabas.testing.kit.asynchronous import AsyncCluster, AsyncKafka
    from barnabas.testing.kit.clock import ClusterClock
    from barnabas.testing.kit.cluster import Cluster
    from barnabas.testing.kit.shared import Kafka
    from barnabas.testing.kit.topics.topics import Topics

BOOTSTRAP_OPTION = "--barnabas-bootstrap"
KEEP_OPTION = "--barnabas-keep"
# What a test has touched, for the report of its failure.
TOUCHED = pytest.StashKey["list[Topics]"]()


class PlainFinder:
    """Finds this package's modules as Python does.

    pytest rewrites the assertions of every package that has a plugin, which means that it compiles all of its
    modules.  Nobody looks at the assertions of a broker, and its thread imports modules while the test's
    thread does: Python 3.11 may fail when both compile at once.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("barnabas.") else None


sys.meta_path.insert(0, PlainFinder)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("barnabas")
    group.addoption(
        BOOTSTRAP_OPTION,
        metavar="HOST:PORT",
        help="let the fixture kafka use this cluster instead of a broker in this process",
    )
    group.addoption(
        KEEP_OPTION,
        metavar="FOLDER",
        help="keep the topics and groups of the tests, and the files of the brokers in this folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'barnabas(brokers=1, mode="kraft", controllers=1, options={}, folder=None): the cluster of the'
        ' fixture cluster, for this test alone; the other mode is "zookeeper"',
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test tells what became of the topics and groups that it touched."""
    report = yield
    touched = item.stash.get(TOUCHED, None)
    if touched and report.failed and call.when == "call":
        from barnabas.testing.kit.diagnosis.report import report_of

        for topics in touched:
            report.sections.append(("barnabas", report_of(topics)))
    return report


def _touch(request: pytest.FixtureRequest, topics: Topics) -> None:
    request.node.stash.setdefault(TOUCHED, []).append(topics)


@pytest.fixture(scope="session")
def _barnabas_session(request: pytest.FixtureRequest) -> Iterator[Topics]:
    """What all tests of this process share: the cluster of the option, or a broker here."""
    from barnabas.testing.kit.shared import shared_topics

    with shared_topics(
        request.config.getoption(BOOTSTRAP_OPTION), request.config.getoption(KEEP_OPTION)
    ) as topics:
        yield topics


@pytest.fixture
def kafka(_barnabas_session: Topics, request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A broker for all tests of the session; the test's topics and groups are deleted at its end."""
    from barnabas.testing.kit.shared import Kafka

    shared = Kafka(_barnabas_session, is_kept=bool(request.config.getoption(KEEP_OPTION)))
    _touch(request, _barnabas_session)
    yield shared
    shared.clean()


@pytest.fixture
def async_kafka(kafka: Kafka) -> AsyncKafka:
    """The same with coroutines."""
    from barnabas.testing.kit.asynchronous import AsyncKafka

    return AsyncKafka(kafka)


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster for this test alone, as the marker `barnabas` says."""
    from barnabas.testing.kit.cluster import Cluster
    from barnabas.testing.kit.shared import folder_for

    marker = request.node.get_closest_marker("barnabas")
    arguments = {} if marker is None else dict(marker.kwargs)
    kept = request.config.getoption(KEEP_OPTION)
    if kept:
        arguments.setdefault("folder", folder_for(kept, request.node.nodeid))
    with Cluster(**arguments) as own:
        _touch(request, own)
        yield own


@pytest.fixture
def async_cluster(cluster: Cluster) -> AsyncCluster:
    """The same with coroutines."""
    from barnabas.testing.kit.asynchronous import AsyncCluster

    return AsyncCluster(cluster)


@pytest.fixture
def clock(cluster: Cluster) -> ClusterClock:
    """The clock of the fixture cluster."""
    return cluster.clock
