"""`barnabas zk-server`: a ZooKeeper server from a zoo.cfg, with the commands and lines of zkServer.sh."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.zookeeper.running import running_zookeepers, stop
from barnabas.cli.zookeeper.starting import run_in_place, start_daemon
from barnabas.cli.zookeeper.zoo_cfg import ZooCfg, read_zoo_cfg
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.zookeeper.four_letter_words import server_state

PROGRAM = "barnabas zk-server"
COMMANDS = ("start", "start-foreground", "stop", "restart", "status")
# As for zkServer.sh: the folder and the name of the configuration.
FOLDER_VARIABLE, FILE_VARIABLE = "ZOOCFGDIR", "ZOOCFG"
STOP_TIMEOUT_S = 60


def run(arguments: Sequence[str]) -> int:
    parser = KafkaParser(PROGRAM, "Start and stop a ZooKeeper server, and show whether it leads.")
    add = parser.add_argument
    add(
        "--config",
        metavar="DIR",
        help=f"the folder of the configuration (default ${FOLDER_VARIABLE} or conf)",
    )
    add("command", choices=COMMANDS, metavar="|".join(COMMANDS), help="what to do")
    add("file", nargs="?", metavar="FILE", help="the configuration, if it is not zoo.cfg")
    options = parser.parse(arguments)
    disk = FolderDisk()
    path = config_path(options.config, options.file)
    print(f"Using config: {path}", file=sys.stderr)
    config = read_zoo_cfg(disk, path)
    if options.command == "start-foreground":
        run_in_place(disk, config)
    if options.command == "status":
        return _status(config)
    if options.command in ("stop", "restart"):
        _stop(disk, config)
    if options.command in ("start", "restart"):
        _start(disk, config)
    return Exit.OK


def config_path(folder: str | None, file: str | None) -> str:
    """A name is one in the folder, unless it is a path."""
    chosen = folder or os.environ.get(FOLDER_VARIABLE) or "conf"
    name = file or os.environ.get(FILE_VARIABLE) or "zoo.cfg"
    return name if os.path.dirname(name) else os.path.join(chosen, name)


def _start(disk: FolderDisk, config: ZooCfg) -> None:
    print("Starting zookeeper ... ", end="", flush=True)
    running = running_zookeepers(disk, config.data_dir)
    if running:
        print(f"already running as process {running[0].pid}.")
        raise CommandError(f"barnabas: ZooKeeper runs already from {config.path}")
    try:
        start_daemon(disk, config)
    except BaseException:
        print("FAILED TO START")
        raise
    print("STARTED")


def _stop(disk: FolderDisk, config: ZooCfg) -> None:
    print("Stopping zookeeper ... ", end="", flush=True)
    running = running_zookeepers(disk, config.data_dir)
    if not running:
        print(f"no zookeeper to stop (could not find file {config.pid_file})")
        return
    stop(running, STOP_TIMEOUT_S)
    if disk.exists(config.pid_file):
        disk.remove(config.pid_file)
    print("STOPPED")


def _status(config: ZooCfg) -> int:
    print(
        f"Client port found: {config.client_port}. Client address: {config.client_host}. Client SSL: false."
    )
    state = server_state(config.client_host, config.client_port)
    if state is None:
        print("Error contacting service. It is probably not running.")
        return Exit.FAILED
    print(f"Mode: {state.mode}")
    return Exit.OK
