"""`barnabas collect` on the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.sync import Consumer
from tools.raw_broker import BrokerProcess

PATIENCE_S = 120


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("collect")) as broker:
        yield f"{broker.address[0]}:{broker.address[1]}"


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    with Consumer(
        bootstrap_servers=bootstrap, group_id=f"read-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe([topic])
        found: list[Any] = []
        for _ in range(PATIENCE_S * 10):
            found += [one.value for one in consumer.poll(timeout_ms=100)]
            if len(found) >= count:
                return found
    pytest.fail(f"{len(found)} of {count} came")


def test_files_once(bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """M-I3."""
    (tmp_path / "a.log").write_text("one\ntwo\n", "utf-8")
    state = str(tmp_path / "state.json")
    words = ["collect", "--bootstrap-server", bootstrap, "--topic", "files", "--state", state, "--once"]
    assert main([*words, f"{tmp_path}/*.log"]) == 0
    assert "2 lines written to files" in capsys.readouterr().err
    assert main([*words, f"{tmp_path}/*.log", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert read(bootstrap, "files", 2) == [b"one", b"two"]


def test_the_broker_is_found_as_by_other_commands(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("one\n", "utf-8")
    monkeypatch.setenv("BARNABAS_BOOTSTRAP", bootstrap)
    assert main(["collect", "--topic", "found", "--once", f"{tmp_path}/a.log"]) == 0
    assert read(bootstrap, "found", 1) == [b"one"]


def test_a_pattern_without_a_file_is_reported_and_with_once_it_is_not_found(
    bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text("one\n", "utf-8")
    words = ["collect", "--bootstrap-server", bootstrap, "--topic", "some", "--once", "--quiet"]
    assert main([*words, f"{tmp_path}/*.log", f"{tmp_path}/*.txt"]) == 5
    message = capsys.readouterr().err.splitlines()
    assert message[-1].endswith(f"no file matches {tmp_path}/*.txt")
    assert read(bootstrap, "some", 1) == [b"one"]


def start(*words: str, stdin: int | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "barnabas", "collect", *words]
    return subprocess.Popen(command, stdin=stdin, stderr=subprocess.PIPE, text=True)


def test_the_standard_input_until_its_end(bootstrap: str) -> None:
    """M-I3."""
    process = start("--bootstrap-server", bootstrap, "--topic", "piped", "--stdin", stdin=subprocess.PIPE)
    _, errors = process.communicate("a\nb\nc", timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert read(bootstrap, "piped", 3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_when_all_is_written(bootstrap: str, tmp_path: Path, number: int) -> None:
    path = tmp_path / "a.log"
    path.write_text("one\n", "utf-8")
    topic = f"signalled-{number}"
    process = start("--bootstrap-server", bootstrap, "--topic", topic, str(path))
    assert read(bootstrap, topic, 1) == [b"one"]
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert "1 lines written to" in errors


def test_syslog(bootstrap: str) -> None:
    """M-I3."""
    import socket

    process = start("--bootstrap-server", bootstrap, "--topic", "syslog", "--syslog", "tcp://127.0.0.1:0")
    assert process.stderr is not None
    port = int(process.stderr.readline().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.sendall(b"<13>hello\n")
    assert read(bootstrap, "syslog", 1) == [b"<13>hello"]
    process.terminate()
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--topic", "t"], 2, "nothing to collect: give files, --stdin or --syslog"),
        (["--topic", "t", "--syslog", "nowhere"], 2, "should be udp://HOST:PORT or tcp://HOST:PORT"),
        (["--topic", "t", "--once", "--syslog", "udp://127.0.0.1:0"], 2, "syslog has no end"),
        (["--topic", "a b", "--once", "x"], 1, "a b"),
        (["--topic", "t", "--once", "x", "--state", "README.md"], 1, "does not hold a collector's positions"),
    ],
)
def test_errors_are_one_line(
    bootstrap: str, capsys: pytest.CaptureFixture[str], words: list[str], code: int, line: str
) -> None:
    assert main(["collect", "--bootstrap-server", bootstrap, *words]) == code
    (message,) = capsys.readouterr().err.splitlines()
    assert line in message


def test_a_port_in_use_is_reported(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        words = ["--bootstrap-server", bootstrap, "--topic", "t", "--syslog", place]
        assert main(["collect", *words]) == 1
    assert os.strerror(98).lower() in capsys.readouterr().err.lower()
