"""`barnabas cluster up`, `start`, `stop`, `kill` and `down`: a cluster of processes on this machine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial

from barnabas.cli.cluster.layout import (
    CLUSTER_VARIABLE,
    KRAFT,
    LOCK_FILE,
    MAX_NODES,
    MAX_PORT,
    ZOOKEEPER,
    Layout,
    LocalNode,
    LocalZooKeeper,
    Member,
    default_folder,
    read_layout,
)
from barnabas.cli.cluster.processes import (
    RUNNING,
    NodeProcess,
    State,
    read_process,
    send_signal,
    wait_for_end,
)
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import add_output
from barnabas.runtime.disk.folder_disk import FolderDisk

PROGRAM = "barnabas cluster up"
DEFAULT_BROKERS = 3
MAX_ZOOKEEPERS = 7
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 60
# As in server_process, which takes long to import: stops a node without a controlled shutdown.
STOP_ALONE = signal.SIGUSR1


def add_folder(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        metavar="FOLDER",
        help=f"folder of the cluster (default ${CLUSTER_VARIABLE}, else one of this user)",
    )


def _add_timeout(parser: ArgumentParser, seconds: int) -> None:
    parser.add_argument(
        "--timeout",
        type=whole_number(1),
        default=seconds,
        metavar="SECONDS",
        help=f"how long to wait (default {seconds})",
    )


def declare_up(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--brokers", type=whole_number(0, MAX_NODES), metavar="N", help="number of brokers (default 3)")
    add(
        "--controllers",
        type=whole_number(0, MAX_NODES),
        metavar="N",
        help="number of separate controllers (default 0: the first brokers, at most 5, are controllers too)",
    )
    add("--mode", choices=(KRAFT, ZOOKEEPER), help="where the metadata is kept (default kraft)")
    add(
        "--zookeepers",
        type=whole_number(1, MAX_ZOOKEEPERS),
        metavar="N",
        help="number of ZooKeeper servers, with --mode zookeeper (default 1)",
    )
    add("--port", type=whole_number(1, MAX_PORT), metavar="PORT", help="first port (default: free ports)")
    add(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of all nodes of a new cluster; may be repeated",
    )
    add_folder(parser)
    _add_timeout(parser, START_TIMEOUT_S)


def declare_status(parser: ArgumentParser) -> None:
    add_folder(parser)
    add_output(parser)


def _add_nodes(parser: ArgumentParser) -> None:
    parser.add_argument(
        "node", nargs="+", type=_member_id, metavar="N", help="id of the node; zk-N for a ZooKeeper server"
    )
    add_folder(parser)


def _member_id(text: str) -> int | str:
    return text if re.fullmatch(r"zk-\d+", text) else whole_number(0)(text)


def declare_start(parser: ArgumentParser) -> None:
    _add_nodes(parser)
    _add_timeout(parser, START_TIMEOUT_S)


def declare_stop(parser: ArgumentParser) -> None:
    _add_nodes(parser)
    _add_timeout(parser, STOP_TIMEOUT_S)


declare_kill = _add_nodes


def declare_down(parser: ArgumentParser) -> None:
    parser.add_argument("--delete", action="store_true", help="delete the folder with all data")
    add_folder(parser)
    _add_timeout(parser, STOP_TIMEOUT_S)


# The folder -------------------------------------------------------------------------------------------------


def folder_of(options: Namespace) -> str:
    return os.path.abspath(options.dir or default_folder())


def existing_layout(options: Namespace) -> Layout:
    folder = folder_of(options)
    layout = read_layout(FolderDisk(), folder)
    if layout is None:
        raise CommandError(
            f"barnabas: there is no cluster in {folder}; start one with barnabas cluster up", Exit.NOT_FOUND
        )
    return layout


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Two commands that start and stop the same nodes at once would lose track of processes."""
    disk = FolderDisk()
    disk.make_folder(folder)
    try:
        lock = disk.lock(os.path.join(folder, LOCK_FILE))
    except BlockingIOError as error:
        raise CommandError(
            f"barnabas: another barnabas cluster command is running in {folder}; wait for it to end"
        ) from error
    try:
        yield
    finally:
        lock.release()


def process_of(layout: Layout, node: Member) -> NodeProcess | None:
    return read_process(FolderDisk(), layout.node_folder(node))


def state_of(layout: Layout, node: Member) -> State:
    process = process_of(layout, node)
    return State.NEW if process is None else process.state


def running_nodes(layout: Layout, nodes: Sequence[Member]) -> dict[int | str, NodeProcess]:
    processes = {node.id: process_of(layout, node) for node in nodes}
    return {
        node_id: process
        for node_id, process in processes.items()
        if process is not None and process.state in RUNNING
    }


# Starting ---------------------------------------------------------------------------------------------------


