"""`barnabas cluster up`, `start`, `stop`, `kill` and `down`: a cluster of processes on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial

from barnabas.cli.cluster.layout import (
    CLUSTER_VARIABLE,
    LOCK_FILE,
    MAX_NODES,
    MAX_PORT,
    Layout,
    LocalNode,
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
    parser.add_argument("node", nargs="+", type=whole_number(0), metavar="N", help="id of the node")
    add_folder(parser)


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


def process_of(layout: Layout, node: LocalNode) -> NodeProcess | None:
    return read_process(FolderDisk(), layout.node_folder(node))


def state_of(layout: Layout, node: LocalNode) -> State:
    process = process_of(layout, node)
    return State.NEW if process is None else process.state


def running_nodes(layout: Layout, nodes: Sequence[LocalNode]) -> dict[int, NodeProcess]:
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
        code = start_stopped(layout, layout.nodes, options.timeout)
    if code is Exit.OK:
        print(_summary(layout))
    return code


def _create(disk: FolderDisk, folder: str, options: Namespace) -> Layout:
    from barnabas.cli.cluster.creation import OWN_OPTIONS, create
    from barnabas.config.errors import ConfigError

    brokers = DEFAULT_BROKERS if options.brokers is None else options.brokers
    controllers = options.controllers or 0
    if not 0 < brokers + controllers <= MAX_NODES:
        raise UsageError(f"{PROGRAM}: a cluster has between 1 and {MAX_NODES} nodes")
    overrides = _overrides(options)
    for key in overrides:
        if key in OWN_OPTIONS:
            raise UsageError(f"{PROGRAM}: --override {key}: each node of a local cluster has its own")
    try:
        return create(disk, folder, brokers, controllers, options.port, overrides)
    except ConfigError as error:
        raise CommandError(f"barnabas: {error}") from error


def _overrides(options: Namespace) -> dict[str, str]:
    from barnabas.cli.server.node_file import overrides_of

    return overrides_of(PROGRAM, options.override)


def _check_same(layout: Layout, options: Namespace) -> None:
    """An existing cluster keeps its nodes and ports."""
    separate = sum(node.broker_port is None for node in layout.nodes)
    has = {"--brokers": len(layout.brokers), "--controllers": separate, "--port": min(layout.nodes[0].ports)}
    asked = {"--brokers": options.brokers, "--controllers": options.controllers, "--port": options.port}
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
    nodes = len(layout.nodes)
    lines = [
        f"barnabas: {nodes} node{'s are' if nodes > 1 else ' is'} up (cluster {layout.cluster_id})",
        f"  bootstrap servers      {layout.bootstrap_servers or '-'}",
        f"  bootstrap controllers  {layout.bootstrap_controllers}",
        f"  folder                 {layout.folder}",
    ]
    return "\n".join(lines)


def start(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    nodes = [layout.node(node_id) for node_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        return start_stopped(layout, nodes, options.timeout)


def start_stopped(layout: Layout, nodes: Sequence[LocalNode], timeout_s: int) -> Exit:
    running = running_nodes(layout, nodes)
    for node_id, process in running.items():
        print(f"barnabas: node {node_id} is {process.state} already (pid {process.pid})")
    stopped = [node for node in nodes if node.id not in running]
    if not stopped:
        return Exit.OK
    from barnabas.cli.cluster.starting import start_nodes

    code = Exit.OK
    for node_id, outcome in start_nodes(layout, stopped, timeout_s * 1_000).items():
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


def _hint(layout: Layout) -> str:
    running = len(running_nodes(layout, layout.controllers))
    if running < layout.majority:
        return f": {running} of {len(layout.controllers)} controllers run, and {layout.majority} are needed"
    return "; see its log"


# Stopping ---------------------------------------------------------------------------------------------------


def _release_without_quorum(layout: Layout, stopping: Sequence[NodeProcess]) -> None:
    """A controlled shutdown needs a controller: without a quorum it would wait for minutes."""
    if len(running_nodes(layout, layout.controllers)) < layout.majority:
        for process in stopping:
            send_signal(process, STOP_ALONE)


def stop(parser: ArgumentParser, options: Namespace) -> int:
    """One after another, so that each can hand over its leaderships to one that stays."""
    layout = existing_layout(options)
    nodes = [layout.node(node_id) for node_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        for node in nodes:
            end_nodes(layout, [node], signal.SIGTERM, options.timeout)
    return Exit.OK


def kill(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    nodes = [layout.node(node_id) for node_id in dict.fromkeys(options.node)]
    with locked(layout.folder):
        end_nodes(layout, nodes, signal.SIGKILL, STOP_TIMEOUT_S)
    return Exit.OK


def down(parser: ArgumentParser, options: Namespace) -> int:
    layout = existing_layout(options)
    with locked(layout.folder):
        others = [node for node in layout.nodes if node not in layout.controllers]
        if others:
            end_nodes(layout, others, signal.SIGTERM, options.timeout)
        end_nodes(layout, layout.controllers, signal.SIGTERM, options.timeout)
        if options.delete:
            for node in layout.nodes:
                shutil.rmtree(layout.node_folder(node), ignore_errors=True)
            shutil.rmtree(layout.folder)
    if options.delete:
        print(f"barnabas: {layout.folder} is deleted")
    else:
        print(f"barnabas: the data stays in {layout.folder}; barnabas cluster up starts the cluster again")
    return Exit.OK


_ENDS = {signal.SIGTERM: "has stopped", signal.SIGKILL: "was killed"}


def end_nodes(layout: Layout, nodes: Sequence[LocalNode], number: signal.Signals, timeout_s: int) -> None:
    running = running_nodes(layout, nodes)
    for node in nodes:
        if node.id not in running:
            print(f"barnabas: node {node.id} is not running ({state_of(layout, node)})")
    for process in running.values():
        send_signal(process, number)
    release = partial(_release_without_quorum, layout, list(running.values()))
    left = wait_for_end(list(running.values()), timeout_s * 1_000, release)
    for node_id, process in running.items():
        if process not in left:
            print(f"barnabas: node {node_id} {_ENDS[number]} (pid {process.pid})")
    if left:
        slow = [node_id for node_id, process in running.items() if process in left]
        names = " ".join(map(str, slow))
        raise CommandError(
            f"barnabas: not stopped within {timeout_s} s: node {names}; see its log, or end it with"
            f" barnabas cluster kill {names}",
            Exit.TIMED_OUT,
        )
