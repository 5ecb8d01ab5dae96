"""`barnabas status`: which servers run on this machine, and whether they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.friendly.framework import add_output
from barnabas.cli.friendly.output import Printer
from barnabas.cli.server.running_servers import ServerInfo, running_servers
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk

if TYPE_CHECKING:
    from barnabas.protocol.messages.metadata import MetadataResponse

PROGRAM = "barnabas status"
METADATA_VERSION = 9
EVERYWHERE = ("::", "0.0.0.0", "")


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM, "Show the servers of this user on this machine, and whether they answer."
    )
    add_output(parser)
    options = parser.parse(arguments)
    servers = running_servers(FolderDisk())
    if not servers:
        raise CommandError(
            "barnabas: no server runs here; barnabas server-start FILE starts one", Exit.NOT_FOUND
        )
    rows = [_look_at(info) for info in servers]
    if options.output in ("table", "wide"):
        for row in rows:
            print(_line(row))
    else:
        Printer(options.output, (), name=lambda row: f"node-{row['node_id']}").all(rows)
    return Exit.OK if all(row["answers"] for row in rows) else Exit.UNREACHABLE


def _look_at(info: ServerInfo) -> dict[str, object]:
    row: dict[str, object] = {
        **asdict(info),
        "up_seconds": max(0, SystemClock().wall_ms() - info.started_ms) // 1_000,
        "answers": True,
    }
    if "broker" not in info.roles:
        return row
    try:
        seen = _metadata(info)
    except CommandError as error:
        return {**row, "answers": False, "fault": str(error)}
    partitions = [one for topic in seen.topics for one in topic.partitions]
    wanted = all_operations()
    return {
        **row,
        "brokers": len(seen.brokers),
        "topics": len(seen.topics),
        "partitions": len(partitions),
        "partitions_without_leader": sum(one.leader_id < 0 for one in partitions),
        "topics_may_be_hidden": seen.cluster_authorized_operations & wanted != wanted,
    }


def all_operations() -> int:
    """All that a cluster may be asked for; without an authorizer, everybody may do all of it."""
    from barnabas.security.acls import Operation

    operations = (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    )
    return sum(1 << operation for operation in operations)


def _metadata(info: ServerInfo) -> MetadataResponse:
    # Only needed when there is a server to ask: help must not wait for it.
    from barnabas.cli.framework.single_request import ask
    from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
    from barnabas.runtime.network.network import Address

    host, _, port = next(iter(info.listeners.values())).rpartition(":")
    host = host.strip("[]")
    server = Address("127.0.0.1" if host in EVERYWHERE else host, int(port))
    request = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_cluster_authorized_operations=True
    )
    return ask(server, request, METADATA_VERSION, MetadataResponse)


def _line(row: dict[str, object]) -> str:
    listeners = row["listeners"]
    assert isinstance(listeners, dict)
    places = ", ".join(f"{name} {place}" for name, place in listeners.items())
    roles = row["roles"]
    assert isinstance(roles, list)
    text = f"node {row['node_id']}  pid {row['pid']}  {','.join(roles)}  {places}  up {row['up_seconds']} s"
    if not row["answers"]:
        return f"{text}  DOES NOT ANSWER: {row['fault']}"
    if "topics" in row:
        text += f"  {row['topics']} topics, {row['partitions']} partitions"
        if row["partitions_without_leader"]:
            text += f" ({row['partitions_without_leader']} WITHOUT LEADER)"
        if row["topics_may_be_hidden"]:
            text += " that anybody may see; an authorizer hides others, ask as somebody who may see them"
    return text
