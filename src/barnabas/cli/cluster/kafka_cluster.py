"""`barnabas cluster cluster-id`, `list-endpoints` and `unregister`.

The commands, flags and lines are those of Apache Kafka's kafka-cluster.
"""

from __future__ import annotations

from argparse import Namespace

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.columns import padded_row
from barnabas.cli.framework.connecting import open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import integer
from barnabas.cli.framework.subcommands import Subcommand, no_flags

ONLY_OF_BROKERS = "The option --include-fenced-brokers is only supported with --bootstrap-server option"


def declare_connection(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--bootstrap-server", "-b", metavar="HOST:PORT,...", help="brokers to connect to first")
    add("--bootstrap-controller", "-C", metavar="HOST:PORT,...", help="controllers to connect to instead")
    add("--config", "-c", dest="command_config", metavar="FILE", help="properties file of the client")


def _declare_unregister(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--id", "-i", type=integer, required=True, metavar="ID", help="the id of the broker to unregister"
    )


def _declare_list_endpoints(parser: ArgumentParser) -> None:
    parser.add_argument("--include-fenced-brokers", action="store_true", help="also list fenced brokers")


def cluster_id_command(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    if cluster_id is None:
        raise CommandError("No cluster ID found. The Kafka version is probably too old.")
    print(f"Cluster ID: {cluster_id}")
    return Exit.OK


def unregister_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.errors import UnsupportedVersionError

    with open_admin(parser, options) as admin:
        try:
            admin.unregister_broker(options.id)
        except UnsupportedVersionError as error:
            raise CommandError(
                "The target cluster does not support the broker unregistration API."
            ) from error
    print(f"Broker {options.id} is no longer registered.")
    return Exit.OK


def list_endpoints_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.include_fenced_brokers and options.bootstrap_controller:
        raise UsageError(ONLY_OF_BROKERS)
    with open_admin(parser, options) as admin:
        nodes = admin.describe_cluster(include_fenced_brokers=options.include_fenced_brokers).nodes
    hosts = max([0, *(len(node.host) for node in nodes)])
    racks = max([10, *(len(node.rack or "null") for node in nodes)])
    if options.bootstrap_controller is None:
        columns = {"ID": 10, "HOST": hosts, "PORT": 10, "RACK": racks, "STATE": 10, "ENDPOINT_TYPE": 15}
    else:
        # A controller is never fenced.
        columns = {"ID": 10, "HOST": hosts, "PORT": 10, "RACK": racks, "ENDPOINT_TYPE": 15}
    widths = list(columns.values())
    print(padded_row(list(columns), widths))
    for node in sorted(nodes, key=lambda node: node.id):
        end = ["controller"]
        if options.bootstrap_controller is None:
            end = ["fenced" if node.is_fenced else "unfenced", "broker"]
        print(padded_row([node.id, node.host, node.port, node.rack or "null", *end], widths))
    return Exit.OK


KAFKA_SUBCOMMANDS = {
    "cluster-id": Subcommand("print the cluster id", no_flags, cluster_id_command),
    "unregister": Subcommand("unregister a broker", _declare_unregister, unregister_command),
    "list-endpoints": Subcommand(
        "list the brokers or the controllers", _declare_list_endpoints, list_endpoints_command
    ),
}
