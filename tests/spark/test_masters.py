"""Valid masters, and the messages for those that do not exist; without starting Java."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.spark import masters, session
from barnabas.spark.masters import FORMS, MasterError, addresses, check, find
from tools.ports import free_ports


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[1]",
        "local[*]",
        "local[2, 4]",
        "local[*,4]",
        "local-cluster[2, 1, 1024]",
        "spark://host:7077",
        "spark://one.example:7077,two-b:7078",
        "spark://[::1]:7077",
        "yarn",
        "k8s://https://host:6443",
        "k8s://host",
    ],
)
def test_masters_that_spark_knows(master: str) -> None:
    check(master)


@pytest.mark.parametrize(
    "master",
    [
        "",
        "nonsense",
        "local[x]",
        "local[0]",
        "local[]",
        "locally",
        "spark://",
        "spark://host",
        "spark://host:",
        "spark://host:0",
        "spark://host:70777",
        "spark://host:7077,",
        "spark://host:7077,other",
        "spark://host:7077/path",
        "yarn-client",
        "mesos://host:5050",
        "k8s://",
    ],
)
def test_invalid_masters_are_rejected_with_the_valid_forms(master: str) -> None:
    with pytest.raises(MasterError) as caught:
        check(master)
    assert str(caught.value) == f"{master}: there is no such master of Spark; give {FORMS}"


def test_spark_connect_is_refused_by_name() -> None:
    with pytest.raises(MasterError, match=r"sc://host:15002: Spark Connect is not supported; give local, "):
        check("sc://host:15002")


def test_the_command_refuses_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["pipeline", "run", "orders.toml", "--master", "nonsense"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"--master nonsense: there is no such master of Spark; give {FORMS}" in said


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "PATIENCE_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_master_that_does_not_respond() -> None:
    here, there = free_ports(2)
    master = f"spark://127.0.0.1:{here},127.0.0.1:{there}"
    with pytest.raises(MasterError, match="no Spark master responds") as caught:
        find(master)
    assert str(caught.value).startswith(f"{master}: ")
    with socket.create_server(("127.0.0.1", there)):
        # One of them is enough.
        find(master)


def test_addresses_of_masters() -> None:
    assert addresses("spark://a:1,[::1]:2") == [("a", 1), ("::1", 2)]


def test_yarn_needs_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in masters.YARN_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MasterError, match="set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder"):
        find("yarn")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    find("yarn")


@pytest.mark.usefixtures("impatient")
def test_a_session_looks_before_it_starts_java(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    (nobody,) = free_ports(1)
    with pytest.raises(MasterError, match="nonsense: there is no such master"):
        session(master="nonsense")
    with pytest.raises(MasterError, match="no Spark master responds"):
        session(**{"spark.master": f"spark://127.0.0.1:{nobody}"})
