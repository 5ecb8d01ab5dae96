"""The configuration of a ZooKeeper server, as far as starting it and asking it needs: zoo.cfg and myid.

ZooKeeper reads the file itself; what it would refuse with a stack trace is refused here with a line.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.server.node_file import read_properties
from barnabas.runtime.disk.disk import Disk

LAST_ID = 255
LAST_PORT = 65_535
_SERVER = re.compile(r"server\.(\d+)")
# host:2888:3888, with an optional role, and an optional client address behind a semicolon; IPv6 in brackets.
_ADDRESS = re.compile(
    r"(\[[^\]]+\]|[^:;|]+):(\d+):(\d+)(?::(?:participant|observer))?(?:;(?:.*:)?(\d+))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ZooCfg:
    """What a file says.  `client_host` is where the server can be asked from this machine."""

    path: str
    data_dir: str
    client_host: str
    client_port: int
    # This server's number and the addresses of all servers; 0 and none for a server alone.
    my_id: int
    servers: dict[int, str]

    @property
    def pid_file(self) -> str:
        return os.path.join(self.data_dir, "zookeeper_server.pid")


def read_zoo_cfg(disk: Disk, path: str) -> ZooCfg:
    """Reads and checks the file; CommandError says what to change."""
    path = os.path.abspath(path)
    if not disk.exists(path):
        raise CommandError(f"barnabas: {path}: there is no such file", Exit.NOT_FOUND)
    values = read_properties(disk, path)
    data_dir = values.get("dataDir", "").strip()
    if not data_dir:
        raise _refused(path, "dataDir is missing: set it to the folder of the server's data")
    # As ZooKeeper: relative to the working directory.
    data_dir = os.path.abspath(data_dir)
    servers = _servers(path, values)
    my_id = _my_id(disk, path, data_dir, servers) if servers else 0
    port = _client_port(path, values, servers.get(my_id, ""))
    host = values.get("clientPortAddress", "").strip()
    if host in ("", "0.0.0.0", "::"):  # compared with, not bound  # nosec B104
        host = "localhost"
    # ZooKeeper takes one server alone for a standalone one.
    return ZooCfg(path, data_dir, host, port, my_id, servers if len(servers) > 1 else {})


def _client_port(path: str, values: dict[str, str], own_address: str) -> int:
    found = _ADDRESS.fullmatch(own_address)
    given = values.get("clientPort", "").strip() or (found[4] if found is not None and found[4] else "")
    if not given:
        raise _refused(path, "clientPort is missing: set it, usually to 2181")
    if not given.isdecimal() or not 0 < int(given) <= LAST_PORT:
        raise _refused(path, f"clientPort={given} is no port")
    return int(given)


def _servers(path: str, values: dict[str, str]) -> dict[int, str]:
    servers = {}
    for key, value in values.items():
        if not key.startswith("server."):
            continue
        found = _SERVER.fullmatch(key)
        if found is None or not 0 <= int(found[1]) <= LAST_ID:
            raise _refused(path, f"{key}: a server has a number from 0 to {LAST_ID}, as in server.1")
        address = value.strip()
        if not all(_ADDRESS.fullmatch(part) for part in address.split("|")):
            raise _refused(path, f"{key}={address}: give host:2888:3888")
        servers[int(found[1])] = address
    return servers


def _my_id(disk: Disk, path: str, data_dir: str, servers: dict[int, str]) -> int:
    file = os.path.join(data_dir, "myid")
    if len(servers) == 1 and not disk.exists(file):
        return next(iter(servers))
    numbers = ", ".join(map(str, sorted(servers)))
    if not disk.exists(file):
        raise _refused(
            path, f"{file} is missing: write this server's number ({numbers}) into it: echo 1 > {file}"
        )
    text = disk.read_bytes(file).decode("utf-8", "replace").strip()
    if not text.isdecimal() or int(text) not in servers:
        raise _refused(path, f"{file} has {text!r}, and the servers are {numbers}")
    return int(text)


def _refused(path: str, why: str) -> CommandError:
    return CommandError(f"barnabas: {path}: {why}")
