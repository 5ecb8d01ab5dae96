"""`barnabas aliases`: writes scripts with the names of Apache Kafka's, for commands as books print them.

The scripts are thin: each calls the command of the same name.  Files of somebody else are not touched without
being told to.
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
DEFAULT_DATA = "/tmp"
# The commands that Apache Kafka has too: kafka-NAME.sh.
TOOLS = (
    "acls",
    "broker-api-versions",
    "cluster",
    "configs",
    "console-consumer",
    "console-producer",
    "consumer-groups",
    "consumer-perf-test",
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
    "server-start",
    "server-stop",
    "storage",
    "topics",
    "transactions",
)
_MARK = "# Written by barnabas aliases."


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM,
        "Write bin/kafka-*.sh and sample configurations into a folder, for commands as books print them.",
    )
    add = parser.add_argument
    add("folder", metavar="DIR", help="where to write; it is made if it is not there")
    add(
        "--port",
        type=whole_number(1, 65_534),
        default=DEFAULT_PORT,
        metavar="PORT",
        help="of the broker (9092)",
    )
    add(
        "--data",
        default=DEFAULT_DATA,
        metavar="FOLDER",
        help="where nodes keep their data (/tmp, as in books)",
    )
    add("--yes", action="store_true", help="replace configurations that are there, and scripts of others")
    options = parser.parse(arguments)
    scripts = {f"bin/kafka-{name}.sh": script(name) for name in TOOLS}
    samples = sample_files(options.port, os.path.abspath(options.data).rstrip("/"))
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
    tell(options.folder, scripts, samples, kept)
    return Exit.OK


def script(name: str) -> str:
    """Calls the installation that wrote it, wherever it is called from."""
    return f'#!/bin/sh\n{_MARK}\nexec {shlex.quote(sys.executable)} -m barnabas {name} "$@"\n'


def refuse_to_replace(disk: Disk, folder: str, scripts: Mapping[str, str]) -> None:
    """Before anything is written: nobody wants to lose a real Apache Kafka's scripts."""
    for path in scripts:
        place = os.path.join(folder, path)
        if disk.exists(place) and _MARK.encode() not in disk.read_bytes(place):
            raise CommandError(f"{PROGRAM}: {place} is not ours; choose another folder, or say --yes")


def write(disk: Disk, folder: str, path: str, text: str, mode: int) -> None:
    place = os.path.join(folder, path)
    disk.make_folder(os.path.dirname(place))
    disk.write_atomically(place, text.encode(), sync=False)
    os.chmod(place, mode)


def tell(folder: str, scripts: Mapping[str, str], samples: Mapping[str, str], kept: Sequence[str]) -> None:
    print(f"{len(scripts)} scripts in {os.path.join(folder, 'bin')}")
    for path in samples:
        print(f"{os.path.join(folder, path)}{' (kept as it is)' if path in kept else ''}")