def up(parser: ArgumentParser, options: Namespace) -> int:
    folder = folder_of(options)
    with locked(folder):
        disk = FolderDisk()
        layout = read_layout(disk, folder)
        if layout is None:
            layout = _create(disk, folder, options)
        else:
            _check_same(layout, options)
        if not layout.is_formatted:
            from barnabas.cli.cluster.creation import format_nodes

            layout = format_nodes(disk, layout)
        code = start_stopped(layout, layout.members, options.timeout)
    if code is Exit.OK:
        print(_summary(layout))
    return code


def _create(disk: FolderDisk, folder: str, options: Namespace) -> Layout:
    from barnabas.cli.cluster.creation import OWN_OPTIONS, create, create_with_zookeeper
    from barnabas.config.errors import ConfigError

    brokers = DEFAULT_BROKERS if options.brokers is None else options.brokers
    controllers = options.controllers or 0
    with_zookeeper = options.mode == ZOOKEEPER
    if options.zookeepers is not None and not with_zookeeper:
        raise UsageError(f"{PROGRAM}: --zookeepers needs --mode zookeeper")
    if controllers and with_zookeeper:
        raise UsageError(f"{PROGRAM}: in ZooKeeper mode brokers are the controllers: leave --controllers out")
    if not 0 < brokers + controllers <= MAX_NODES:
        raise UsageError(f"{PROGRAM}: a cluster has between 1 and {MAX_NODES} nodes")
    overrides = _overrides(options)
    for key in overrides:
        if key in OWN_OPTIONS:
            raise UsageError(f"{PROGRAM}: --override {key}: each node of a local cluster has its own")
    try:
        if with_zookeeper:
            _need_zookeeper()
            servers = options.zookeepers or 1
            return create_with_zookeeper(disk, folder, brokers, servers, options.port, overrides)
        return create(disk, folder, brokers, controllers, options.port, overrides)
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error


def _need_zookeeper() -> None:
    """Before anything is written: Java, the jars and the client."""
    from barnabas.cli.zookeeper.java_server import class_path, java
    from barnabas.runtime.zookeeper.kazoo_client import kazoo_sessions

    java()
    class_path()
    kazoo_sessions()


def _overrides(options: Namespace) -> dict[str, str]:
    from barnabas.cli.server.node_file import overrides_of

    return overrides_of(PROGRAM, options.override)


def _check_same(layout: Layout, options: Namespace) -> None:
    """An existing cluster keeps its nodes and ports."""
    separate = sum(node.broker_port is None for node in layout.nodes)
    has = {
        "--brokers": len(layout.brokers),
        "--controllers": separate,
        "--port": min(layout.nodes[0].ports),
        "--mode": layout.mode,
        "--zookeepers": len(layout.zookeepers),
    }
    asked = {flag: getattr(options, flag.removeprefix("--")) for flag in has}
    for key, wanted in _overrides(options).items() if options.override else ():
        if layout.overrides.get(key) != wanted:
            raise CommandError(
                f"barnabas: the cluster in {layout.folder} was created without --override {key}={wanted};"
                " change the server.properties of its nodes, or choose another folder with --dir"
            )
    for flag, value in asked.items():
        if value is not None and value != has[flag]:
            raise CommandError(
                f"barnabas: the cluster in {layout.folder} was created with {flag} {has[flag]}; delete it"
                " with barnabas cluster down --delete, or choose another folder with --dir"
            )


def _summary(layout: Layout) -> str:
    nodes = len(layout.members)
    cluster = f" (cluster {layout.cluster_id})" if layout.cluster_id else ""
    lines = [
        f"barnabas: {nodes} node{'s are' if nodes > 1 else ' is'} up{cluster}",
        f"  bootstrap servers      {layout.bootstrap_servers or '-'}",
        f"  bootstrap controllers  {layout.bootstrap_controllers}"
        if not layout.zookeepers
        else f"  ZooKeeper              {layout.zookeeper_connect}",
        f"  folder                 {layout.folder}",
    ]
    return "\n".join(lines)


