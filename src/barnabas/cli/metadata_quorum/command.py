"""`barnabas metadata-quorum`: the leader, replication state and voters of the metadata quorum.

The commands, flags and lines are those of Apache Kafka's kafka-metadata-quorum.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.columns import tabbed_table
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import integer
from barnabas.cli.framework.subcommands import Subcommand, Tool

if TYPE_CHECKING:
    from barnabas.client.admin.cluster_calls import QuorumInfo, QuorumReplica
    from barnabas.client.sync import Admin

PROGRAM = "barnabas metadata-quorum"
HEADERS = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)
UNKNOWN_TIME = "-1"


def _declare(parser: ArgumentParser) -> None:
    add_connection_flags(parser, controllers=True)


def _declare_describe(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--status", action="store_true", help="show the leader, the epoch, the voters and the observers")
    add("--replication", action="store_true", help="show the log end offset and lag of each replica")
    add("--human-readable", action="store_true", help="with --replication: print times as `5 ms ago`")


def _declare_add(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")


def _declare_remove(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--controller-id", "-i", type=integer, required=True, metavar="ID", help="the controller's node.id")
    add(
        "--controller-directory-id",
        "-d",
        required=True,
        metavar="ID",
        help="the id of its metadata folder, as `storage info` shows it",
    )
    add("--dry-run", action="store_true", help="only show what would be done")


def _check_config(options: Namespace) -> None:
    from barnabas.runtime.disk.folder_disk import FolderDisk

    path = options.command_config
    if path is not None and not FolderDisk().exists(path):
        raise CommandError(f"Properties file {path} does not exists!", Exit.NOT_FOUND)


# Describing -------------------------------------------------------------------------------------------------


def describe_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.status and options.replication:
        raise UsageError(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if not options.status and not options.replication:
        raise UsageError("One of --status or --replication must be specified with describe sub-command")
    if options.status and options.human_readable:
        raise UsageError("The option --human-readable is only supported along with --replication")
    _check_config(options)
    with open_admin(parser, options) as admin:
        print(status(admin) if options.status else replication(admin, options.human_readable), end="")
    return Exit.OK


def status(admin: Admin) -> str:
    cluster_id = admin.describe_cluster().cluster_id
    quorum = admin.describe_metadata_quorum()
    leader = _leader(quorum)
    slowest = min(quorum.voters, key=lambda replica: replica.log_end_offset)
    lag_ms = 0
    if slowest is not leader:
        times = (leader.last_caught_up_timestamp, slowest.last_caught_up_timestamp)
        lag_ms = -1 if times[0] is None or times[1] is None else times[0] - times[1]
    rows = {
        "ClusterId": cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - slowest.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": _replicas(quorum, quorum.voters),
        "CurrentObservers": _replicas(quorum, quorum.observers),
    }
    return "".join(f"{f'{name}:':<24}{value}\n" for name, value in rows.items())


def _leader(quorum: QuorumInfo) -> QuorumReplica:
    leader = next((voter for voter in quorum.voters if voter.id == quorum.leader_id), None)
    if leader is None:
        raise CommandError("the quorum has no leader at the moment; try again")
    return leader


def _replicas(quorum: QuorumInfo, replicas: Sequence[QuorumReplica]) -> str:
    from barnabas.base.ids import ZERO_UUID

    texts = []
    for replica in replicas:
        parts = [f'"id": {replica.id}']
        parts += [f'"directoryId": "{replica.directory_id}"'] if replica.directory_id != ZERO_UUID else []
        endpoints = [
            f'"{end.name}://{_host(end.host)}:{end.port}"' for end in quorum.nodes.get(replica.id, ())
        ]
        parts += [f'"endpoints": [{", ".join(endpoints)}]'] if endpoints else []
        texts.append(f"{{{', '.join(parts)}}}")
    return f"[{', '.join(texts)}]"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def replication(admin: Admin, human_readable: bool) -> str:
    from barnabas.runtime.clock import SystemClock

    quorum = admin.describe_metadata_quorum()
    leader = _leader(quorum)
    now_ms = SystemClock().wall_ms()

    def time_text(timestamp: int | None) -> str:
        if timestamp is None:
            return UNKNOWN_TIME
        return f"{max(now_ms - timestamp, 0)} ms ago" if human_readable else str(timestamp)

    def row(replica: QuorumReplica, status: str) -> Sequence[object]:
        lag = leader.log_end_offset - replica.log_end_offset
        times = (time_text(replica.last_fetch_timestamp), time_text(replica.last_caught_up_timestamp))
        return (replica.id, replica.directory_id, replica.log_end_offset, lag, *times, status)

    rows = [row(leader, "Leader")]
    rows += [row(voter, "Follower") for voter in quorum.voters if voter is not leader]
    rows += [row(observer, "Observer") for observer in quorum.observers]
    return tabbed_table(HEADERS, rows)


# Voters -----------------------------------------------------------------------------------------------------


def add_controller_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.command_config is None:
        raise UsageError(
            "You must supply the configuration file of the controller you are adding when using"
            " add-controller."
        )
    _check_config(options)
    from barnabas.cli.metadata_quorum.controller_file import read_controller

    controller = read_controller(options.command_config)
    if not options.dry_run:
        with open_admin(parser, options) as admin:
            admin.add_raft_voter(controller.id, controller.directory_id, controller.endpoints)
    endpoints = ", ".join(f"{end.name}://{_host(end.host)}:{end.port}" for end in controller.endpoints)
    print(
        f"{'DRY RUN of adding' if options.dry_run else 'Added'} controller {controller.id} with directory id"
        f" {controller.directory_id} and endpoints: {endpoints}"
    )
    return Exit.OK


def remove_controller_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.base.ids import Uuid

    if options.controller_id < 0:
        raise UsageError(f"Invalid negative --controller-id: {options.controller_id}")
    try:
        directory_id = Uuid.parse(options.controller_directory_id)
    except ValueError as error:
        raise UsageError(f"Failed to parse --controller-directory-id: {error}") from error
    _check_config(options)
    if not options.dry_run:
        with open_admin(parser, options) as admin:
            admin.remove_raft_voter(options.controller_id, directory_id)
    print(
        f"{'DRY RUN of removing ' if options.dry_run else 'Removed '} KRaft controller"
        f" {options.controller_id} with directory id {directory_id}"
    )
    return Exit.OK


SUBCOMMANDS = {
    "describe": Subcommand("show the state of the quorum", _declare_describe, describe_command),
    "add-controller": Subcommand(
        "make a controller a voter; --command-config names its file",
        _declare_add,
        add_controller_command,
    ),
    "remove-controller": Subcommand(
        "remove a controller from the voters", _declare_remove, remove_controller_command
    ),
}


def run(arguments: Sequence[str]) -> int:
    description = "Describe the metadata quorum, add and remove voters."
    return Tool(PROGRAM, description, SUBCOMMANDS, _declare).run(arguments)
