"""`barnabas dev` and `barnabas status`: what they say when something is in the way."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from barnabas.cli.framework import single_request as one_request
from barnabas.cli.framework.exits import Exit
from barnabas.cli.server import status
from barnabas.cli.server.running_servers import ServerInfo
from barnabas.protocol.messages.metadata import MetadataResponse
from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path / "state"))


def test_a_taken_port_is_told_with_the_option_of_this_command(barnabas: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = barnabas("dev", "--port", str(taken.getsockname()[1]))
    assert ended.code == Exit.FAILED
    assert ended.err.endswith("stop it or change --port\n")


def test_a_taken_port_of_an_override_is_told_with_that_option(barnabas: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listeners = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]},CONTROLLER://127.0.0.1:0"
        ended = barnabas("dev", "--override", f"listeners={listeners}")
    assert ended.code == Exit.FAILED
    assert ended.err.endswith("stop it or change listeners\n")


@pytest.mark.parametrize("command", [("dev",), ("server-start", "server.properties")])
def test_an_override_without_a_value_is_a_wrong_command_line(
    barnabas: Call, command: tuple[str, ...]
) -> None:
    ended = barnabas(*command, "--override", "log.retention.hours")
    assert ended.code == Exit.USAGE
    assert "--override key=value" in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("operations", "is_told"), [(status.all_operations(), False), (0, True)])
def test_status_says_that_topics_may_be_hidden(
    barnabas: Call, monkeypatch: pytest.MonkeyPatch, operations: int, is_told: bool
) -> None:
    info = ServerInfo(1, 1, ["broker"], "cluster", 0, {"PLAINTEXT": "127.0.0.1:9092"})
    monkeypatch.setattr(status, "running_servers", lambda disk: [info])
    answer = MetadataResponse(brokers=[], topics=[], cluster_authorized_operations=operations)
    monkeypatch.setattr(one_request, "ask", lambda *asked: answer)
    assert ("an authorizer hides others" in barnabas("status").out) is is_told
    (row,) = json.loads(barnabas("status", "-o", "json").out)
    assert row["topics_may_be_hidden"] is is_told
