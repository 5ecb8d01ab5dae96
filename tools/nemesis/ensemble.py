"""ZooKeeper for a cluster in ZooKeeper mode: a server on each host."""

from __future__ import annotations

import time
from collections.abc import Mapping

from barnabas.cli.zookeeper.java_server import command_line
from barnabas.runtime.zookeeper.four_letter_words import server_state
from tools.nemesis.hosts import Host
from tools.nemesis.process import Process
from tools.ports import free_ports

CLIENT_PORT, PEER_PORT, ELECTION_PORT = 2181, 2888, 3888
HEAP = "-Xmx96M -Xms32M"
# Servers that were cut off from each other wait twice as long with each vote, up to a minute, and an election
# takes that long then: faults of the network would mostly show ZooKeeper's patience.
QUICK_ELECTIONS = ("-Dzookeeper.fastleader.maxNotificationInterval=1000", "-Dzookeeper.cnxTimeout=1000")
START_S = 120
LOOK_EACH_S = 0.1
_ZOO_CFG = """\
tickTime=1000
initLimit=10
syncLimit=5
maxClientCnxns=0
"""


class ZooKeeperServer(Process):
    """One server.  Its data is not on the small disk of the broker beside it."""

    def __init__(self, host: Host) -> None:
        folder = host.folder.parent
        super().__init__(host.prefix, folder / f"zookeeper-{host.id}.log", {})
        self.id = host.id
        self.host = host
        self.data = folder / f"zookeeper-{host.id}"
        ports = [CLIENT_PORT, PEER_PORT, ELECTION_PORT] if host.prefix else free_ports(3)
        self.client_port, self._peer_port, self._election_port = ports

    @property
    def line(self) -> str:
        return f"server.{self.id}={self.host.address}:{self._peer_port}:{self._election_port}\n"

    def configure(self, servers: str) -> None:
        self.data.mkdir()
        (self.data / "myid").write_text(f"{self.id}\n", "utf-8")
        config = self.data / "zoo.cfg"
        config.write_text(f"{_ZOO_CFG}dataDir={self.data}\nclientPort={self.client_port}\n{servers}", "utf-8")
        self.command = command_line(config, jvm_options=QUICK_ELECTIONS, heap=HEAP)


class Ensemble:
    """All servers."""

    def __init__(self, hosts: Mapping[int, Host]) -> None:
        self.servers = {number: ZooKeeperServer(host) for number, host in hosts.items()}

    @property
    def connect(self) -> str:
        places = (f"{each.host.address}:{each.client_port}" for each in self.servers.values())
        return f"{','.join(places)}/kafka"

    def up(self) -> None:
        """Returns when a majority serves."""
        lines = "".join(server.line for server in self.servers.values())
        for server in self.servers.values():
            server.configure(lines)
            server.start()
        deadline = time.monotonic() + START_S
        first = self.servers[min(self.servers)]
        while server_state(first.host.address, first.client_port) is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"ZooKeeper does not serve; see {first.log}")
            time.sleep(LOOK_EACH_S)

    def down(self) -> None:
        for server in self.servers.values():
            server.kill()
