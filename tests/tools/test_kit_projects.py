"""Other projects' tests on the kit: a project in the manner of the real ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HELPER = """
class ContainerHelper:
    @staticmethod
    def create_kafka_container(network):
        raise AssertionError("there is no Docker")

    @staticmethod
    def start_kafka_container(container):
        raise AssertionError("there is no Docker")
"""
CONFTEST = """
import pytest

from .containerhelper import ContainerHelper


class Network:
    def __enter__(self):
        raise AssertionError("there is no Docker")

    def __exit__(self, *_):
        pass


@pytest.fixture(scope="session")
def kafka_container():
    with Network() as network:
        container, _, address = ContainerHelper.create_kafka_container(network)
        ContainerHelper.start_kafka_container(container)
        yield address
        container.stop()


@pytest.fixture
def other_container(kafka_container):
    raise AssertionError("there is no Docker")
"""
TESTS = """
def test_without_a_broker():
    raise AssertionError("it is left out")


def test_with_a_broker(kafka_container):
    from confluent_kafka.admin import AdminClient

    metadata = AdminClient({"bootstrap.servers": kafka_container}).list_topics(timeout=60)
    assert list(metadata.brokers) == [0]


def test_with_more_than_a_broker(other_container):
    raise AssertionError("it is left out")
"""


def test_tests_that_want_a_container_are_given_a_broker(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name, text in {
        "__init__": "",
        "containerhelper": HELPER,
        "conftest": CONFTEST,
        "test_it": TESTS,
    }.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "tools.kit_projects", "quix-streams", str(tmp_path), sys.executable]
    done = subprocess.run(
        [*command, "--", "-p", "no:cacheprovider"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert "1 passed, 2 deselected" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
