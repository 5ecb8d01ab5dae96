"""The connection flags of tools, and their errors if the cluster is not reachable."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework import connecting
from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, client_properties
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from tests.cli.conftest import Call
from tools.ports import free_ports

OFFSETS = Path(__file__).parents[2] / "data" / "cli" / "offsets.json"
# A command line of each tool, complete except for the connection flags.
COMMANDS = {
    "topics": ("--list",),
    "configs": ("--describe", "--topic", "t"),
    "acls": ("--list",),
    "log-dirs": ("--describe",),
    "reassign-partitions": ("--list",),
    "get-offsets": (),
    "leader-election": ("--election-type", "preferred", "--all-topic-partitions"),
    "delete-records": ("--offset-json-file", str(OFFSETS)),
}
PATIENCE_S = 120
FLAG = {"leader-election": "--admin.config"}


def parsed(*arguments: str, **flags: Any) -> Any:
    parser = KafkaParser("barnabas thing", "A thing.")
    add_connection_flags(parser, **flags)
    return parser, parser.parse(arguments)


def test_flags_and_the_file_become_properties_of_the_client(tmp_path: Path) -> None:
    file = tmp_path / "admin.properties"
    file.write_text("client.id=me\nbootstrap.servers=elsewhere:1\n", "utf-8")
    given = client_properties(*parsed("--bootstrap-server", "a:1,b:2", "--command-config", str(file)))
    assert given == {"client.id": "me", "bootstrap.servers": "a:1,b:2"}


def test_controllers_may_be_named_instead() -> None:
    given = client_properties(*parsed("--bootstrap-controller", "c:9", controllers=True))
    assert given == {"bootstrap.controllers": "c:9"}
    with pytest.raises(UsageError, match="cannot both be given"):
        client_properties(
            *parsed("--bootstrap-controller", "c:9", "--bootstrap-server", "a:1", controllers=True)
        )


def test_a_principal_is_required() -> None:
    with pytest.raises(UsageError, match=r"--bootstrap-server or --bootstrap-controller must be specified"):
        client_properties(*parsed("--command-config", "x", controllers=True))


@pytest.mark.parametrize("wrong", ["host", "host:", ":1", "host:port", "host:0", "host:65536", "a:1,,b:2"])
def test_servers_are_hosts_with_ports(wrong: str) -> None:
    with pytest.raises(UsageError, match="--bootstrap-server must be HOST:PORT"):
        client_properties(*parsed("--bootstrap-server", wrong))


def test_an_old_broker_list_is_accepted_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    given = client_properties(*parsed("--broker-list", "a:1", old_broker_list=True))
    assert given == {"bootstrap.servers": "a:1"}
    assert capsys.readouterr().err == (
        "barnabas thing: --broker-list is the old name of --bootstrap-server\n"
    )


@pytest.mark.parametrize(
    ("ensemble", "brokers"),
    [("zk:2181", "zk:9092"), ("a:2181,b:2181/kafka", "a:9092,b:9092"), ("lonely", "lonely:9092")],
)
def test_the_hosts_of_zookeeper_are_used_as_brokers(
    capsys: pytest.CaptureFixture[str], ensemble: str, brokers: str
) -> None:
    given = client_properties(*parsed("--zookeeper", ensemble, old_zookeeper=True))
    assert given == {"bootstrap.servers": brokers}
    assert capsys.readouterr().err.count("\n") == 1


def test_new_flags_take_precedence_over_old_ones(capsys: pytest.CaptureFixture[str]) -> None:
    given = client_properties(*parsed("--zookeeper", "zk:1", "--bootstrap-server", "a:1", old_zookeeper=True))
    assert given == {"bootstrap.servers": "a:1"}


@pytest.mark.parametrize("tool", COMMANDS)
def test_an_unreachable_cluster_is_reported_in_one_line(barnabas: Call, tmp_path: Path, tool: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=200\n", "utf-8")
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    config = FLAG.get(tool, "--command-config")
    result = barnabas(tool, "--bootstrap-server", place, config, str(file), *COMMANDS[tool])
    assert result.code == Exit.UNREACHABLE
    assert not result.out
    assert result.err.count("\n") == 1
    assert place in result.err
    assert "is it running" in result.err


class Promise:
    """A cluster that responds to the second request, or never."""

    def __init__(self, answers: bool) -> None:
        self.waited_ms: list[int] = []
        self._answers = answers

    def reach(self, timeout_ms: int) -> None:
        self.waited_ms.append(timeout_ms)
        if not self._answers or len(self.waited_ms) == 1:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker is reachable")


@pytest.mark.parametrize("answers", [True, False])
def test_on_a_terminal_a_slow_connection_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    admin: Any = Promise(answers)
    try:
        connecting.reach(admin, "barnabas thing", "a:1")
    except CommandError as error:
        assert (answers, error.code) == (False, Exit.UNREACHABLE)
    assert len(admin.waited_ms) == 2
    assert sum(admin.waited_ms) == connecting.FIRST_CONTACT_MS
    assert capsys.readouterr().err == (
        "barnabas thing: a:1 does not respond yet, retrying (Ctrl+C to stop)\n"
    )


def test_a_silent_server_is_unreachable_too(barnabas: Call, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=600\nrequest.timeout.ms=200\n", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        result = barnabas("topics", "--bootstrap-server", place, "--command-config", str(file), "--list")
    assert result.code == Exit.UNREACHABLE
    assert "did not respond" in result.err
    assert result.err.count("\n") == 1


def test_ctrl_c_ends_a_tool_silently() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        tool = subprocess.Popen(
            [sys.executable, "-m", "barnabas", "topics", "--bootstrap-server", place, "--list"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        listener.settimeout(PATIENCE_S)
        # It has connected, so it waits for a response that never arrives.
        with listener.accept()[0]:
            tool.send_signal(signal.SIGINT)
            out, err = tool.communicate(timeout=PATIENCE_S)
    assert (tool.returncode, out, err) == (Exit.INTERRUPTED, b"", b"")


def test_without_a_file_an_unreachable_cluster_fails_early(
    barnabas: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "FIRST_CONTACT_MS", 300)
    (port,) = free_ports(1)
    result = barnabas("topics", "--bootstrap-server", f"127.0.0.1:{port}", "--list")
    assert result.code == Exit.UNREACHABLE


@pytest.mark.parametrize("tool", COMMANDS)
def test_the_file_of_properties_is_read(barnabas: Call, tmp_path: Path, tool: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text("default.api.timeout.ms=soon\n", "utf-8")
    config = FLAG.get(tool, "--command-config")
    result = barnabas(tool, "--bootstrap-server", "127.0.0.1:1", config, str(file), *COMMANDS[tool])
    assert result.code == Exit.USAGE
    assert "Invalid value soon for configuration default.api.timeout.ms" in result.err
    missing = barnabas(tool, "--bootstrap-server", "127.0.0.1:1", config, f"{file}x", *COMMANDS[tool])
    assert missing.code == Exit.NOT_FOUND
    assert "No such file" in missing.err


@pytest.mark.parametrize("tool", COMMANDS)
def test_a_tool_without_arguments_prints_its_usage(barnabas: Call, tool: Any) -> None:
    result = barnabas(tool)
    assert result.code == Exit.USAGE
    assert not result.out
    assert result.err.startswith(f"usage: barnabas {tool} ")


@pytest.mark.parametrize("tool", COMMANDS)
def test_help_and_version_go_to_stdout(barnabas: Call, tool: Any) -> None:
    for flag in ("--help", "-help"):
        result = barnabas(tool, flag)
        assert (result.code, result.err) == (0, "")
        assert "--bootstrap-server" in result.out
    assert barnabas(tool, "--version").out.startswith("barnabas ")


def test_a_repeated_flag_is_refused(barnabas: Call) -> None:
    result = barnabas("topics", "--bootstrap-server", "a:1", "--list", "--topic", "a", "--topic", "b")
    assert result.code == Exit.USAGE
    assert "--topic is given more than once" in result.err


def test_one_dash_is_enough(barnabas: Call) -> None:
    result = barnabas("topics", "-bootstrap-server", "nonsense", "-list")
    assert "--bootstrap-server must be HOST:PORT" in result.err


def test_a_server_that_does_not_answer_is_told_as_such(barnabas: Call, tmp_path: Path) -> None:
    """It used to be "Metadata did not complete within 2000 ms"."""
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=300\nrequest.timeout.ms=300\n", "utf-8")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        result = barnabas("topic", "list", "-b", address, "--command-config", str(config))
    assert result.code in (Exit.TIMED_OUT, Exit.UNREACHABLE)
    assert f"what listens on {address} does not answer (is it a Kafka broker?)" in result.err
