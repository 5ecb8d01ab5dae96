"""`barnabas status`: the servers that run on this machine, and whether they respond."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.text.terminal import broken_lines
from barnabas.cli.friendly.framework import add_output
from barnabas.cli.friendly.output import Printer, count_of
from barnabas.cli.server.running_servers import ServerInfo, running_servers
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk

if TYPE_CHECKING:
    from barnabas.protocol.messages.metadata import MetadataResponse
    from barnabas.runtime.network.network import Address

PROGRAM = "barnabas status"
METADATA_VERSION = 9
LOG_DIRS_VERSION = 4
ANY_ADDRESS = ("::", "0.0.0.0", "")  # compared with, not bound  # nosec B104


def run(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(
        PROGRAM, "Show the servers of this user on this machine, and whether they respond."
    )
    add_output(parser)
    options = parser.parse(arguments)
    servers = running_servers(FolderDisk())
    if not servers:
        raise CommandError(
            "barnabas: no server is running; start one with barnabas server-start FILE", Exit.NOT_FOUND
        )
    rows = [_server_row(info) for info in servers]
    if options.output in ("table", "wide"):
        for row in rows:
            print(_line(row))
    else:
        Printer(options.output, (), name=lambda row: f"node-{row['node_id']}").all(rows)
    return Exit.OK if all(row["answers"] for row in rows) else Exit.UNREACHABLE


def _server_row(info: ServerInfo) -> dict[str, object]:
    row: dict[str, object] = {
        **asdict(info),
        "up_seconds": max(0, SystemClock().wall_ms() - info.started_ms) // 1_000,
        "answers": True,
    }
    if "broker" not in info.roles:
        return row
    try:
        metadata = _metadata(info)
    except CommandError as error:
        return {**row, "answers": False, "fault": str(error)}
    partitions = [partition for topic in metadata.topics for partition in topic.partitions]
    all_bits = all_operations()
    return {
        **row,
        "brokers": len(metadata.brokers),
        "topics": len(metadata.topics),
        "partitions": len(partitions),
        "partitions_without_leader": sum(partition.leader_id < 0 for partition in partitions),
        "topics_may_be_hidden": metadata.cluster_authorized_operations & all_bits != all_bits,
        "full_log_dirs": _full_log_dirs(info),
    }


def all_operations() -> int:
    """All operations on a cluster; without an authorizer, everyone may perform them."""
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
    # Imported lazily, so that help is fast.
    from barnabas.cli.framework.single_request import send_request
    from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

    request = MetadataRequest(
        topics=None, allow_auto_topic_creation=False, include_cluster_authorized_operations=True
    )
    return send_request(_address(info), request, METADATA_VERSION, MetadataResponse)


def _full_log_dirs(info: ServerInfo) -> list[str]:
    """Directories that refuse writes; none for one who may not describe the cluster."""
    from barnabas.cli.framework.single_request import send_request
    from barnabas.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

    request = DescribeLogDirsRequest(topics=[])
    response = send_request(_address(info), request, LOG_DIRS_VERSION, DescribeLogDirsResponse)
    return [
        result.log_dir
        for result in response.results
        if not result.error_code and not result.usable_bytes and result.total_bytes > 0
    ]


def _address(info: ServerInfo) -> Address:
    from barnabas.runtime.network.network import Address

    host, _, port = next(iter(info.listeners.values())).rpartition(":")
    host = host.strip("[]")
    return Address("127.0.0.1" if host in ANY_ADDRESS else host, int(port))


def _line(row: dict[str, object]) -> str:
    listeners = row["listeners"]
    assert isinstance(listeners, dict)
    addresses = ", ".join(f"{name} {address}" for name, address in listeners.items())
    roles = row["roles"]
    assert isinstance(roles, list)
    parts = [
        f"node {row['node_id']}{' (dev)' if row['is_dev'] else ''}",
        f"pid {row['pid']}",
        ",".join(roles),
        addresses,
        f"up {row['up_seconds']} s",
    ]
    if not row["answers"]:
        parts.append(f"DOES NOT ANSWER: {row['fault']}")
    elif "topics" in row:
        topics, partitions = row["topics"], row["partitions"]
        assert isinstance(topics, int)
        assert isinstance(partitions, int)
        text = f"{count_of(topics, 'topic')}, {count_of(partitions, 'partition')}"
        if row["partitions_without_leader"]:
            text += f" ({row['partitions_without_leader']} WITHOUT LEADER)"
        if row["topics_may_be_hidden"]:
            text += " visible to anonymous clients; an authorizer may hide others"
        parts.append(text)
        full = row["full_log_dirs"]
        assert isinstance(full, list)
        if full:
            parts.append(f"FULL, writes are refused: {', '.join(full)}")
    return broken_lines(parts, sys.stdout)
