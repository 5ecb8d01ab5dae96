"""A development broker as a process: its topics, its addresses, and server-stop, which leaves it alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.client.sync import Admin
from tests.cli.conftest import Call
from tests.cli.servers import PATIENCE_S
from tools.ports import free_ports


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@contextmanager
def dev(*options: str, until: str) -> Iterator[list[str]]:
    """The lines that it prints until one contains `until`."""
    command = [sys.executable, "-m", "barnabas", "dev", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if until in line:
                break
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0


def test_topics_urls_and_server_stop(barnabas: Call) -> None:
    port, metrics_port = free_ports(2)
    options = (
        "--port",
        str(port),
        "--metrics",
        str(metrics_port),
        "--topic",
        "orders:3",
        "--topic",
        "shouts",
    )
    with dev(*options, until="  topics ") as lines:
        assert f"  metrics            http://127.0.0.1:{metrics_port}/metrics" in lines
        assert lines[-1] == "  topics             orders, shouts"
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            found = admin.describe_topics(["orders", "shouts"])
            assert [len(found[name].partitions) for name in ("orders", "shouts")] == [3, 1]
        assert "node 1 (dev)" in barnabas("status").out
        spared = barnabas("server-stop")
        assert (spared.code, "barnabas dev is left alone" in spared.err) == (Exit.NOT_FOUND, True)
        shown = barnabas("server-stop", "--dev", "--dry-run")
        assert shown.code == Exit.OK
        assert shown.err.splitlines()[0].startswith("barnabas: stopping node 1 (pid ")
        assert shown.err.splitlines()[-1] == "nothing was done (--dry-run)"
        assert barnabas("status").code == Exit.OK


def test_another_host_is_advertised() -> None:
    (port,) = free_ports(1)
    options = ("--host", "0.0.0.0", "--advertise", "localhost", "--port", str(port))
    with dev(*options, until="bootstrap servers") as lines:
        assert lines[-1] == f"  bootstrap servers  localhost:{port}"
        with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            assert [node.host for node in admin.describe_cluster().nodes] == ["localhost"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--host", "0.0.0.0"), "needs --advertise HOST"),
        (("--topic", "no spaces"), "one or more characters other than"),
        (("--topic", "t:many"), "write NAME or NAME:PARTITIONS"),
        (("--topic", "t:0"), "write NAME or NAME:PARTITIONS"),
    ],
)
def test_wrong_options(barnabas: Call, options: tuple[str, ...], words: str) -> None:
    result = barnabas("dev", *options)
    assert (result.code, words in result.err, result.err.count("\n")) == (Exit.USAGE, True, 1)
