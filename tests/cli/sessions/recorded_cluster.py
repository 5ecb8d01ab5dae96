"""A cluster of the shape in which golden/cli/kraft-4.1.0 was recorded: three brokers, three controllers.

The nodes have the recorded server.properties, with other ports.  What happens to the cluster between the commands
are `&` lines too:

    & place TOPIC 1:2,2:3 [OPTION=VALUE...]   the topic is created (again), at these brokers
    & move TOPIC 1:2,2:3                      its replicas move there, with their records
    & truncate TOPIC PARTITION OFFSET         records before the offset are deleted
    & in-sync                                 until all replicas are in sync
    & elect                                   the preferred replicas lead
    & unthrottle                              the limits of moving replicas are lifted
    & forget PREFIX...                        groups whose ids begin so are deleted
    & kill NODE, & start NODE                 as kill -9 does; and back again
    & fresh FILE NODE                         the node's configuration, with a data folder that does not exist
    & copy FILE FILE                          a file of a node
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.cli.main import main
from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType
from barnabas.client.admin.reassignments import ElectionType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.errors.data import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin
from tests.cli.sessions.actors import Actors
from tests.cli.sessions.book import wait_until
from tests.cli.sessions.sessions import Places
from tools.ports import free_ports

RECORDED = Path(__file__).parents[2] / "data" / "cli" / "three-brokers"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
STOP_PATIENCE_S = 120
# A killed broker is fenced after this time; the walk waits for it twice.
QUICK = {"broker.session.timeout.ms": "6000"}
THROTTLES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_PORT = re.compile(r"(?<=localhost:)19[67]0\d")


class RecordedCluster:
    """Nodes as processes, by their recorded names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = sorted((RECORDED / "cluster").glob("*.server.properties"))
        self.names = [file.name.removesuffix(".server.properties") for file in files]
        found = {number for file in files for number in _PORT.findall(file.read_text("utf-8"))}
        self.ports = dict(zip(sorted(found), free_ports(len(found)), strict=True))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for name in self.names:
            self._format(name)
        for name in self.names:
            self._launch(name)
        for name in self.names:
            self._wait(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Brokers go first: they hand their leaderships over to nobody, but must find a controller."""
        for role in ("broker", "controller"):
            stopping = [process for name, process in self._processes.items() if name.startswith(role)]
            for process in stopping:
                process.send_signal(signal.SIGKILL if error else signal.SIGTERM)
            for process in stopping:
                try:
                    process.wait(STOP_PATIENCE_S)
                finally:
                    process.kill()

    @property
    def places(self) -> Places:
        brokers = [f"localhost:{self.ports[f'1960{number}']}" for number in (1, 2, 3)]
        return Places(brokers[0], f"localhost:{self.ports['19701']}", self.folder, ",".join(brokers))

    def config(self, name: str) -> Path:
        return self.folder / name / "server.properties"

    def _format(self, name: str) -> None:
        text = (RECORDED / "cluster" / f"{name}.server.properties").read_text("utf-8")
        text = _PORT.sub(lambda found: str(self.ports[found[0]]), text).replace("FILES", str(self.folder))
        if name.startswith("controller"):
            text += "".join(f"{key}={value}\n" for key, value in QUICK.items())
        self.config(name).parent.mkdir()
        self.config(name).write_text(text, "utf-8")
        assert main(["storage", "format", "-t", CLUSTER_ID, "-c", str(self.config(name))]) == 0

    def _launch(self, name: str) -> None:
        environment = {**os.environ, "BARNABAS_STATE": str(self.folder / "state")}
        with (self.folder / name / "server.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(self.config(name))],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )

    def _wait(self, name: str) -> None:
        """A node listens when it serves: a broker when all its partitions are led."""
        listeners = re.search(r"^listeners=\w+://localhost:(\d+)", self.config(name).read_text("utf-8"), re.M)
        assert listeners is not None
        address = ("localhost", int(listeners[1]))
        process, log = self._processes[name], self.folder / name / "server.log"

        def is_up() -> bool:
            assert process.poll() is None, f"{name} did not start:\n{log.read_text('utf-8')[-2000:]}"
            with socket.socket() as probe:
                return probe.connect_ex(address) == 0

        wait_until(is_up, f"{name} is up")

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_PATIENCE_S)

    def start(self, name: str) -> None:
        self._launch(name)
        self._wait(name)


class Cluster(Protocol):
    """What can happen to nodes; `folder` has the files that commands name."""

    folder: Path

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def places(self) -> Places: ...

    def config(self, name: str) -> Path: ...

    def kill(self, name: str) -> None: ...

    def start(self, name: str) -> None: ...


class ClusterActors(Actors):
    """Clients, and what happens to the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.places.servers)
        self._cluster = cluster
        self._admin_config = {"bootstrap.servers": cluster.places.servers}
        self._verbs: dict[str, Callable[..., None]] = {
            "place": self._place,
            "move": self._move,
            "truncate": self._truncate,
            "in-sync": self._wait_for_replicas,
            "elect": self._elect,
            "unthrottle": self._unthrottle,
            "forget": self._forget,
            "kill": cluster.kill,
            "start": cluster.start,
            "fresh": self._fresh,
            "copy": self._copy,
        }

    def act(self, line: str) -> None:
        words = line.split()
        if words[:1] == ["&"] and words[1] in self._verbs:
            self._verbs[words[1]](*words[2:])
        else:
            super().act(line)

    def _place(self, topic: str, replicas: str, *configs: str) -> None:
        wanted = _assignment(replicas)
        options = dict(option.split("=", 1) for option in configs)
        with Admin(self._admin_config) as admin:
            # Only the controller knows for sure whether the topic exists.
            deleted = admin.delete_topics([topic]).errors.get(topic)
            if deleted is not None and not isinstance(deleted, UnknownTopicOrPartitionError):
                raise deleted
            created: list[Uuid] = []

            def is_created() -> bool:
                """On ZooKeeper the old one goes only after it was said to be deleted."""
                try:
                    new = admin.create_topics([NewTopic(topic, assignments=wanted, configs=options)])[topic]
                except TopicAlreadyExistsError:
                    return False
                created.append(new.id)
                return True

            wait_until(is_created, f"{topic} is created again")
            self._wait_for(admin, topic, wanted, *created)

    def _move(self, topic: str, replicas: str) -> None:
        wanted = _assignment(replicas)
        targets = {TopicPartition(topic, number): ids for number, ids in wanted.items()}
        with Admin(self._admin_config) as admin:
            admin.alter_partition_reassignments(targets).raise_first()
            self._wait_for(admin, topic, wanted)

    def _wait_for(
        self, admin: Admin, topic: str, wanted: dict[int, list[int]], topic_id: Uuid | None = None
    ) -> None:
        def is_there() -> bool:
            try:
                described = admin.describe_topics([topic])[topic]
            except KafkaError:
                return False
            if topic_id not in (None, described.id):
                return False
            found = {one.partition: list(one.replicas) for one in described.partitions}
            return found == wanted and all(one.leader is not None for one in described.partitions)

        wait_until(is_there, f"{topic} is at {wanted}")

    def _wait_for_replicas(self) -> None:
        def is_in_sync() -> bool:
            topics = admin.describe_topics(admin.list_topics(include_internal=True))
            partitions = [one for topic in topics.values() for one in topic.partitions]
            return all(sorted(one.isr) == sorted(one.replicas) for one in partitions)

        with Admin(self._admin_config) as admin:
            wait_until(is_in_sync, "all replicas are in sync")

    def _elect(self) -> None:
        with Admin(self._admin_config) as admin:
            admin.elect_leaders(ElectionType.PREFERRED).raise_first()

    def _truncate(self, topic: str, partition: str, offset: str) -> None:
        with Admin(self._admin_config) as admin:
            admin.delete_records({TopicPartition(topic, int(partition)): int(offset)}).raise_first()

    def _unthrottle(self) -> None:
        lifted = [AlterConfig(name, operation=AlterOperation.DELETE) for name in THROTTLES]
        brokers = [name.removeprefix("broker-") for name in self._cluster.names if name.startswith("broker")]
        with Admin(self._admin_config) as admin:
            admin.incremental_alter_configs(
                {ConfigResource(ConfigResourceType.BROKER, broker): lifted for broker in brokers}
            ).raise_first()

    def _forget(self, *prefixes: str) -> None:
        with Admin(self._admin_config) as admin:
            listed = admin.list_groups().groups
            found = [one.group_id for one in listed if one.group_id.startswith(prefixes)]
            admin.delete_groups(found).raise_first()

    def _fresh(self, file: str, node: str) -> None:
        text = self._cluster.config(node).read_text("utf-8")
        text = re.sub(r"^log\.dirs=.*$", f"log.dirs={self._cluster.folder}/fresh", text, flags=re.M)
        (self._cluster.folder / file).write_text(text, "utf-8")

    def _copy(self, source: str, target: str) -> None:
        (self._cluster.folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._cluster.folder / source, self._cluster.folder / target)


def _assignment(replicas: str) -> dict[int, list[int]]:
    """`1:2,2:3`, as `topics --replica-assignment` reads it."""
    return {
        number: [int(broker) for broker in one.split(":")] for number, one in enumerate(replicas.split(","))
    }
