"""`barnabas restart`: restart nodes one after another, while the others keep every partition available.

A node stops only when no partition depends on it alone, and the next one follows only when it is in sync
again.  Nodes of a local cluster are restarted here; others by a command, such as systemctl over ssh.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.cluster.health import (
    Absence,
    PartitionState,
    absence_of,
    behind,
    closed_to_writes,
    counted,
    named,
    partition_states,
)
from barnabas.cli.cluster.layout import Layout, LocalNode
from barnabas.cli.cluster.local import (
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    add_folder,
    end_nodes,
    existing_layout,
    locked,
    running_nodes,
    start_stopped,
)
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import FriendlyParser, add_cluster, open_admin

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from barnabas.client.admin.cluster_calls import QuorumInfo
    from barnabas.client.sync import Admin

PROGRAM = "barnabas restart"
WAIT_S = 300
_NO_QUORUM = "without it there is no quorum; metadata waits until it is back"
# Quorums of this many voters cannot spare one.
_MAX_WITHOUT_SPARE = 2
EPILOG = """\
Ctrl+C stops between two steps: what runs keeps running, and the last lines say how to go on.
The command of --command may contain {id} and {host}, and returns when the node has been restarted:
  barnabas restart --rolling -b worker1:9092 --command 'ssh {host} systemctl restart barnabas'"""


class Restartable(NamedTuple):
    """A node, and how to restart it.  `is_broker`: it may hold partitions."""

    id: int
    is_broker: bool
    restart: Callable[[], None]


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM,
        "Restart nodes one after another; each waits until no partition depends on it alone.",
        EPILOG,
    )
    add = parser.add_argument
    add(
        "node",
        nargs="*",
        type=whole_number(0),
        metavar="N",
        help="ids of nodes (default with --rolling: all)",
    )
    add("--rolling", action="store_true", help="restart all nodes, the active controller last")
    add("--command", metavar="COMMAND", help="how to restart a node that is not one of a local cluster")
    add("--force", action="store_true", help="restart a node although partitions have no other replica")
    add(
        "--timeout",
        type=whole_number(1),
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long each wait may take (default {WAIT_S})",
    )
    add_folder(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if not options.node and not options.rolling:
        raise UsageError(f"{PROGRAM}: give the ids of nodes, or --rolling for all of them")
    if options.command is not None:
        return _Rolling(parser, options, None).run()
    layout = existing_layout(options)
    options.bootstrap_server = options.bootstrap_server or layout.bootstrap_servers
    with locked(layout.folder):
        return _Rolling(parser, options, layout).run()


class _Rolling:
    """The restart of some nodes, in order."""

    def __init__(self, parser: FriendlyParser, options: Namespace, layout: Layout | None) -> None:
        self._parser = parser
        self._options = options
        self._layout = layout
        # The node that is being restarted, and whether it has been asked to stop.
        self._current: int | None = None
        self._is_stopping = False

    def run(self) -> Exit:
        nodes = self._nodes()
        left = [node.id for node in nodes]
        try:
            for number, node in enumerate(nodes, 1):
                self._restart(node)
                left.remove(node.id)
                print(f"node {node.id}: restarted ({number} of {len(nodes)})", flush=True)
            self._current = None
            if any(node.is_broker for node in nodes):
                self._move_leaders_back()
        except KeyboardInterrupt:
            print(self._how_on(left), file=sys.stderr)
            return Exit.INTERRUPTED
        except CommandError as error:
            raise CommandError(f"{error}\n{self._how_on(left)}".replace("\n", "; "), error.code) from error
        return Exit.OK

    def _how_on(self, left: Sequence[int]) -> str:
        """What the state is, and the command that continues."""
        if not left:
            return f"{PROGRAM}: every node has been restarted; only the leaderships have not moved back"
        again = f"{PROGRAM} {' '.join(map(str, left))}{self._where()}"
        if self._is_stopping and self._layout is not None:
            return (
                f"{PROGRAM}: node {self._current} was asked to stop; barnabas cluster start {self._current} "
                f"starts it again, and {again} goes on"
            )
        return f"{PROGRAM}: no other node has been touched; {again} goes on"

    def _where(self) -> str:
        """The options that the command needs again for nodes on other hosts."""
        options = self._options
        if self._layout is not None:
            return ""
        servers = f" -b {options.bootstrap_server}" if options.bootstrap_server else ""
        return f"{servers} --command {shlex.quote(options.command)}"

    # Which nodes

    def _nodes(self) -> list[Restartable]:
        layout, chosen = self._layout, list(dict.fromkeys(self._options.node))
        if layout is None:
            return self._remote_nodes(chosen)
        from barnabas.cli.cluster.status import active_controller

        nodes = [layout.node(node_id) for node_id in chosen] if chosen else layout.nodes
        active = active_controller(layout)
        last = None if active is None else active.node_id
        # Those that are down first: the others need them.
        running = running_nodes(layout, nodes)
        ordered = sorted(nodes, key=lambda node: (node.id in running, node.id == last, node.id))
        return [
            Restartable(node.id, node.broker_port is not None, partial(self._restart_local, node))
            for node in ordered
        ]

    def _remote_nodes(self, chosen: Sequence[int]) -> list[Restartable]:
        with self._admin() as admin:
            hosts = {node.id: node.host for node in admin.describe_cluster().nodes}
            active = _active_controller(admin)
        unknown = [str(node_id) for node_id in chosen if node_id not in hosts]
        if unknown:
            raise CommandError(
                f"{PROGRAM}: no broker {', '.join(unknown)}; the brokers are {', '.join(map(str, hosts))}",
                Exit.NOT_FOUND,
            )
        return [
            Restartable(node_id, True, partial(self._run_command, node_id, hosts[node_id]))
            for node_id in sorted(chosen or hosts, key=lambda node_id: (node_id == active, node_id))
        ]

    # One node

    def _restart(self, node: Restartable) -> None:
        self._current, self._is_stopping = node.id, False
        layout = self._layout
        if layout is not None:
            local = layout.node(node.id)
            if not running_nodes(layout, [local]):
                self._is_stopping = True
                self._start(local)
            else:
                self._check_quorum(layout, local)
                if node.is_broker:
                    self._wait_to_stop(node.id)
                node.restart()
        else:
            self._wait_to_stop(node.id)
            node.restart()
        self._is_stopping = False
        if node.is_broker:
            self._wait_in_sync(node.id)

    def _check_quorum(self, layout: Layout, node: LocalNode) -> None:
        if node.controller_port is None:
            return
        others = len(running_nodes(layout, [other for other in layout.controllers if other.id != node.id]))
        if others >= layout.majority:
            return
        if others < len(layout.controllers) - 1:
            raise CommandError(
                f"node {node.id}: only {others + 1} of {len(layout.controllers)} controllers run, and "
                f"without it there would be no quorum; start the others with barnabas cluster up"
            )
        print(f"node {node.id}: {_NO_QUORUM}", flush=True)

    def _admin(self) -> AbstractContextManager[Admin]:
        return open_admin(self._parser, self._options)

    def _wait_to_stop(self, node_id: int) -> None:
        from barnabas.cli.cluster.waiting import wait_until

        options = self._options
        with self._admin() as admin:
            states = partition_states(admin)
            _refuse_only_replicas(node_id, absence_of(node_id, states), is_forced=options.force)
            closed = closed_to_writes(node_id, states)
            if closed:
                print(
                    f"node {node_id}: {named(closed)} cannot be written with acks=all meanwhile: "
                    "min.insync.replicas needs all replicas",
                    flush=True,
                )
            if self._layout is None:
                _warn_of_small_quorum(node_id, _quorum(admin))
            wait_until(
                admin,
                lambda: (
                    _why_not_stop(absence_of(node_id, partition_states(admin)))
                    or ("" if self._layout else _why_no_quorum(node_id, _quorum(admin)))
                ),
                options.timeout,
                subject=f"node {node_id}",
                how_on="it was not stopped",
            )
            led = sum(
                partition.leader == node_id and len(partition.replicas) > 1
                for partition in partition_states(admin)
            )
        print(f"node {node_id}: stopping; it hands over {counted(led, 'leadership')}", flush=True)

    def _restart_local(self, node: LocalNode) -> None:
        layout = self._layout
        assert layout is not None
        self._is_stopping = True
        end_nodes(layout, [node], signal.SIGTERM, max(STOP_TIMEOUT_S, self._options.timeout))
        self._start(node)

    def _start(self, node: LocalNode) -> None:
        layout = self._layout
        assert layout is not None
        code = start_stopped(layout, [node], max(START_TIMEOUT_S, self._options.timeout))
        if code is not Exit.OK:
            raise CommandError(f"node {node.id}: it did not start; see {layout.log_file(node)}", code)

    def _run_command(self, node_id: int, host: str) -> None:
        command = self._options.command.replace("{id}", str(node_id)).replace("{host}", shlex.quote(host))
        print(f"node {node_id}: {command}", flush=True)
        done = subprocess.run(command, shell=True, check=False)  # the operator's own command  # nosec B602
        if done.returncode:
            raise CommandError(f"node {node_id}: the command ended with {done.returncode}")

    def _wait_in_sync(self, node_id: int) -> None:
        from barnabas.cli.cluster.waiting import wait_until

        with self._admin() as admin:

            def reason() -> str:
                if node_id not in {node.id for node in admin.describe_cluster().nodes}:
                    return "for it to register"
                missing = behind(node_id, partition_states(admin))
                return f"until it is in sync again: {named(missing)}" if missing else ""

            wait_until(
                admin,
                reason,
                self._options.timeout,
                subject=f"node {node_id}",
                how_on="it runs; barnabas explain --partitions says more",
            )

    def _move_leaders_back(self) -> None:
        from barnabas.client.admin.reassignments import ElectionType

        with self._admin() as admin:
            moved = admin.elect_leaders(ElectionType.PREFERRED)
        count = len(moved.values_by_key)
        print(f"{counted(count, 'leadership')} moved back to the preferred replica", flush=True)


def _quorum(admin: Admin) -> QuorumInfo | None:
    """None in ZooKeeper mode: no broker there is a voter."""
    from barnabas.client.errors import UnsupportedVersionError

    try:
        return admin.describe_metadata_quorum()
    except UnsupportedVersionError:
        return None


def _active_controller(admin: Admin) -> int | None:
    quorum = _quorum(admin)
    if quorum is not None:
        return quorum.leader_id
    controller = admin.describe_cluster().controller
    return None if controller is None else controller.id


def _refuse_only_replicas(node_id: int, absence: Absence, *, is_forced: bool) -> None:
    alone: list[PartitionState] = absence.only_replica
    if alone and not is_forced:
        raise CommandError(
            f"node {node_id}: it has the only replica of {named(alone)}, which cannot be read or written "
            "while it is away; --force restarts it nevertheless"
        )


def _why_not_stop(absence: Absence) -> str:
    if absence.last_in_sync:
        return f"until another replica is in sync: {named(absence.last_in_sync)}"
    if absence.below_min_isr:
        return f"until enough others are in sync for acks=all: {named(absence.below_min_isr)}"
    return ""


def _warn_of_small_quorum(node_id: int, quorum: QuorumInfo | None) -> None:
    voters = set() if quorum is None else {voter.id for voter in quorum.voters}
    if node_id in voters and len(voters) <= _MAX_WITHOUT_SPARE:
        print(f"node {node_id}: {_NO_QUORUM}", flush=True)


def _why_no_quorum(node_id: int, quorum: QuorumInfo | None) -> str:
    """Whether the other controllers can go on without it: those that have all that is committed."""
    if quorum is None:
        return ""
    others = [voter for voter in quorum.voters if voter.id != node_id]
    if len(others) == len(quorum.voters) or len(quorum.voters) <= _MAX_WITHOUT_SPARE:
        return ""
    behind_log = [voter.id for voter in others if voter.log_end_offset < quorum.high_watermark]
    if len(others) - len(behind_log) > len(quorum.voters) // 2:
        return ""
    ids = ", ".join(map(str, sorted(behind_log)))
    return f"until the other controllers are a quorum without it; behind in the metadata log: {ids}"
