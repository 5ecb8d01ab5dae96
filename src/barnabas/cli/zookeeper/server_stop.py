"""`barnabas zookeeper-server-stop`: stops ZooKeeper servers on this machine, and waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.zookeeper.running import running_zookeepers, stop
from barnabas.cli.zookeeper.zoo_cfg import read_zoo_cfg
from barnabas.runtime.disk.folder_disk import FolderDisk

PROGRAM = "barnabas zookeeper-server-stop"


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(PROGRAM, "Stop the ZooKeeper servers of this user on this machine.")
    add = parser.add_argument
    add("file", nargs="?", metavar="FILE", help="only the server that runs from this file")
    add(
        "--timeout",
        type=whole_number(0),
        default=60,
        metavar="SECONDS",
        help="how long to wait (default 60)",
    )
    options = parser.parse(arguments)
    disk = FolderDisk()
    data_dir = None if options.file is None else read_zoo_cfg(disk, options.file).data_dir
    servers = running_zookeepers(disk, data_dir)
    if not servers:
        # Kafka's own words.
        raise CommandError("No zookeeper server to stop", Exit.NOT_FOUND)
    stop(servers, options.timeout)
    for info in servers:
        print(f"barnabas: ZooKeeper at port {info.client_port} (pid {info.pid}) has stopped")
    return Exit.OK
