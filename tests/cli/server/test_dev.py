"""`barnabas dev` and `barnabas status`: their output and errors."""

from __future__ import annotations

import json
import socket
from argparse import Namespace
from pathlib import Path

import pytest

from barnabas.cli.framework import single_request
from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly import framework as asking
from barnabas.cli.server import dev, running_servers, status
from barnabas.cli.server.running_servers import ServerInfo
from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsResponse
from barnabas.protocol.messages.metadata import MetadataResponse
from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path / "state"))


def test_a_port_in_use_is_reported_with_the_option_of_this_command(barnabas: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = barnabas("dev", "--port", str(taken.getsockname()[1]))
    assert result.code == Exit.FAILED
    assert result.err.endswith("stop it or change --port\n")


def test_an_overridden_port_in_use_is_reported_with_that_option(barnabas: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]},CONTROLLER://127.0.0.1:0"
        result = barnabas("dev", "--override", f"listeners={listeners}")
    assert result.code == Exit.FAILED
    assert result.err.endswith("stop it or change listeners\n")


@pytest.mark.parametrize("command", [("dev",), ("server-start", "server.properties")])
def test_an_override_without_a_value_is_a_wrong_command_line(
    barnabas: Call, command: tuple[str, ...]
) -> None:
    result = barnabas(*command, "--override", "log.retention.hours")
    assert result.code == Exit.USAGE
    assert "--override key=value" in result.err
    assert result.err.count("\n") == 1


def server(pid: int, port: int, roles: tuple[str, ...] = ("broker", "controller")) -> ServerInfo:
    return ServerInfo(pid, 1, list(roles), "cluster", 0, {"PLAINTEXT": f"127.0.0.1:{port}"})


@pytest.mark.parametrize(
    ("port", "others", "variable", "has_flag"),
    [
        (9092, [], None, False),
        (9092, [], "127.0.0.1:9092", False),
        (9092, [], "elsewhere:9092", True),
        (9092, [server(7, 9192)], None, True),
        (9092, [server(7, 9192, ("controller",))], None, False),
        (9192, [], None, True),
    ],
)
def test_the_hint_reaches_this_broker(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    port: int,
    others: list[ServerInfo],
    variable: str | None,
    has_flag: bool,
) -> None:
    """With two brokers on a machine the hint of one used to reach the other."""
    own = server(8, port)
    monkeypatch.setattr(running_servers, "running_servers", lambda disk: [*others, own])
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    if variable is not None:
        monkeypatch.setenv("BARNABAS_BOOTSTRAP", variable)
    dev._print_summary(own, "folder", kept=True)
    lines = capsys.readouterr().out.splitlines()
    (hint,) = [line for line in lines if "barnabas produce" in line]
    assert all(len(line) <= 80 for line in lines)
    assert hint.endswith(f"--create -b 127.0.0.1:{port}" if has_flag else "--create")


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ([], "localhost:9092"),
        ([server(1, 9192)], "127.0.0.1:9192"),
        ([server(1, 9192), server(2, 9092)], "127.0.0.1:9092"),
        ([server(1, 9192), server(2, 9292)], "127.0.0.1:9192"),
        ([server(1, 9192, ("controller",))], "localhost:9092"),
    ],
)
def test_of_several_brokers_the_one_at_the_default_port_is_used(
    monkeypatch: pytest.MonkeyPatch, servers: list[ServerInfo], expected: str
) -> None:
    """So that a hint stays correct when another broker starts later."""
    monkeypatch.setattr(running_servers, "running_servers", lambda disk: servers)
    monkeypatch.delenv("BARNABAS_BOOTSTRAP", raising=False)
    assert asking.resolve_bootstrap(Namespace(bootstrap_server=None)) == expected


@pytest.mark.parametrize(("operations", "is_told"), [(status.all_operations(), False), (0, True)])
def test_status_reports_that_topics_may_be_hidden(
    barnabas: Call, monkeypatch: pytest.MonkeyPatch, operations: int, is_told: bool
) -> None:
    info = ServerInfo(1, 1, ["broker"], "cluster", 0, {"PLAINTEXT": "127.0.0.1:9092"})
    monkeypatch.setattr(status, "running_servers", lambda disk: [info])
    answer = MetadataResponse(brokers=[], topics=[], cluster_authorized_operations=operations)
    answers = {
        MetadataResponse: answer,
        DescribeLogDirsResponse: DescribeLogDirsResponse(throttle_time_ms=0, results=[]),
    }
    monkeypatch.setattr(single_request, "send_request", lambda *asked: answers[asked[-1]])
    assert ("an authorizer may hide others" in barnabas("status").out) is is_told
    (row,) = json.loads(barnabas("status", "-o", "json").out)
    assert row["topics_may_be_hidden"] is is_told
