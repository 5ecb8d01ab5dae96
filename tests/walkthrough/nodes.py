"""Clusters of real processes, from `storage format` to kill -9."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from barnabas.base.ids import Uuid
from barnabas.client import NewTopic
from barnabas.client.admin.cluster_calls import QuorumInfo
from barnabas.client.errors import KafkaError
from barnabas.client.sync import Admin
from barnabas.config.values.properties import loads
from barnabas.runtime.random import SystemRandom, random_uuid
from tools.ports import free_ports

PATIENCE_S = 90
CLUSTER_ID = "IbvkabpoSYqtPFrap8D0hg"
BROKER = "broker"
CONTROLLER = "controller"
COMBINED = "broker,controller"
# How a node of a dynamic quorum is formatted that is not among the first voters.
OBSERVER = "--no-initial-controllers"
# Shorter than the defaults, so that elections take less than a second; the rules are the same.
QUICK: Mapping[str, str] = {
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "800",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    # As in the sample files.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
}

T = TypeVar("T")


def eventually(
    check: Callable[[], T | None], what: str = "it did not happen in time", patience_s: float = PATIENCE_S
) -> T:
    """Returns the first result that is neither None nor False."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        result = check()
        if result is not None and result is not False:
            return result
        time.sleep(0.02)
    raise AssertionError(what)


