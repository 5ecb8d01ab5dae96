"""Which cluster a command talks to, and what it says if no broker is there."""

from __future__ import annotations

import socket
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.cli.friendly.target.greeting import Greeting, greet
from barnabas.cli.friendly.target.resolve import BOOTSTRAP_VARIABLE, resolve_bootstrap, with_port
from barnabas.cli.server import running_servers
from barnabas.cli.server.running_servers import ServerInfo
from tests.cli.conftest import Call
from tools.ports import free_ports


@pytest.fixture(autouse=True)
def own_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _is_default: None) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(BOOTSTRAP_VARIABLE)


def resolved(server: str | None = None, context: str | None = None) -> str:
    return resolve_bootstrap(Namespace(bootstrap_server=server, context=context), "barnabas test")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("host", "host:9092"),
        ("a, b:1", "a:9092,b:1"),
        ("10.0.0.1", "10.0.0.1:9092"),
        ("[::1]", "[::1]:9092"),
        ("[::1]:1", "[::1]:1"),
    ],
)
def test_a_host_alone_means_port_9092(given: str, meant: str) -> None:
    assert resolved(given) == meant
    assert with_port("") == ""


def server(pid: int, port: int, cluster: str, started_ms: int) -> ServerInfo:
    return ServerInfo(pid, 1, ["broker"], cluster, started_ms, {"PLAINTEXT": f"127.0.0.1:{port}"})


@pytest.mark.parametrize(
    ("servers", "chosen", "is_named"),
    [
        ([server(1, 9192, "a", 5)], 9192, False),
        ([server(1, 9192, "a", 5), server(2, 9292, "a", 3)], 9292, False),
        ([server(1, 9192, "a", 5), server(2, 9292, "b", 3)], 9292, True),
        ([server(1, 9192, "a", 5), server(2, 9092, "b", 7)], 9092, True),
    ],
)
def test_of_several_clusters_the_chosen_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    servers: list[ServerInfo],
    chosen: int,
    is_named: bool,
) -> None:
    monkeypatch.setattr(running_servers, "running_servers", lambda disk: servers)
    assert resolved() == f"127.0.0.1:{chosen}"
    said = capsys.readouterr().err
    assert said == (
        f"barnabas test: 2 clusters run on this machine, using the broker at 127.0.0.1:{chosen}; choose with "
        "-b HOST:PORT, see barnabas status\n"
        if is_named
        else ""
    )


def test_contexts(barnabas: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bootstrap: str) -> None:
    """The order of the rule: flag, variable, the variable's context, the context in use."""
    nothing = barnabas("context", "list")
    assert (nothing.code, nothing.err) == (Exit.OK, "there is no context; see barnabas context add\n")
    secrets = tmp_path / "client.properties"
    secrets.write_text("client.id=from-the-context\n", "utf-8")
    assert barnabas("context", "add", "home", bootstrap, "--command-config", str(secrets)).code == Exit.OK
    assert barnabas("context", "add", "away", "host").code == Exit.OK
    assert barnabas("context", "add", "lost", "host", "--command-config", "gone").code == Exit.NOT_FOUND
    assert barnabas("context", "list", "-o", "name").out == "away\nhome\n"
    assert barnabas("topic", "list").code == Exit.OK, "the first one is used by default"
    assert barnabas("context", "use", "away").out == "away: host:9092 (used by default)\n"
    assert resolved() == "host:9092"
    options = Namespace(bootstrap_server=None, context="home", command_config=None)
    assert resolve_bootstrap(options) == bootstrap
    assert options.command_config == str(secrets)
    monkeypatch.setenv("BARNABAS_CONTEXT", "home")
    assert resolved() == bootstrap
    monkeypatch.setenv(BOOTSTRAP_VARIABLE, "variable:1")
    assert (resolved(), resolved("flag:1")) == ("variable:1", "flag:1")
    assert resolved(context="away") == "host:9092"
    both = barnabas("topic", "list", "-b", "host", "--context", "home")
    assert both.code == Exit.USAGE
    unknown = barnabas("topic", "list", "--context", "hom")
    assert (unknown.code, "did you mean home?" in unknown.err) == (Exit.NOT_FOUND, True)
    assert barnabas("context", "remove", "away").code == Exit.OK
    assert barnabas("context", "unuse").code == Exit.OK
    (tmp_path / "config" / "barnabas" / "contexts.json").write_text("[]", "utf-8")
    broken = barnabas("context", "list")
    assert (broken.code, "correct or remove it" in broken.err) == (Exit.FAILED, True)


# What listens there -------------------------------------------------------------------------------------------


@pytest.fixture
def listener() -> Iterator[Callable[[bytes | None], int]]:
    """A server that sends these bytes to each caller, or nothing; returns its port."""
    opened: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def listen(answer: bytes | None) -> int:
        place = socket.create_server(("127.0.0.1", 0))
        opened.append(place)

        def serve() -> None:
            caller, _ = place.accept()
            opened.append(caller)
            if answer is not None:
                caller.recv(1000)
                caller.sendall(answer)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        port: int = place.getsockname()[1]
        return port

    yield listen
    for thread in threads:
        thread.join()
    for each in opened:
        each.close()


@pytest.mark.parametrize(
    ("answer", "greeting"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Greeting.STRANGER),
        (b"\x15\x03\x01\x00\x02\x02\x46", Greeting.TLS),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Greeting.STRANGER),
    ],
)
def test_strangers_are_told_from_brokers(
    barnabas: Call, listener: Callable[[bytes | None], int], answer: bytes, greeting: Greeting
) -> None:
    assert greet("127.0.0.1", listener(answer), 60_000) is greeting
    result = barnabas("topic", "list", "-b", f"127.0.0.1:{listener(answer)}")
    assert result.code == Exit.UNREACHABLE
    assert ("expects TLS" if greeting is Greeting.TLS else "is not a Kafka broker") in result.err


def test_a_silent_server(listener: Callable[[bytes | None], int]) -> None:
    assert greet("127.0.0.1", listener(None), 50) is Greeting.SILENT


def test_a_broker(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    assert greet(host, int(port), 60_000) is Greeting.BROKER


def test_nothing_on_this_machine_fails_at_once(barnabas: Call) -> None:
    """With the command that starts a broker there."""
    (port,) = free_ports(1)
    result = barnabas("topic", "list", "-b", f"localhost:{port}")
    assert result.code == Exit.UNREACHABLE
    assert result.err == (
        f"barnabas topic list: nothing listens on localhost:{port}; start a broker with barnabas dev --port "
        f"{port}, or name another with -b HOST:PORT\n"
    )
