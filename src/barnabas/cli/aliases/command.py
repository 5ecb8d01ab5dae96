"""`barnabas aliases`: writes scripts with Apache Kafka's names, so that commands in books work unchanged.

Each script only calls the command of the same name.  Files that this command did not write are kept unless
--yes is given.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence

from barnabas.cli.aliases.samples import sample_files
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.folder_disk import FolderDisk

PROGRAM = "barnabas aliases"
DEFAULT_PORT = 9092
DEFAULT_ZOOKEEPER_PORT = 2181
DEFAULT_DATA = "/tmp"  # as in Apache Kafka's samples  # nosec B108
# The commands that Apache Kafka also has, as kafka-NAME.sh.
TOOLS = (
    "acls",
    "broker-api-versions",
    "cluster",
    "configs",
    "console-consumer",
    "console-producer",
    "consumer-groups",
    "consumer-perf-test",
    "delegation-tokens",
    "delete-records",
    "dump-log",
    "e2e-latency",
    "features",
    "get-offsets",
    "groups",
    "leader-election",
    "log-dirs",
    "metadata-quorum",
    "metadata-shell",
    "producer-perf-test",
    "reassign-partitions",
    "replica-verification",
    "server-start",
    "server-stop",
    "storage",
    "topics",
    "transactions",
)
# Those of Kafka's and ZooKeeper's scripts that have other names.
ZOOKEEPER_TOOLS = {
    "zookeeper-server-start.sh": "zookeeper-server-start",
    "zookeeper-server-stop.sh": "zookeeper-server-stop",
    "zookeeper-shell.sh": "zookeeper-shell",
    "zkServer.sh": "zk-server",
    "zkCli.sh": "zookeeper-shell",
}
_MARK = "# Written by barnabas aliases."


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM,
        "Write bin/kafka-*.sh, bin/zkServer.sh and sample configurations: commands in books work unchanged.",
    )
    add = parser.add_argument
    add("folder", metavar="DIR", help="where to write; created if missing")
    add(
        "--port",
        type=whole_number(1, 65_534),
        default=DEFAULT_PORT,
        metavar="PORT",
        help="port of the broker (9092)",
    )
    add(
        "--zookeeper-port",
        type=whole_number(1, 65_535),
        default=DEFAULT_ZOOKEEPER_PORT,
        metavar="PORT",
        help=f"port of ZooKeeper ({DEFAULT_ZOOKEEPER_PORT})",
    )
    add(
        "--data",
        default=DEFAULT_DATA,
        metavar="FOLDER",
        help="folder for the data of the nodes (/tmp, as in books)",
    )
    add(
        "--yes",
        action="store_true",
        help="overwrite existing configurations, and scripts that this command did not write",
    )
    options = parser.parse(arguments)
    scripts = {f"bin/kafka-{name}.sh": script(name) for name in TOOLS}
    preparations = preparations_of(options.folder, options.zookeeper_port)
    for name, command in ZOOKEEPER_TOOLS.items():
        scripts[f"bin/{name}"] = script(command, preparations.get(name, ""))
    samples = sample_files(options.port, options.zookeeper_port, os.path.abspath(options.data).rstrip("/"))
    disk = FolderDisk()
    if not options.yes:
        refuse_to_replace(disk, options.folder, scripts)
    for path, text in scripts.items():
        write(disk, options.folder, path, text, mode=0o755)
    kept = []
    for path, text in samples.items():
        if disk.exists(os.path.join(options.folder, path)) and not options.yes:
            kept.append(path)
        else:
            write(disk, options.folder, path, text, mode=0o644)
    print_summary(options.folder, scripts, samples, kept)
    return Exit.OK


def script(name: str, preparation: str = "") -> str:
    """A script that runs this installation from any working directory."""
    return f'#!/bin/sh\n{_MARK}\n{preparation}exec {shlex.quote(sys.executable)} -m barnabas {name} "$@"\n'


def preparations_of(folder: str, zookeeper_port: int) -> Mapping[str, str]:
    """What a script does first: zkServer.sh has a folder, and zkCli.sh names its server by a flag."""
    conf = shlex.quote(os.path.join(os.path.abspath(folder), "conf"))
    return {
        "zkServer.sh": f'[ -n "$ZOOCFGDIR" ] || ZOOCFGDIR={conf}\nexport ZOOCFGDIR\n',
        "zkCli.sh": (
            f'case "$1" in -server | --server) shift ;; "") set -- localhost:{zookeeper_port} ;; esac\n'
        ),
    }


def refuse_to_replace(disk: Disk, folder: str, scripts: Mapping[str, str]) -> None:
    """Called before anything is written: the scripts of a real Apache Kafka must not be lost."""
    for path in scripts:
        target = os.path.join(folder, path)
        if disk.exists(target) and _MARK.encode() not in disk.read_bytes(target):
            raise CommandError(
                f"{PROGRAM}: {target} was not written by this command; choose another folder, or give --yes"
            )


def write(disk: Disk, folder: str, path: str, text: str, mode: int) -> None:
    target = os.path.join(folder, path)
    disk.make_folder(os.path.dirname(target))
    disk.write_atomically(target, text.encode(), sync=False)
    os.chmod(target, mode)


def print_summary(
    folder: str, scripts: Mapping[str, str], samples: Mapping[str, str], kept: Sequence[str]
) -> None:
    print(f"{len(scripts)} scripts in {os.path.join(folder, 'bin')}")
    for path in samples:
        print(f"{os.path.join(folder, path)}{' (kept)' if path in kept else ''}")