def barnabas(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command, typed by a user."""
    return subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class Node:
    """One process.  Its roles: broker, controller, or both."""

    def __init__(self, folder: Path, node_id: int, roles: str, options: Mapping[str, str]) -> None:
        self.id = node_id
        self.roles = roles
        self.folder = folder / f"node-{node_id}"
        self.data = self.folder / "data"
        self.config = self.folder / "server.properties"
        self.log = self.folder / "server.log"
        self.port, self.controller_port = free_ports(2)
        # Where others reach its controller; a test may put a proxy there.
        self.advertised_controller_port = self.controller_port
        self.options = dict(options)
        self.process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir(parents=True)

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def write(self, voters: str, *, dynamic: bool = False) -> None:
        """Writes its configuration; with `dynamic`, the voters are in the log, and these are places to look."""
        listeners = [f"PLAINTEXT://127.0.0.1:{self.port}"] if self.is_broker else []
        if self.is_controller:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_port}")
        options = {
            "process.roles": self.roles,
            "node.id": str(self.id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers" if dynamic else "controller.quorum.voters": voters,
            "log.dirs": str(self.data),
            **QUICK,
            **self.options,
        }
        self.config.write_text("".join(f"{name}={value}\n" for name, value in options.items()), "utf-8")

    def format(self, cluster_id: str = CLUSTER_ID, *options: str) -> None:
        done = barnabas("storage", "format", "-t", cluster_id, "-c", str(self.config), *options)
        assert done.returncode == 0, done.stderr

    @property
    def directory_id(self) -> Uuid:
        properties = loads((self.data / "meta.properties").read_bytes())
        return Uuid.parse(properties["directory.id"])

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(self.config)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        """As by Ctrl+C or `server-stop`; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def ended(self) -> int:
        """Waits until it has ended by itself; returns the exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def said(self) -> list[str]:
        return self.log.read_text("utf-8").splitlines() if self.log.exists() else []

    def says(self, text: str) -> list[str]:
        """Waits until its log has this text; returns the lines that have it."""
        return eventually(
            lambda: [line for line in self.said() if text in line] or None,
            f"node {self.id} did not say {text!r}",
        )


class Cluster:
    """Nodes with one list of voters."""

    def __init__(
        self,
        folder: Path,
        roles: Mapping[int, str],
        options: Mapping[str, str] | None = None,
        *,
        dynamic: bool = False,
    ) -> None:
        self.folder = folder
        self.nodes = {node_id: Node(folder, node_id, each, options or {}) for node_id, each in roles.items()}
        self._is_dynamic = dynamic

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    @property
    def voters(self) -> str:
        return ",".join(
            f"{node.id}@127.0.0.1:{node.advertised_controller_port}"
            for node in self.nodes.values()
            if node.is_controller
        )

    @property
    def controllers(self) -> str:
        """The addresses of all controllers."""
        return ",".join(voter.partition("@")[2] for voter in self.voters.split(","))

    def up(self) -> Cluster:
        """Formats and starts all nodes; returns when all brokers are registered and unfenced."""
        if self._is_dynamic:
            self._format_dynamic()
        else:
            for node in self.nodes.values():
                node.write(self.voters)
            _at_once([node.format for node in self.nodes.values()])
        self.start(*self.nodes)
        self.wait_for_brokers()
        return self

    def _format_dynamic(self) -> None:
        """The first voters are those that exist now (KIP-853)."""
        ids = {voter: random_uuid(SystemRandom()) for voter in self.voters.split(",")}
        initial = ",".join(f"{voter}:{directory_id}" for voter, directory_id in ids.items())
        formats = []
        for node in self.nodes.values():
            node.write(self.controllers, dynamic=True)
            kind = ("--initial-controllers", initial) if node.is_controller else (OBSERVER,)
            formats.append(partial(node.format, CLUSTER_ID, *kind))
        _at_once(formats)

    def add(self, node_id: int, roles: str) -> Node:
        """A new node of a dynamic quorum, which only observes; it is not started yet."""
        node = self.nodes[node_id] = Node(self.folder, node_id, roles, {})
        node.write(self.controllers, dynamic=True)
        node.format(CLUSTER_ID, OBSERVER)
        return node

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.nodes[node_id].start()

    def bootstrap(self, *node_ids: int) -> str:
        """The addresses of these brokers, or of all that are up."""
        chosen = node_ids or [node.id for node in self.nodes.values() if node.is_broker and node.is_up]
        return ",".join(f"127.0.0.1:{self.nodes[node_id].port}" for node_id in chosen)

    def admin(self, *node_ids: int, **options: object) -> Admin:
        given = {"request_timeout_ms": 10_000, "default_api_timeout_ms": 60_000, **options}
        config = {name.replace("_", "."): value for name, value in given.items()}
        return Admin({"bootstrap.servers": self.bootstrap(*node_ids), **config})

    def wait_for_brokers(self) -> None:
        brokers = {node.id for node in self.nodes.values() if node.is_broker and node.is_up}
        if not brokers:
            return
        for node_id in brokers:
            self.nodes[node_id].says(" serves ")

        def all_there() -> bool:
            with self.admin() as admin:
                return {broker.id for broker in admin.describe_cluster().nodes} >= brokers

        eventually(lambda: _unless_failed(all_there))

    def leader(self, *, of: Sequence[int] = ()) -> int:
        """The active controller, as the brokers that are up know it."""

        return self.leader_and_epoch(of=of)[0]

    def leader_and_epoch(self, *, of: Sequence[int] = ()) -> tuple[int, int]:
        def known() -> tuple[int, int] | None:
            quorum = self.quorum(*of)
            is_up = quorum.leader_id >= 0 and self.nodes[quorum.leader_id].is_up
            return (quorum.leader_id, quorum.leader_epoch) if is_up else None

        return eventually(known, "there is no active controller")

    def quorum(self, *of: int) -> QuorumInfo:
        """What the active controller says of its quorum."""

        def described() -> QuorumInfo:
            with self.admin(*of, default_api_timeout_ms=3_000, request_timeout_ms=2_000) as admin:
                return admin.describe_metadata_quorum()

        return eventually(lambda: _unless_failed(described), "there is no active controller")

    def barnabas(self, command: str, *arguments: str, given: str | None = None) -> str:
        """A command against this cluster; it must succeed."""
        done = barnabas(command, "--bootstrap-server", self.bootstrap(), *arguments, given=given)
        assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def down(self) -> None:
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                node.process.kill()
                node.process.wait(PATIENCE_S)


def _at_once(actions: Sequence[Callable[[], None]]) -> None:
    """Commands that take turns with the processor: on hosts of their own they would run together too."""
    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


def _unless_failed(check: Callable[[], T]) -> T | None:
    try:
        return check()
    except (KafkaError, OSError):
        return None


@contextmanager
def cluster_of(
    folder: Path,
    roles: Mapping[int, str],
    options: Mapping[str, str] | None = None,
    *,
    dynamic: bool = False,
) -> Iterator[Cluster]:
    """A cluster that is up; what it said is shown if the test fails."""
    cluster = Cluster(folder, roles, options, dynamic=dynamic)
    try:
        yield cluster.up()
    except BaseException:
        for node in cluster.nodes.values():
            print(f"--- node {node.id}", *node.said()[-40:], sep="\n")
        raise
    finally:
        cluster.down()


def combined(count: int) -> dict[int, str]:
    return dict.fromkeys(range(1, count + 1), COMBINED)


def create(admin: Admin, name: str, partitions: int = 1, replicas: int = 1) -> KafkaError | None:
    """Creates a topic; returns the error, if any."""
    outcomes = admin.create_topics([NewTopic(name, partitions, replicas)])
    error: KafkaError | None = outcomes.errors.get(name)
    return error
