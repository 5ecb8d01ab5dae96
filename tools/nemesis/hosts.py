"""A host for each node: a network namespace with an address and perhaps a name, and a small file system.

Without root, nodes share this host: faults of the network, names and full disks are then not available, and
`lacking` says so.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.nemesis.packet_filter import PacketFilter
from tools.ports import free_ports

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
# Room for the logs of a run, and little enough to fill quickly.
DISK_BYTES = 256 << 20
BALLAST = "ballast"
# `ip netns exec` mounts what is in the folder of a namespace over the files of /etc.
NAMESPACE_FILES = Path("/etc/netns")
# Of all hosts that this process makes: in their names, and between their networks.
_numbers = itertools.count()
_LETTERS = "abcdefghijklm"
_DISTANCE = 3_847
_STEP_BYTES = 4 << 20


@dataclass
class Host:
    """Where a node runs."""

    id: int
    folder: Path
    address: str
    broker_port: int
    controller_port: int
    prefix: tuple[str, ...] = ()
    # How the other hosts call it.
    name: str = ""

    def fill_disk(self, left_bytes: int = 0) -> None:
        """Writes until nothing fits any more, or so little."""
        with (self.folder / BALLAST).open("ab", buffering=0) as ballast:
            step = _STEP_BYTES
            while step:
                try:
                    if ballast.write(bytes(step)) < step:
                        step //= 2
                except OSError:
                    step //= 2
            ballast.truncate(max(0, ballast.tell() - left_bytes))

    def free_disk(self) -> None:
        (self.folder / BALLAST).unlink(missing_ok=True)


class Hosts:
    """The hosts of one cluster; a context manager that removes them."""

    def __init__(self, folder: Path, count: int, names: str = "") -> None:
        """`names`: worker, for hosts that know each other as worker1, worker2, …"""
        self.lacking: dict[str, str] = {}
        self.filter: PacketFilter | None = None
        self._folder = folder
        self._names = names
        # Other processes may have hosts too, and this one others that are not closed yet.
        number = next(_numbers)
        self._name = f"nm{os.getpid()}{_LETTERS[number % len(_LETTERS)]}"
        subnet = (os.getpid() + number * _DISTANCE) % 50_000
        self._network = f"10.{20 + subnet // 250}.{subnet % 250}"
        self.client_address = f"{self._network}.254"
        self._made: list[Sequence[str]] = []
        self._mounted: list[Path] = []
        self.isolated = os.geteuid() == 0 and shutil.which("ip") is not None
        self.hosts = {number: self._host(number) for number in range(1, count + 1)}

    def __enter__(self) -> Hosts:
        try:
            self._make_network()
            self._make_disks()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.filter is not None:
            self.filter.close()
            self.filter = None
        while self._mounted:
            _run("umount", "-l", str(self._mounted.pop()), check=False)
        while self._made:
            _run(*self._made.pop(), check=False)
        for host in self.hosts.values():
            shutil.rmtree(NAMESPACE_FILES / self.namespace(host), ignore_errors=True)

    def namespace(self, host: Host) -> str:
        return f"{self._name}n{host.id}"

    def _host(self, number: int) -> Host:
        folder = self._folder / f"node-{number}"
        folder.mkdir(parents=True)
        if self.isolated:
            prefix = ("ip", "netns", "exec", f"{self._name}n{number}")
            address = f"{self._network}.{number}"
            name = f"{self._names}{number}" if self._names else address
            return Host(number, folder, address, BROKER_PORT, CONTROLLER_PORT, prefix, name)
        broker_port, controller_port = free_ports(2)
        return Host(number, folder, "127.0.0.1", broker_port, controller_port, name="localhost")

    def _make_network(self) -> None:
        if not self.isolated:
            self.lacking["network"] = "network namespaces need root and the command ip"
            return
        if self._names:
            self._write_names()
        bridge = f"{self._name}b"
        self._ip("link", "add", bridge, "type", "bridge", undo=("link", "del", bridge))
        self._ip("address", "add", f"{self.client_address}/24", "dev", bridge)
        self._ip("link", "set", bridge, "up")
        interfaces: dict[str, str] = {}
        for host in self.hosts.values():
            namespace, interface = self.namespace(host), f"{self._name}v{host.id}"
            self._ip("netns", "add", namespace, undo=("netns", "del", namespace))
            peer = ("peer", "name", "eth0", "netns", namespace)
            self._ip("link", "add", interface, "type", "veth", *peer, undo=("link", "del", interface))
            self._ip("link", "set", interface, "master", bridge, "up")
            self._ip("-n", namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self._ip("-n", namespace, "link", "set", device, "up")
            interfaces[host.address] = interface
        self.filter = PacketFilter(self._name, interfaces)
        try:
            self.filter.replace([])
        except OSError as error:
            self.filter = None
            self.lacking["network"] = str(error)

    def _write_names(self) -> None:
        """An /etc/hosts for each namespace, with the names of all."""
        lines = [f"{host.address} {host.name}\n" for host in self.hosts.values()]
        for host in self.hosts.values():
            folder = NAMESPACE_FILES / self.namespace(host)
            folder.mkdir(parents=True)
            (folder / "hosts").write_text("".join(["127.0.0.1 localhost\n", *lines]), "utf-8")

    def _make_disks(self) -> None:
        for host in self.hosts.values():
            options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(host.folder)]
            if not self.isolated or _run("mount", *options, check=False) != 0:
                self.lacking["disk"] = "a file system of its own for each node needs root"
                return
            self._mounted.append(host.folder)

    def _ip(self, *arguments: str, undo: Sequence[str] = ()) -> None:
        _run("ip", *arguments)
        if undo:
            self._made.append(("ip", *undo))


def _run(*command: str, check: bool = True) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode
