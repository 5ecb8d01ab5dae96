"""`barnabas zookeeper-server-start`: runs Apache ZooKeeper from a properties file, as Kafka's script does."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import Exit
from barnabas.cli.zookeeper.starting import run_in_place, start_daemon
from barnabas.cli.zookeeper.zoo_cfg import read_zoo_cfg
from barnabas.runtime.disk.folder_disk import FolderDisk

PROGRAM = "barnabas zookeeper-server-start"


def run(arguments: Sequence[str]) -> int:
    parser = KafkaParser(PROGRAM, "Run Apache ZooKeeper from a zookeeper.properties or zoo.cfg file.")
    add = parser.add_argument
    add("file", metavar="FILE", help="the file to use")
    add(
        "-daemon",
        "--daemon",
        action="store_true",
        help="run in the background; return when the server listens or has failed",
    )
    options = parser.parse(arguments)
    disk = FolderDisk()
    config = read_zoo_cfg(disk, options.file)
    if not options.daemon:
        run_in_place(disk, config)
    info = start_daemon(disk, config)
    print(f"barnabas: ZooKeeper listens at port {config.client_port} (pid {info.pid}, log {info.log})")
    return Exit.OK
