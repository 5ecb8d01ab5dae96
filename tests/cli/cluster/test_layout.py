"""The folder of a local cluster: nodes, ports, and what is refused before anything starts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.cli.cluster.creation import create, format_nodes, properties
from barnabas.cli.cluster.layout import (
    CLUSTER_FILE,
    HOST,
    Layout,
    choose_ports,
    default_folder,
    planned_nodes,
    read_layout,
    with_ports,
)
from barnabas.cli.cluster.processes import (
    PROCESS_FILE,
    State,
    read_process,
    start_time,
    wait_for_end,
    write_process,
)
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.main import main
from barnabas.cli.server.node_file import read_properties
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.storage.directories.meta_properties import read_meta_properties
from tests.cli.conftest import Call
from tools.ports import free_run

DISK = FolderDisk()


@pytest.mark.parametrize(
    ("brokers", "controllers", "roles"),
    [
        (3, 0, ["bc", "bc", "bc"]),
        (7, 0, ["bc", "bc", "bc", "bc", "bc", "b", "b"]),
        (2, 3, ["b", "b", "c", "c", "c"]),
        (0, 1, ["c"]),
    ],
)
def test_ids_are_in_sequence(brokers: int, controllers: int, roles: list[str]) -> None:
    nodes = planned_nodes(brokers, controllers)
    assert ["".join(role[0] for role in node.roles) for node in nodes] == roles
    assert [node.id for node in nodes] == list(range(1, len(roles) + 1))


def test_ports_of_brokers_come_first() -> None:
    nodes = with_ports(planned_nodes(2, 1), [7, 8, 9])
    assert [(node.broker_port, node.controller_port) for node in nodes] == [(7, None), (8, None), (None, 9)]
    layout = Layout("f", "id", nodes=with_ports(planned_nodes(2, 0), [7, 8, 9, 10]))
    assert layout.bootstrap_servers == "127.0.0.1:7,127.0.0.1:8"
    assert layout.bootstrap_controllers == "127.0.0.1:9,127.0.0.1:10"
    assert layout.majority == 2


def test_a_port_that_is_taken() -> None:
    first = free_run(3)[0]
    with socket.create_server((HOST, first + 1)):
        with pytest.raises(CommandError, match=f"port {first + 1} is taken"):
            choose_ports(3, first)
        assert choose_ports(1, first) == [first]
    with pytest.raises(CommandError, match="go beyond 65535"):
        choose_ports(3, 65_534)


def test_a_folder_with_other_files(tmp_path: Path, barnabas: Call) -> None:
    (tmp_path / "precious").touch()
    refused = barnabas("cluster", "up", "--dir", str(tmp_path))
    assert refused.code == Exit.FAILED
    assert "has other files and no cluster.json; choose another folder with --dir" in refused.err
    assert sorted(os.listdir(tmp_path)) == [".lock", "precious"]
    refused = barnabas("cluster", "status", "--dir", str(tmp_path / "precious"))
    assert "is a file; choose a folder" in refused.err


def test_a_file_that_is_not_ours(tmp_path: Path) -> None:
    (tmp_path / CLUSTER_FILE).write_text("{}", "utf-8")
    with pytest.raises(CommandError, match=r"cluster\.json is not the file of a local cluster"):
        read_layout(DISK, str(tmp_path))


def test_another_command_is_running(tmp_path: Path, barnabas: Call) -> None:
    lock = DISK.lock(str(tmp_path / ".lock"))
    try:
        refused = barnabas("cluster", "up", "--dir", str(tmp_path))
        assert "another barnabas cluster command is running" in refused.err
    finally:
        lock.release()


@pytest.mark.parametrize("command", [("status",), ("stop", "1"), ("down",)])
def test_there_is_no_cluster(tmp_path: Path, barnabas: Call, command: tuple[str, ...]) -> None:
    refused = barnabas("cluster", *command, "--dir", str(tmp_path / "none"))
    assert (refused.code, refused.out) == (Exit.NOT_FOUND, "")
    assert "start one with barnabas cluster up" in refused.err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("flags", [("--brokers", "0"), ("--brokers", "30", "--controllers", "1")])
def test_a_cluster_has_a_few_nodes(tmp_path: Path, barnabas: Call, flags: tuple[str, ...]) -> None:
    refused = barnabas("cluster", "up", "--dir", str(tmp_path / "new"), *flags)
    assert refused.code == Exit.USAGE
    assert "a cluster has between 1 and 30 nodes" in refused.err


def test_the_folder_is_the_same_from_every_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("BARNABAS_CLUSTER", raising=False)
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path))
    assert default_folder() == str(tmp_path / "cluster")
    monkeypatch.setenv("BARNABAS_CLUSTER", "/elsewhere")
    assert default_folder() == "/elsewhere"


def test_a_dynamic_quorum_is_formatted(tmp_path: Path) -> None:
    """KIP-853: all controllers know each other by their directory ids; a second time changes nothing."""
    layout = create(DISK, str(tmp_path), 1, 2, None)
    assert not layout.is_formatted
    layout = format_nodes(DISK, layout)
    assert read_layout(DISK, str(tmp_path)) == layout
    for node in layout.nodes:
        meta = read_meta_properties(DISK, layout.data_folder(node))
        assert meta is not None
        assert (meta.cluster_id, meta.node_id) == (layout.cluster_id, node.id)
        if node.controller_port is not None:
            assert str(meta.directory_id) == node.directory_id
    voters = Path(layout.data_folder(layout.nodes[1])) / "__cluster_metadata-0"
    assert os.listdir(voters) == ["00000000000000000000-0000000000.checkpoint"]
    before = (voters / os.listdir(voters)[0]).read_bytes()
    format_nodes(DISK, layout)
    assert (voters / os.listdir(voters)[0]).read_bytes() == before


def test_the_configuration_of_a_node() -> None:
    layout = Layout("/f", "id", nodes=with_ports(planned_nodes(1, 1), [7, 8]))
    broker, controller = (properties(layout, node) for node in layout.nodes)
    assert broker["listeners"] == "PLAINTEXT://127.0.0.1:7"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:8"
    assert broker["controller.quorum.bootstrap.servers"] == "127.0.0.1:8"
    assert (broker["process.roles"], controller["process.roles"]) == ("broker", "controller")


def test_options_of_all_nodes(tmp_path: Path) -> None:
    given = {
        "default.replication.factor": "2",
        "super.users": r"User:a\b",
        "broker.session.timeout.ms": "9000",
    }
    layout = format_nodes(DISK, create(DISK, str(tmp_path), 2, 1, None, given))
    assert read_layout(DISK, str(tmp_path)) == layout
    for node in layout.nodes:
        read = read_properties(DISK, layout.properties_file(node))
        assert given.items() <= read.items()
        assert read["node.id"] == str(node.id)


@pytest.mark.parametrize(
    ("option", "code", "reason"),
    [
        ("num.partitions", Exit.USAGE, "--override key=value"),
        ("num.partitions=none", Exit.FAILED, "num.partitions"),
        ("node.id=7", Exit.USAGE, "--override node.id: each node of a local cluster has its own"),
    ],
)
def test_options_that_no_cluster_can_have(
    tmp_path: Path, barnabas: Call, option: str, code: Exit, reason: str
) -> None:
    refused = barnabas("cluster", "up", "--dir", str(tmp_path), "--override", option)
    assert refused.code == code
    assert reason in refused.err
    assert os.listdir(tmp_path) == [".lock"], "nothing is created"


def test_options_of_an_existing_cluster(tmp_path: Path, barnabas: Call) -> None:
    create(DISK, str(tmp_path), 1, 0, None, {"num.partitions": "2"})
    refused = barnabas("cluster", "up", "--dir", str(tmp_path), "--override", "num.partitions=3")
    assert refused.code == Exit.FAILED
    assert "was created without --override num.partitions=3" in refused.err


# Processes --------------------------------------------------------------------------------------------------


def test_the_state_of_a_process(tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert read_process(DISK, folder) is None
    write_process(DISK, folder, State.UP)
    process = read_process(DISK, folder)
    assert process is not None
    assert (process.pid, process.state) == (os.getpid(), State.UP)
    write_process(DISK, folder, State.FAILED, "no disk")
    process = read_process(DISK, folder)
    assert process is not None
    assert (process.state, process.reason) == (State.FAILED, "no disk")


def test_another_process_with_the_same_id_is_not_the_node(tmp_path: Path) -> None:
    write_process(DISK, str(tmp_path), State.UP)
    file = tmp_path / PROCESS_FILE
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "started": "1"}), "utf-8")
    process = read_process(DISK, str(tmp_path))
    assert process is not None
    assert process.state is State.KILLED


def test_a_process_that_has_ended_has_no_start_time(tmp_path: Path) -> None:
    """Not even while its parent has yet to notice."""
    assert start_time(os.getpid()) is not None
    with subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(child.pid) is None
    assert start_time(child.pid) is None
    assert wait_for_end([], 0) == []


def test_help_lists_all_subcommands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "--help"]) == 0
    shown = capsys.readouterr().out
    for name in (
        "up",
        "status",
        "start",
        "stop",
        "kill",
        "down",
        "cluster-id",
        "list-endpoints",
        "unregister",
    ):
        assert f"\n  {name} " in shown
