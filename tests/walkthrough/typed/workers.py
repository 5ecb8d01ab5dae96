"""The hosts worker1, worker2 and worker3, at whose shells the commands of a book are typed.

As root they are network namespaces that know each other by name; without, lines are typed on this host, where
the ports that a line names are replaced by free ones.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.walkthrough.nodes import PATIENCE_S, QUICK
from tools.nemesis.hosts import Host, Hosts
from tools.ports import free_ports

COUNT = 3
SERVERS = "worker1:9092,worker2:9092,worker3:9092"
PARTITION = re.compile(
    r"^\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)\tElr: (\S*)\tLastKnownElr: (\S*)$",
    re.M,
)
# What a reader changes in config/kraft/server.properties.
EDITED = """\
node.id={node_id}
listeners=PLAINTEXT://{name}:9092,CONTROLLER://{name}:9093
controller.quorum.voters=0@worker1:9093,1@worker2:9093,2@worker3:9093
log.dirs={data}
"""


class Worker:
    """A shell on one host, in a folder with bin/ and config/."""

    def __init__(self, workers: Workers, host: Host) -> None:
        self.node_id = host.id - 1
        self.name = f"worker{host.id}"
        self.folder = host.folder
        self.data = host.folder / "kafka-logs"
        self.config = host.folder / "config" / "kraft" / "server.properties"
        self._workers = workers
        self._prefix = host.prefix
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "BARNABAS_STATE": str(host.folder / "state"),
            "LOG_DIR": str(host.folder / "logs"),
        }

    def type(self, line: str, *, given: str = "") -> str:
        """Types a line that must succeed; returns what it prints."""
        done = self.try_out(line, given=given)
        assert done.returncode == 0, f"{self.name}$ {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def try_out(self, line: str, *, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._prefix, "/bin/sh", "-c", self._workers.here(line)],
            cwd=self.folder,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def begin(self, line: str) -> subprocess.Popen[str]:
        """Types a line that goes on until it is stopped."""
        return subprocess.Popen(
            [*self._prefix, "/bin/sh", "-c", f"exec {self._workers.here(line)}"],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def prepare(self, cluster_id: str, options: Mapping[str, str]) -> None:
        """From `barnabas aliases` to `kafka-storage.sh format`."""
        self.type("barnabas aliases .")
        edited = EDITED.format(node_id=self.node_id, name=self.name, data=self.data)
        names = {line.partition("=")[0] for line in edited.splitlines()}
        kept = [
            line
            for line in self.config.read_text("utf-8").splitlines()
            if line.partition("=")[0] not in names | set(options)
        ]
        more = [f"{name}={value}" for name, value in options.items()]
        text = "\n".join([*kept, self._workers.here(edited), *more])
        self.config.write_text(text + "\n", "utf-8")
        self.type(f"bin/kafka-storage.sh format -t {cluster_id} -c config/kraft/server.properties")

    def start(self) -> None:
        said = self.type("bin/kafka-server-start.sh -daemon config/kraft/server.properties")
        assert "the server listens" in said

    def kill(self) -> None:
        """kill -9 of whatever node runs on this host."""
        for file in (self.folder / "state" / "run").glob(f"node-{self.node_id}-*.pid"):
            pid = int(file.stem.rpartition("-")[2])
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def log(self) -> list[str]:
        path = self.folder / "logs" / f"server-{self.node_id}.log"
        return path.read_text("utf-8").splitlines() if path.exists() else []


class Workers:
    """All hosts."""

    def __init__(self, hosts: Hosts) -> None:
        self._is_isolated = hosts.isolated
        self._addresses = {
            f"worker{host.id}:{standard}": f"{host.name}:{port}"
            for host in hosts.hosts.values()
            for standard, port in ((9092, host.broker_port), (9093, host.controller_port))
        }
        # What ZooKeeper takes besides; free ports where the hosts are one.
        for host in hosts.hosts.values():
            client, peer, election = (2181, 2888, 3888) if hosts.isolated else free_ports(3)
            self._addresses[f"worker{host.id}:2181"] = f"{host.name}:{client}"
            self._addresses[f"worker{host.id}:2888:3888"] = f"{host.name}:{peer}:{election}"
        self.workers = [Worker(self, host) for host in hosts.hosts.values()]

    def __getitem__(self, number: int) -> Worker:
        """worker1 is number 1."""
        return self.workers[number - 1]

    def __iter__(self) -> Iterator[Worker]:
        return iter(self.workers)

    def here(self, line: str) -> str:
        """The line, with the ports of this host where there are no namespaces."""
        if self._is_isolated:
            return line
        for known, address in self._addresses.items():
            line = re.sub(rf"\b{known}\b", address, line)
        return line

    def on_each(self, do: str, *arguments: object) -> None:
        """On all hosts at once: a node of three serves when another one runs."""
        with ThreadPoolExecutor(len(self.workers)) as pool:
            for done in [pool.submit(getattr(worker, do), *arguments) for worker in self.workers]:
                done.result()

    def described(self, topic: str, *flags: str) -> dict[int, tuple[str, str, str]]:
        """Leader, replicas and ISR by partition, as kafka-topics.sh prints them."""
        line = " ".join(["bin/kafka-topics.sh --describe --topic", topic, *flags])
        printed = self.up.type(f"{line} --bootstrap-server {SERVERS}")
        rows = PARTITION.findall(printed)
        return {int(row[1]): row[2:5] for row in rows}

    @property
    def up(self) -> Worker:
        """Where commands are typed that need no certain host."""
        return self.workers[-1]


@contextmanager
def three_workers(folder: Path, options: Mapping[str, str] | None = None) -> Iterator[Workers]:
    """Three nodes with the ids 0 to 2 that run; what they logged is shown if a test fails."""
    with Hosts(folder, COUNT, "worker") as hosts:
        workers = Workers(hosts)
        try:
            cluster_id = workers.workers[0].type("barnabas storage random-uuid").strip()
            workers.on_each("prepare", cluster_id, {**QUICK, **(options or {})})
            workers.on_each("start")
            yield workers
        except BaseException:
            for worker in workers:
                print(f"--- {worker.name}", *worker.log()[-40:], sep="\n")
            raise
        finally:
            for worker in workers:
                worker.kill()
