"""`barnabas server-start`, `server-stop`, `status`, `dev`: as processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.single_request import send_request
from barnabas.cli.server.running_servers import Registration, ServerInfo, running_servers
from barnabas.cli.server.server_start import parse_metrics
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.network.network import Address
from tests.cli.conftest import Call
from tests.cli.servers import PATIENCE_S, Site
from tools.ports import free_ports


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    yield Site(tmp_path)
    for info in running_servers(FolderDisk()):
        os.kill(info.pid, signal.SIGKILL)


def topics(site: Site) -> list[str | None]:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    return [
        one.name for one in send_request(Address("127.0.0.1", site.port), request, 9, MetadataResponse).topics
    ]


def test_the_lifecycle_of_a_daemon(site: Site, barnabas: Call) -> None:
    """M-J2"""
    site.format()
    [metrics_port] = free_ports(1)
    started = site.start("--metrics", str(metrics_port), "--log-format", "json")
    assert started.returncode == 0, started.stderr
    assert "listens (pid " in started.stdout

    topic = CreateTopicsRequest.CreatableTopic(
        name="kept", num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    answer = send_request(
        Address("127.0.0.1", site.port), CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse
    )
    assert answer.topics[0].error_code == 0

    barnabas("--version")  # The output so far is irrelevant.
    shown = barnabas("status")
    assert shown.code == 0
    assert "node 1  pid " in shown.out
    assert f"PLAINTEXT 127.0.0.1:{site.port}" in shown.out
    assert "1 topic, 2 partitions" in shown.out
    (row,) = json.loads(barnabas("status", "-o", "json").out)
    assert (row["node_id"], row["roles"], row["answers"]) == (1, ["broker", "controller"], True)

    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
        text = page.read().decode()
    assert "barnabas_topics 1\n" in text
    assert 'barnabas_request_seconds_count{api="CreateTopics"} 1\n' in text

    again = site.run("server-start", str(site.config))
    assert again.returncode == Exit.FAILED
    assert "is using this folder" in again.stderr

    assert barnabas("server-stop", "--node-id", "7").code == Exit.NOT_FOUND
    stopped = barnabas("server-stop", "--node-id", "1", "--process-role", "broker")
    assert stopped.code == 0, stopped.err
    assert "has stopped" in stopped.out
    assert (site.data / ".kafka_cleanshutdown").exists()

    lines = [json.loads(line) for line in Path(row["log"]).read_text("utf-8").splitlines()]
    assert any("serves PLAINTEXT" in line["message"] for line in lines)
    assert lines[-1]["message"] == "node 1 has stopped"
    assert not [line for line in lines if line["level"] in ("ERROR", "CRITICAL")]

    assert barnabas("status").code == Exit.NOT_FOUND
    assert site.start().returncode == 0
    assert topics(site) == ["kept"]
    assert barnabas("server-stop").code == 0


def test_a_start_that_takes_too_long_is_aborted(site: Site) -> None:
    site.write(server_max_startup_time_ms="0")
    site.format()
    done = site.run("server-start", str(site.config))
    assert done.returncode == Exit.FAILED
    line = done.stderr.splitlines()[-1]
    assert line.startswith("barnabas: the start took longer than server.max.startup.time.ms=0")


@pytest.mark.parametrize("numbers", [[signal.SIGINT], [signal.SIGHUP], [signal.SIGTERM, signal.SIGINT]])
def test_a_signal_stops_a_server_in_the_foreground(site: Site, numbers: list[signal.Signals]) -> None:
    """Two signals at once, as timeout(1) sends them, do the same."""
    site.format()
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "server-start", str(site.config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "serves PLAINTEXT" in line:
            break
    for number in numbers:
        process.send_signal(number)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE_S) == 0
    assert "node 1 has stopped" in rest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_ends_the_server_and_it_says_so(site: Site, small_disk: Path) -> None:
    """F4: it stayed for five minutes, port open, nothing served, and blamed an input/output error."""
    site.write(log_dirs=str(small_disk / "data"))
    site.format()
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "server-start", str(site.config)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "serves PLAINTEXT" in line:
            break
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(1 << 12)):
            pass
    address = Address("127.0.0.1", site.port)
    for number in range(1_000):
        topic = CreateTopicsRequest.CreatableTopic(
            name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        try:
            answer = send_request(address, CreateTopicsRequest(topics=[topic]), 7, CreateTopicsResponse)
        except Exception:
            break
        if answer.topics[0].error_code:
            break
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(PATIENCE_S) != 0
    assert rest.splitlines()[-1].startswith("barnabas: ")
    assert "no space is left on the device; free space there and restart" in rest.splitlines()[-1]


def test_a_daemon_reports_why_it_does_not_start(site: Site) -> None:
    refused = site.start()
    assert refused.returncode == Exit.FAILED
    assert "not formatted" in refused.stderr
    assert "barnabas storage format" in refused.stderr
    assert refused.stderr.count("\n") == 1
    # Also in its log; it never ran, so the log does not say that it has stopped.
    (line,) = (site.folder / "logs" / "server-1.log").read_text("utf-8").splitlines()
    assert " CRITICAL " in line and "not formatted" in line


def test_a_port_in_use(site: Site) -> None:
    site.format()
    with socket.create_server(("127.0.0.1", site.port)):
        refused = site.run("server-start", str(site.config))
    assert refused.returncode == Exit.FAILED
    last = refused.stderr.splitlines()[-1]
    assert f"cannot listen on PLAINTEXT://127.0.0.1:{site.port}" in last
    assert "stop it or change listeners" in last
    assert "Traceback" not in refused.stderr


def test_a_metrics_port_in_use(site: Site, barnabas: Call) -> None:
    site.format()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = barnabas("server-start", str(site.config), "--metrics", str(port))
    assert refused.code == Exit.FAILED
    assert f"cannot listen on 127.0.0.1:{port}" in refused.err.splitlines()[-1]
    assert "change --metrics" in refused.err
    assert "serves PLAINTEXT" not in refused.err


@pytest.mark.parametrize("variable", ["BARNABAS_STATE", "LOG_DIR"])
def test_folders_of_the_user_that_cannot_be_used(
    site: Site, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    site.format()
    monkeypatch.setenv(variable, str(site.config))
    refused = site.start()
    assert refused.returncode == Exit.FAILED
    assert refused.stderr.startswith(f"barnabas: {site.config}: ")
    assert f"set {variable} to a folder" in refused.stderr


def test_an_address_that_this_machine_does_not_have(site: Site) -> None:
    site.format()
    refused = site.run(
        "server-start",
        str(site.config),
        "--override",
        f"listeners=PLAINTEXT://192.0.2.1:{site.port},CONTROLLER://127.0.0.1:{site.controller_port}",
    )
    assert refused.returncode == Exit.FAILED
    assert "this machine has no such address" in refused.stderr


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"log_dirs": "/proc/nothing/here"}, "none of log.dirs can be used"),
        (
            {
                "process_roles": "",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "controller_listener_names": "",
                "zookeeper_connect": "127.0.0.1:2181",
            },
            "ZooKeeper mode",
        ),
        ({"num_partitions": "many"}, "num.partitions"),
        ({"node_id": "2", "controller_quorum_voters": "2@127.0.0.1:1"}, "belongs to node 1"),
    ],
)
def test_configurations_that_cannot_start(
    site: Site, barnabas: Call, overrides: dict[str, str], message: str
) -> None:
    site.format()
    site.write(**overrides)
    refused = barnabas("server-start", str(site.config))
    assert refused.code == Exit.FAILED
    assert message in refused.err.splitlines()[-1]


def test_a_missing_file(barnabas: Call) -> None:
    result = barnabas("server-start", "/no/such/file.properties")
    assert result.code == Exit.NOT_FOUND
    assert "/no/such/file.properties" in result.err


def test_too_few_open_files(site: Site) -> None:
    site.format()
    refused = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n 10; exec {sys.executable} -m barnabas server-start {site.config}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == Exit.FAILED
    assert "ulimit -n" in refused.stderr.splitlines()[-1]


def test_dev_needs_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    """M-A1"""
    environment = {**os.environ, "BARNABAS_STATE": str(tmp_path / "state"), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "dev", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    place = first.split("listens on ")[1].split()[0]
    host, _, port = place.rpartition(":")
    assert host == "127.0.0.1"
    assert list(tmp_path.glob("barnabas-dev-*"))
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    answer = send_request(Address(host, int(port)), request, 9, MetadataResponse)
    assert [(one.host, one.port) for one in answer.brokers] == [(host, int(port))]
    process.send_signal(signal.SIGINT)
    out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(PATIENCE_S) == 0
    process.stdout.close()
    process.stderr.close()
    assert f"bootstrap servers  {place}" in out
    assert not [line for line in err.splitlines() if " WARNING " not in line]
    assert not list(tmp_path.glob("barnabas-dev-*"))


def test_metrics_addresses() -> None:
    assert parse_metrics(None) is None
    assert parse_metrics("9404") == Address("127.0.0.1", 9404)
    assert parse_metrics("0.0.0.0:9404") == Address("0.0.0.0", 9404)
    assert parse_metrics("[::1]:9404") == Address("::1", 9404)
    for text in ("x", "1:x", "70000", ""):
        with pytest.raises(UsageError):
            parse_metrics(text)


def test_files_of_crashed_servers_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_STATE", str(tmp_path))
    disk = FolderDisk()
    assert running_servers(disk) == []
    info = ServerInfo(os.getpid(), 3, ["broker"], "c", 0, {"PLAINTEXT": "h:1"})
    registration = Registration(disk, info)
    (tmp_path / "run" / "node-9-99999.pid").write_text("{}", "utf-8")
    assert running_servers(disk) == [info]
    assert not (tmp_path / "run" / "node-9-99999.pid").exists()
    registration.remove()
    assert running_servers(disk) == []
    assert list((tmp_path / "run").iterdir()) == []


def test_no_server_responds() -> None:
    [port] = free_ports(1)
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with pytest.raises(CommandError) as refused:
        send_request(Address("127.0.0.1", port), request, 9, MetadataResponse)
    assert refused.value.code is Exit.UNREACHABLE
