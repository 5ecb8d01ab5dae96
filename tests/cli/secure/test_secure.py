"""`secure init`: files that nobody else reads, that fit each other, and that start a cluster of three nodes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import CommandError, UsageError
from barnabas.cli.secure.command import run
from barnabas.config.node.node import read_node
from barnabas.config.values.properties import loads
from barnabas.runtime.tls.context import Tls
from barnabas.runtime.tls.options import read_tls_options
from barnabas.security.certificates import read_pem_certificate
from tools.ports import free_run

PATIENCE_S = 120


def test_every_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "safe"
    assert run(["init", str(folder), "--users", "alice,bob"]) == 0
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.name for path in folder.glob("clients/*")} == {
        "ca.pem",
        "admin.properties",
        "alice.properties",
        "bob.properties",
    }
    for path in [folder, *folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    # The key of the authority is in one place only, and no password in a script that processes show.
    secret = (folder / "ca.key").read_text().splitlines()[1]
    assert [path.name for path in paths if secret in path.read_text()] == ["ca.key"]
    password = (folder / "clients/alice.properties").read_text().split('password="')[1].split('"')[0]
    assert len(password) >= 32
    assert password not in (folder / "node-1/format.sh").read_text()


def test_nodes_trust_each_other_and_have_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "safe"
    assert run(["init", str(folder), "--hosts", "a.example,10.0.0.2,a.example", "--port", "9000"]) == 0
    listeners = []
    for number in (1, 2, 3):
        text = (folder / f"node-{number}/server.properties").read_bytes()
        node = read_node(loads(text))
        listeners.append(node.settings["listeners"])
        options = read_tls_options(node.settings, "CONTROLLER")
        Tls(options, server=True)
        assert options.client_auth == "required"
        assert options.key is not None
        certificate = read_pem_certificate(options.key.chain[0])
        assert certificate.names == (("a.example", "10.0.0.2")[number == 2],)
        assert certificate.subject == f"CN=node-{number}"
    assert listeners == [
        "SASL_SSL://a.example:9000,CONTROLLER://a.example:9001",
        "SASL_SSL://10.0.0.2:9000,CONTROLLER://10.0.0.2:9001",
        "SASL_SSL://a.example:9002,CONTROLLER://a.example:9003",
    ]


def test_keys_are_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "safe"
    assert run(["init", str(folder)]) == 0
    before = (folder / "ca.key").read_bytes()
    with pytest.raises(CommandError, match="is not an empty folder"):
        run(["init", str(folder)])
    assert (folder / "ca.key").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--users", "admin"],
        ["--users", "a,a"],
        ["--users", 'x"y'],
        ["--hosts", "a b"],
        ["--hosts", "a", "--nodes", "1"],
    ],
)
def test_wrong_arguments_write_nothing(tmp_path: Path, arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        run(["init", str(tmp_path / "safe"), *arguments])
    assert not (tmp_path / "safe").exists()


def test_the_written_files_start_a_cluster_of_three(tmp_path: Path) -> None:
    folder = tmp_path / "safe"
    port = free_run(6)[0]
    assert run(["init", str(folder), "--port", str(port), "--users", "alice"]) == 0
    barnabas = f"{sys.executable} -m barnabas"
    environment = {**os.environ, "BARNABAS": barnabas, "BARNABAS_STATE": str(tmp_path / "state")}
    processes = []
    try:
        for number in (1, 2, 3):
            home = folder / f"node-{number}"
            subprocess.run(["sh", str(home / "format.sh")], check=True, env=environment, capture_output=True)
            command = [*barnabas.split(), "server-start", str(home / "server.properties")]
            with (tmp_path / f"log-{number}").open("wb") as log:
                processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        deadline = time.monotonic() + PATIENCE_S
        # Until three brokers are there, a topic cannot have its replicas.
        while (
            made := _topics(folder, port, "admin", "--create", "--topic", "orders", "--if-not-exists")
        ).returncode:
            assert time.monotonic() < deadline, made.stderr
        described = _topics(folder, port + 2, "admin", "--describe", "--topic", "orders")
        assert "ReplicationFactor: 3" in described.stdout
        refused = _topics(folder, port, "alice", "--create", "--topic", "hers")
        assert refused.returncode != 0
        assert "uthoriz" in refused.stderr
    finally:
        for process in processes:
            process.kill()
            process.wait(PATIENCE_S)


def _topics(folder: Path, port: int, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = str(folder / f"clients/{user}.properties")
    command = [sys.executable, "-m", "barnabas", "topics", "--bootstrap-server", f"localhost:{port}"]
    command += ["--command-config", config, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
