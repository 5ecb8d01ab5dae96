"""One cluster on a real ZooKeeper with brokers of Apache Kafka 3.9.1 and brokers of barnabas.

Apache Kafka's are 1 and 2, ours 3 and 4; ZooKeeper is the oracle's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tools.ports import free_oracle_base

VERSION = "3.9.1"
APACHE = "apache"
OURS = "ours"
KINDS = {1: APACHE, 2: APACHE, 3: OURS, 4: OURS}
ZOOKEEPER_PORT = 201
SESSION_MS = 6_000
PATIENCE_S = 120.0
LOOK_EACH_S = 0.1
# Who becomes the controller is chance; one of four each time.
MAX_ELECTIONS = 60
OPTIONS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
}
T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """The first result that is not None or False."""
    limit = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < limit, f"{what}: not within {patience_s} s"
        time.sleep(LOOK_EACH_S)
    return found


class BothKinds:
    """The cluster, and what ZooKeeper says of it."""

    def __init__(self, oracle: Callable[..., Any], home: Path) -> None:
        self.home = home
        self.port = free_oracle_base(ZOOKEEPER_PORT)
        self._oracle = oracle
        self._ours: dict[int, subprocess.Popen[bytes]] = {}
        self._zookeeper: KazooClient | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{self.port + number}" for number in KINDS)

    @property
    def zookeeper(self) -> KazooClient:
        if self._zookeeper is None:
            self._zookeeper = KazooClient(f"localhost:{self.port + ZOOKEEPER_PORT}")
            self._zookeeper.start(timeout=PATIENCE_S)
        return self._zookeeper

    # Processes

    def up(self) -> None:
        given = [word for name, value in OPTIONS.items() for word in ("--set", f"{name}={value}")]
        counts = ["--brokers", "2", "--zookeepers", "1", "--port", str(self.port)]
        self._call("up", "--dir", str(self.home), "--mode", "zk", *counts, *given)
        for number, kind in KINDS.items():
            if kind == OURS:
                self.start(number)
        wait_for("all brokers", lambda: len(self.children("/brokers/ids") or ()) == len(KINDS))

    def start(self, number: int) -> None:
        if KINDS[number] == APACHE:
            self._call("start", "--dir", str(self.home), f"broker-{number}")
            return
        folder = self.home / f"ours-{number}"
        folder.mkdir(exist_ok=True)
        given = {
            "broker.id": number,
            "listeners": f"PLAINTEXT://localhost:{self.port + number}",
            "log.dirs": folder / "data",
            "zookeeper.connect": f"localhost:{self.port + ZOOKEEPER_PORT}",
            **OPTIONS,
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in given.items()), "utf-8")
        with (folder / "server.log").open("ab") as log:
            self._ours[number] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(properties)],
                stdout=log,
                stderr=log,
                env={**os.environ, "BARNABAS_STATE": str(self.home / "state")},
            )
        wait_for(f"broker {number}", lambda: self._listens(number))

    def _listens(self, number: int) -> bool:
        assert self._ours[number].poll() is None, self.tail(number)
        with suppress(OSError), socket.create_connection(("localhost", self.port + number), timeout=1):
            return True
        return False

    def tail(self, number: int) -> str:
        return (self.home / f"ours-{number}" / "server.log").read_text("utf-8")[-4_000:]

    def kill(self, number: int) -> None:
        self._end(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        self._end(number, signal.SIGTERM)

    def _end(self, number: int, signal_number: int) -> None:
        if KINDS[number] == APACHE:
            options = ["--kill"] if signal_number == signal.SIGKILL else []
            self._call("stop", "--dir", str(self.home), f"broker-{number}", *options)
        elif number in self._ours:
            process = self._ours.pop(number)
            process.send_signal(signal_number)
            process.wait(PATIENCE_S)

    def down(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()
            self._zookeeper.close()
        for number in list(self._ours):
            self._end(number, signal.SIGKILL)
        self._oracle(VERSION, "down", "--dir", str(self.home), "--kill")

    # Apache Kafka's tools

    def _call(self, *args: str) -> str:
        done = self._oracle(VERSION, *args)
        assert done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        output: str = done.stdout
        return output

    def tool(self, name: str, *args: str) -> str:
        return self._call("tool", name, "--bootstrap-server", self.bootstrap, *args)

    # What ZooKeeper says

    def children(self, path: str) -> list[str] | None:
        try:
            return sorted(self.zookeeper.get_children(path))
        except NoNodeError:
            return None

    def json_of(self, path: str) -> Any:
        try:
            return json.loads(self.zookeeper.get(path)[0])
        except NoNodeError:
            return None

    def controller(self) -> int | None:
        found = self.json_of("/controller")
        return None if found is None else int(found["brokerid"])

    def controlled_by(self, kind: str) -> int:
        """Has the controller elected again, as an administrator does it, until one of this kind is."""
        for _ in range(MAX_ELECTIONS):
            broker_id = wait_for("a controller", self.controller)
            if KINDS[broker_id] == kind:
                return broker_id
            epoch = int(self.zookeeper.get("/controller_epoch")[0])
            with suppress(NoNodeError):
                self.zookeeper.delete("/controller")
            wait_for("an election", lambda epoch=epoch: self._is_after(epoch))  # type: ignore[misc]
        raise AssertionError(f"no controller of {kind} in {MAX_ELECTIONS} elections")

    def _is_after(self, epoch: int) -> bool:
        return int(self.zookeeper.get("/controller_epoch")[0]) > epoch and self.controller() is not None

    def states(self, topic: str) -> list[dict[str, Any]]:
        root = f"/brokers/topics/{topic}/partitions"
        return [self.json_of(f"{root}/{number}/state") for number in self.children(root) or ()]

    def wait_for_isr(self, topic: str, replicas: set[int]) -> None:
        """Every partition has a live leader, and of these replicas those that it has are in sync."""

        def are_in_sync() -> bool:
            assigned = self.json_of(f"/brokers/topics/{topic}")["partitions"]
            return all(
                set(state["isr"]) == set(assigned[str(number)]) & replicas and state["leader"] in replicas
                for number, state in enumerate(self.states(topic))
            )

        wait_for(f"ISR of {topic} among {sorted(replicas)}", are_in_sync)


@contextmanager
def both_kinds(oracle: Callable[..., Any], home: Path) -> Iterator[BothKinds]:
    cluster = BothKinds(oracle, home)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