def start(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    nodes = [layout.member(member_id) for member_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        return start_stopped(layout, nodes, options.timeout)


def start_stopped(layout: Layout, nodes: Sequence[Member], timeout_s: int) -> Exit:
    running = running_nodes(layout, nodes)
    for node_id, process in running.items():
        print(f"barnabas: node {node_id} is {process.state} already (pid {process.pid})")
    stopped = [node for node in nodes if node.id not in running]
    code = _start_zookeepers(
        layout, [node for node in stopped if isinstance(node, LocalZooKeeper)], timeout_s
    )
    brokers = [node for node in stopped if isinstance(node, LocalNode)]
    if not brokers or code is not Exit.OK:
        return code
    from barnabas.cli.cluster.starting import start_nodes

    for node_id, outcome in start_nodes(layout, brokers, timeout_s * 1_000).items():
        node = layout.node(node_id)
        started = process_of(layout, node)
        if outcome.is_ready and started is not None:
            print(f"barnabas: node {node_id} is up (pid {started.pid})")
        elif outcome.reason:
            code = Exit.FAILED
            print(f"barnabas: node {node_id} did not start: {outcome.reason} (log {layout.log_file(node)})")
        else:
            code = Exit.TIMED_OUT
            print(f"barnabas: node {node_id} runs, but is not ready after {timeout_s} s{_hint(layout)}")
    return code


def _start_zookeepers(layout: Layout, servers: Sequence[LocalZooKeeper], timeout_s: int) -> Exit:
    """Before the brokers: those wait for a majority."""
    if not servers:
        return Exit.OK
    from barnabas.cli.cluster.zookeepers import start_servers

    code = Exit.OK
    failed = start_servers(FolderDisk(), layout, servers, timeout_s * 1_000)
    for server in servers:
        process = process_of(layout, server)
        if server.id in failed:
            code = Exit.FAILED
            print(f"barnabas: node {server.id} did not start: {failed[server.id]}")
        elif process is not None:
            print(f"barnabas: node {server.id} is up (pid {process.pid})")
    return code


def _hint(layout: Layout) -> str:
    running = len(running_nodes(layout, layout.quorum))
    if running < layout.majority:
        kind = "ZooKeeper servers" if layout.zookeepers else "controllers"
        return f": {running} of {len(layout.quorum)} {kind} run, and {layout.majority} are needed"
    return "; see its log"


# Stopping ---------------------------------------------------------------------------------------------------


def _release_without_quorum(layout: Layout, stopping: Sequence[NodeProcess], *, all_stop: bool) -> None:
    """A controlled shutdown needs a controller and brokers that stay: without, it would wait for minutes."""
    if all_stop or len(running_nodes(layout, layout.quorum)) < layout.majority:
        for process in stopping:
            send_signal(process, STOP_ALONE)


def stop(parser: ArgumentParser, options: Namespace) -> int:
    """One after another, so that each can hand over its leaderships to one that stays."""
    layout = existing_layout(options)
    nodes = [layout.member(member_id) for member_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        for node in nodes:
            end_nodes(layout, [node], signal.SIGTERM, options.timeout)
    return Exit.OK


def kill(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    nodes = [layout.member(member_id) for member_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        end_nodes(layout, nodes, signal.SIGKILL, STOP_TIMEOUT_S)
    return Exit.OK


def down(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    with locked(layout.folder):
        others = [node for node in layout.nodes if node not in layout.controllers]
        if others:
            all_stop = layout.mode == ZOOKEEPER
            end_nodes(layout, others, signal.SIGTERM, options.timeout, all_stop=all_stop)
        end_nodes(layout, layout.quorum, signal.SIGTERM, options.timeout)
        if options.delete:
            for node in layout.members:
                shutil.rmtree(layout.node_folder(node), ignore_errors=True)
            shutil.rmtree(layout.folder)
    if options.delete:
        print(f"barnabas: {layout.folder} is deleted")
    else:
        print(f"barnabas: the data stays in {layout.folder}; barnabas cluster up starts the cluster again")
    return Exit.OK


_ENDS = {signal.SIGTERM: "has stopped", signal.SIGKILL: "was killed"}


def end_nodes(
    layout: Layout,
    nodes: Sequence[Member],
    number: signal.Signals,
    timeout_s: int,
    *,
    all_stop: bool = False,
) -> None:
    running = running_nodes(layout, nodes)
    for node in nodes:
        if node.id not in running:
            print(f"barnabas: node {node.id} is not running ({state_of(layout, node)})")
    for process in running.values():
        send_signal(process, number)
    brokers = [running[node.id] for node in nodes if node.id in running and isinstance(node, LocalNode)]
    release = partial(_release_without_quorum, layout, brokers, all_stop=all_stop)
    left = wait_for_end(list(running.values()), timeout_s * 1_000, release)
    for node_id, process in running.items():
        if process not in left:
            print(f"barnabas: node {node_id} {_ENDS[number]} (pid {process.pid})")
    if number == signal.SIGTERM:
        _remember_stopped(layout, [node for node in nodes if node.id in running])
    if left:
        slow = [node_id for node_id, process in running.items() if process in left]
        names = " ".join(map(str, slow))
        raise CommandError(
            f"barnabas: not stopped within {timeout_s} s: node {names}; see its log, or end it with"
            f" barnabas cluster kill {names}",
            Exit.TIMED_OUT,
        )


def _remember_stopped(layout: Layout, nodes: Sequence[Member]) -> None:
    """Brokers do so themselves."""
    from barnabas.cli.cluster.zookeepers import has_stopped

    for node in nodes:
        if isinstance(node, LocalZooKeeper):
            has_stopped(FolderDisk(), layout, node)
