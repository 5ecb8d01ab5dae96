"""What every test shares.  A stale compiled engine is refused: it would test code that is no longer there."""

from __future__ import annotations

import gc
import re
import signal
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

from barnabas.batch.engine import engine_state

if TYPE_CHECKING:
    from tests.ensemble import Ensemble

hypothesis.settings.register_profile(
    "ci", deadline=None, max_examples=40, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", parent=hypothesis.settings.get_profile("ci"), max_examples=2000)
hypothesis.settings.load_profile("ci")

PROJECT = Path(__file__).parents[1]
DATA = PROJECT / "tests" / "data"


def pytest_configure() -> None:
    # Ignored in the background of a script, or under nohup: the programs that tests stop would not hear them.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    engine = engine_state()
    if engine.state == "stale":
        raise pytest.UsageError(f"the compiled engine is stale: {engine.reason}")


def pytest_collection_finish() -> None:
    """What is imported and collected stays: the garbage collector need not go over it again and again."""
    gc.collect()
    gc.freeze()


# The mark of a module, alone or in a list.
_GROUP = r"^pytestmark = (?:\[\s*)?pytest\.mark\.xdist_group\("


@cache
def _is_one_group(path: str) -> bool:
    """Whether the tests of this file are marked as a group, because they share a cluster.

    pytest-xdist 3.8 passes the mark on in the ids of tests, which pytest 9.2 does not let it change.
    """
    return re.search(_GROUP, (PROJECT / path).read_text("utf-8"), re.M) is not None


class OneProcessForEachGroup(LoadScopeScheduling):
    """Every test goes to whichever process is free, but those of a group, and all of Spark's, to the same one:
    a cluster or a JVM costs seconds."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/spark/"):
            return "spark"
        path = nodeid.partition("::")[0]
        return path if _is_one_group(path) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneProcessForEachGroup:
    return OneProcessForEachGroup(config, log)


def pytest_report_header() -> str:
    return f"engine: {engine_state().state}"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of recorded facts that tests compare with."""
    return DATA


@pytest.fixture(scope="session")
def golden_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data folders that Apache Kafka wrote, and its dump of them; one folder a mode.  Not to be written to."""
    folder = tmp_path_factory.mktemp("golden-logs")
    with tarfile.open(DATA / "golden-logs.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """One server of Apache ZooKeeper for all tests of this process; none may stop it."""
    from tests.ensemble import running_ensemble, why_no_zookeeper

    reason = why_no_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    with running_ensemble(tmp_path_factory.mktemp("zookeeper"), 1) as ensemble:
        yield ensemble


@pytest.fixture
def zookeeper_connect(zookeeper: Ensemble) -> str:
    """The address of a ZooKeeper with a path that is new and does not exist yet."""
    return zookeeper.new_connect()
