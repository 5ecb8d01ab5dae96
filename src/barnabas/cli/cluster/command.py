"""`barnabas cluster`: run a local cluster; print the id of any cluster, list its nodes, unregister brokers.

`cluster-id`, `list-endpoints` and `unregister` are those of Apache Kafka's kafka-cluster.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from barnabas.cli.cluster import local
from barnabas.cli.cluster.kafka_cluster import KAFKA_SUBCOMMANDS, declare_connection
from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.subcommands import Subcommand, Tool
from barnabas.cli.friendly.framework import friendly_tool

PROGRAM = "barnabas cluster"
DESCRIPTION = "Run a local cluster; print the id of any cluster, list its nodes, unregister brokers."


def _status(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.cluster.status import status

    return status(parser, options)


LOCAL_SUBCOMMANDS: dict[str, Subcommand] = {
    "up": Subcommand("start a local cluster, or its nodes that are down", local.declare_up, local.up),
    "status": Subcommand("show the nodes of the local cluster", local.declare_status, _status),
    "start": Subcommand("start nodes of the local cluster again", local.declare_start, local.start),
    "stop": Subcommand("stop nodes cleanly, and wait for them", local.declare_stop, local.stop),
    "kill": Subcommand("end nodes at once, as a crash does", local.declare_kill, local.kill),
    "down": Subcommand("stop the local cluster; its data stays", local.declare_down, local.down),
}
SUBCOMMANDS = {**LOCAL_SUBCOMMANDS, **KAFKA_SUBCOMMANDS}


def run(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] in LOCAL_SUBCOMMANDS:
        return friendly_tool(PROGRAM, DESCRIPTION, SUBCOMMANDS).run(arguments)
    return Tool(PROGRAM, DESCRIPTION, SUBCOMMANDS, declare_connection).run(arguments)
