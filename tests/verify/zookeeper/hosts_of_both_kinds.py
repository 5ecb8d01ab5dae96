"""Three hosts with a server of ZooKeeper and a broker each, which is of either kind.

Each host is a namespace of the network whose packets can be dropped, for which these checks need root.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.runtime.zookeeper.four_letter_words import server_state
from tests.verify.replication.brokers import Brokers
from tests.verify.replication.recorded_load import PARTITIONS
from tests.verify.zookeeper.both_kinds import MAX_ELECTIONS, PATIENCE_S, VERSION, wait_for
from tools.nemesis.cluster import ZOOKEEPER_SETTINGS, Cluster, System
from tools.nemesis.hosts import Hosts

OURS = System(on_zookeeper=True)
APACHE = System(VERSION, on_zookeeper=True)
LOGS = [
    *PARTITIONS,
    *(
        ("__consumer_offsets", number)
        for number in range(int(ZOOKEEPER_SETTINGS["offsets.topic.num.partitions"]))
    ),
    *(
        ("__transaction_state", number)
        for number in range(int(ZOOKEEPER_SETTINGS["transaction.state.log.num.partitions"]))
    ),
]


class BothKindsOnHosts:
    """A running cluster, and what ZooKeeper says of it."""

    def __init__(self, cluster: Cluster) -> None:
        assert cluster.ensemble is not None, "all systems are on ZooKeeper"
        self.cluster = cluster
        self.ensemble = cluster.ensemble
        hosts = cluster.hosts.hosts
        self.brokers = Brokers({number: (host.address, host.broker_port) for number, host in hosts.items()})
        self._zookeeper: KazooClient | None = None

    @property
    def folders(self) -> list[Path]:
        return [node.data for node in self.cluster.nodes.values()]

    @property
    def zookeeper(self) -> KazooClient:
        if self._zookeeper is None:
            self._zookeeper = KazooClient(self.ensemble.connect)
            self._zookeeper.start(timeout=PATIENCE_S)
        return self._zookeeper

    def close(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()
            self._zookeeper.close()

    def json_of(self, path: str) -> Any:
        try:
            return json.loads(self.zookeeper.retry(self.zookeeper.get, path)[0])
        except NoNodeError:
            return None

    def controller(self) -> int | None:
        found = self.json_of("/controller")
        return None if found is None else int(found["brokerid"])

    def lead_all(self, number: int) -> None:
        """Has the controller elected again, as an administrator does it, until it is this broker."""
        for _ in range(MAX_ELECTIONS):
            if wait_for("a controller", self.controller) == number:
                return
            epoch = int(self.zookeeper.retry(self.zookeeper.get, "/controller_epoch")[0])
            with suppress(NoNodeError):
                self.zookeeper.delete("/controller")
            wait_for("an election", lambda epoch=epoch: self._is_after(epoch))  # type: ignore[misc]
        raise AssertionError(f"{number} was not elected in {MAX_ELECTIONS} elections")

    def _is_after(self, epoch: int) -> bool:
        found = self.zookeeper.retry(self.zookeeper.get, "/controller_epoch")
        return int(found[0]) > epoch and self.controller() is not None

    def leader_of_zookeeper(self) -> int:
        """The server that leads the ensemble."""

        def find() -> int | None:
            for number, server in self.ensemble.servers.items():
                state = server_state(server.host.address, server.client_port)
                if state is not None and state.mode == "leader":
                    return number
            return None

        return wait_for("a leader of ZooKeeper", find)

    def errors(self) -> list[str]:
        """In the logs of our nodes."""
        return [
            f"node {node.id}: {line}"
            for node in self.cluster.nodes.values()
            for line in node.log.read_text("utf-8").splitlines()
            if node.system is OURS and (" ERROR barnabas" in line or "Traceback" in line)
        ]


@contextmanager
def on_hosts(folder: Path, systems: Mapping[int, System]) -> Iterator[BothKindsOnHosts]:
    """A running cluster of these nodes; it is down when this ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with Hosts(folder, len(systems)) as hosts:
        assert hosts.filter is not None, f"nodes cannot be cut off here: {hosts.lacking}"
        cluster = Cluster(systems, hosts, folder)
        found = BothKindsOnHosts(cluster)
        try:
            cluster.up()
            yield found
        finally:
            found.close()
            cluster.down()
