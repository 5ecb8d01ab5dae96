"""`barnabas aliases`: scripts and samples with Apache Kafka's names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from barnabas import __version__
from barnabas.cli.aliases.command import TOOLS, ZOOKEEPER_TOOLS
from barnabas.cli.framework.exits import Exit
from barnabas.cli.main import COMMANDS
from barnabas.config.node.node import parse_node
from barnabas.config.values.properties import loads
from tests.cli.conftest import Call


def test_every_tool_is_a_command() -> None:
    assert {*TOOLS, *ZOOKEEPER_TOOLS.values()} <= set(COMMANDS)


def test_scripts_call_the_command_of_their_name(tmp_path: Path, barnabas: Call) -> None:
    names = [*(f"kafka-{name}.sh" for name in TOOLS), *ZOOKEEPER_TOOLS]
    result = barnabas("aliases", str(tmp_path))
    assert result.code == 0, result.err
    assert result.out.startswith(f"{len(names)} scripts in {tmp_path / 'bin'}\n")
    assert sorted(os.listdir(tmp_path / "bin")) == sorted(names)
    done = subprocess.run(
        [tmp_path / "bin" / "kafka-topics.sh", "--version"],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"barnabas {__version__}\n")


def test_samples_have_the_requested_ports_and_folders(tmp_path: Path, barnabas: Call) -> None:
    barnabas("aliases", str(tmp_path), "--port", "19092", "--data", str(tmp_path / "data"))
    for name, roles in (("server", 0), ("kraft/server", 2), ("kraft/controller", 1)):
        node = parse_node(loads((tmp_path / "config" / f"{name}.properties").read_bytes()))
        assert len(node.roles) == roles
        # They start as they are, and say nothing that a user has to think about.
        assert not node.warnings
        assert all(folder.startswith(str(tmp_path / "data")) for folder in node.log_dirs)
    for name in ("producer", "consumer"):
        given = loads((tmp_path / "config" / f"{name}.properties").read_bytes())
        assert given["bootstrap.servers"] == "localhost:19092"


def test_the_commands_of_books_exist(tmp_path: Path, barnabas: Call) -> None:
    barnabas("aliases", str(tmp_path))
    given = loads((tmp_path / "config" / "server.properties").read_bytes())
    assert given["log.dirs"] == "/tmp/kafka-logs"
    # As in Apache Kafka's sample: a reader's first consumer starts at once.
    assert given["group.initial.rebalance.delay.ms"] == "0"
    assert given["listeners"] == "PLAINTEXT://localhost:9092"
    assert given["zookeeper.connect"] == "localhost:2181"
    quorum = loads((tmp_path / "config" / "kraft" / "server.properties").read_bytes())
    assert quorum["listeners"] == "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
    for sample in ("config/zookeeper.properties", "conf/zoo_sample.cfg"):
        ensemble = loads((tmp_path / sample).read_bytes())
        assert (ensemble["dataDir"], ensemble["clientPort"]) == ("/tmp/zookeeper", "2181")


def test_changed_configurations_are_kept(tmp_path: Path, barnabas: Call) -> None:
    barnabas("aliases", str(tmp_path))
    config = tmp_path / "config" / "server.properties"
    config.write_text("mine=1\n", "utf-8")
    result = barnabas("aliases", str(tmp_path))
    assert result.code == 0
    assert f"{config} (kept)\n" in result.out
    assert config.read_text("utf-8") == "mine=1\n"
    assert barnabas("aliases", str(tmp_path), "--yes").code == 0
    assert config.read_text("utf-8") != "mine=1\n"


def test_foreign_scripts_are_not_replaced(tmp_path: Path, barnabas: Call) -> None:
    theirs = tmp_path / "bin" / "kafka-topics.sh"
    theirs.parent.mkdir()
    theirs.write_text("#!/bin/sh\nexec java\n", "utf-8")
    result = barnabas("aliases", str(tmp_path))
    assert result.code == Exit.FAILED
    assert (
        result.err
        == f"barnabas aliases: {theirs} was not written by this command; choose another folder, or give --yes\n"
    )
    assert os.listdir(tmp_path) == ["bin"]
    assert os.listdir(tmp_path / "bin") == ["kafka-topics.sh"]
    assert barnabas("aliases", str(tmp_path), "--yes").code == 0
    assert "barnabas topics" in theirs.read_text("utf-8")


@pytest.mark.parametrize("flags", [["--port", "65535"], ["--port", "x"], []])
def test_wrong_flags(tmp_path: Path, barnabas: Call, flags: list[str]) -> None:
    result = barnabas("aliases", *([str(tmp_path)] if flags else []), *flags)
    assert result.code == Exit.USAGE
    assert result.err.count("\n") == 1
