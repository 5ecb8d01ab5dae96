"""Other projects' own Kafka tests on the test kit, in place of their containers.

    python -m tools.kit_projects quix-streams ../quix-streams ../quix-env/bin/python
    python -m tools.kit_projects faststream ../faststream ../env/bin/python --apache -- tests/brokers/kafka

Given are a checkout of the project, and a Python with what its tests need and with the dependencies of this
package.  Nothing of theirs is changed: this module is loaded as a plugin of their pytest, which leaves out
the tests without Kafka and hands the address of a broker to the others.  With `--apache` that is a node of
Apache Kafka, for comparison.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[1]
# What the plugin is told by the runner.
NAME, ADDRESS = "BARNABAS_KIT_PROJECT", "BARNABAS_KIT_ADDRESS"
APACHE_VERSION = "4.1.0"
BOOK_PORT = 9092


class OtherProject(NamedTuple):
    # As `Cluster` takes them: what the broker of its compose file, or container, has.
    arguments: dict[str, Any]
    needs_kafka: Callable[[pytest.Item], bool]
    # Makes the tests use a broker at this address.
    redirect: Callable[[str], None]


def _redirect_quix_streams(address: str) -> None:
    """Its session fixtures start containers with a helper of its own."""
    conftest: Any = import_module("tests.conftest")
    helper: Any = import_module("tests.containerhelper").ContainerHelper

    class Container:
        def stop(self) -> None:
            """The broker ends with the session."""

    helper.create_kafka_container = staticmethod(lambda network: (Container(), address, address))
    helper.start_kafka_container = staticmethod(lambda container: None)
    conftest.Network = nullcontext


def _asks_for_a_container(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return {name for name in names if name.endswith("_container")} == {"kafka_container"}


def _has_marks(item: pytest.Item) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    return "connected" in marks and bool(marks & {"kafka", "confluent"})


PROJECTS = {
    "quix-streams": OtherProject(
        {"first_id": 0, "options": {"log.retention.ms": -1}}, _asks_for_a_container, _redirect_quix_streams
    ),
    "faststream": OtherProject({"port": BOOK_PORT}, _has_marks, lambda address: None),
}


# In their pytest --------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    project = PROJECTS[os.environ[NAME]]
    others = [item for item in items if not project.needs_kafka(item)]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if project.needs_kafka(item)]


@pytest.fixture(scope="session", autouse=True)
def barnabas_broker() -> Iterator[None]:
    project = PROJECTS[os.environ[NAME]]
    if ADDRESS in os.environ:
        project.redirect(os.environ[ADDRESS])
        yield
        return
    from barnabas.testing import Cluster

    with Cluster(**project.arguments) as cluster:
        project.redirect(cluster.bootstrap_servers)
        yield


# The runner -------------------------------------------------------------------------------------------------


@contextmanager
def apache_kafka(project: OtherProject) -> Iterator[str]:
    """One node, by the oracle; yields its address."""
    from bench.apache import ORACLE
    from tools.ports import free_oracle_base

    base = project.arguments["port"] - 1 if "port" in project.arguments else free_oracle_base()
    settings = {"group.initial.rebalance.delay.ms": 0, **project.arguments.get("options", {})}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    oracle = [str(ORACLE), "-k", APACHE_VERSION]
    with TemporaryDirectory(prefix="barnabas-kit-projects-") as folder:
        began = time.monotonic()
        up = ["up", "--dir", folder, "--mode", "kraft", "--brokers", "1", "--port", str(base), *words]
        subprocess.run([*oracle, *up], check=True, capture_output=True)
        print(f"Apache Kafka {APACHE_VERSION} is up after {time.monotonic() - began:.0f} s", flush=True)
        try:
            yield f"localhost:{base + 1}"
        finally:
            subprocess.run([*oracle, "down", "--dir", folder, "--kill"], check=False, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=PROJECTS)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("python", type=Path)
    parser.add_argument("--apache", action="store_true", help="on a node of Apache Kafka instead")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given, of_pytest = parser.parse_args(words[:end]), words[end + 1 :]
    paths = [str(PROJECT), str(PROJECT / "src")]
    environment = {
        **os.environ,
        NAME: given.name,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTEST_ADDOPTS": "-p tools.kit_projects",
    }
    command = [str(given.python.absolute()), "-m", "pytest", "-q", *of_pytest]
    with apache_kafka(PROJECTS[given.name]) if given.apache else nullcontext() as address:
        if address is not None:
            environment[ADDRESS] = address
        return subprocess.run(command, cwd=given.checkout, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
