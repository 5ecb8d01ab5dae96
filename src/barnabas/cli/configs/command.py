"""`barnabas configs`: describe and alter options, quotas and SCRAM credentials, as kafka-configs does."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from barnabas.cli.configs.entities import DEFAULT_FLAGS, ENTITY_FLAGS, Entities, check_entities
from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules

PROGRAM = "barnabas configs"
NO_SERVER = "Either --bootstrap-server or --bootstrap-controller must be specified."


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Describe or alter options, quotas and credentials.",
        "Give exactly one of --describe and --alter.",
    )
    add = parser.add_argument
    add_connection_flags(parser, controllers=True, old_zookeeper=True)
    add("--describe", action="store_true", help="print the options that are set")
    add("--alter", action="store_true", help="change options")
    add("--all", action="store_true", help="print every option, including those at their default")
    add(
        "--entity-type",
        action="append",
        metavar="TYPE",
        help="topics, clients, users, brokers, broker-loggers, ips, client-metrics or groups",
    )
    add("--entity-name", dest="entity_names", action="append", metavar="NAME", help="the name of the entity")
    add(
        "--entity-default",
        dest="entity_names",
        action="append_const",
        const="",
        help="the default for all clients, users, brokers or ips",
    )
    for flag, entity_type in ENTITY_FLAGS.items():
        add(flag, metavar="NAME", help=f"short for --entity-type {entity_type} --entity-name NAME")
    for flag, entity_type in DEFAULT_FLAGS.items():
        add(flag, action="store_true", help=f"short for --entity-type {entity_type} --entity-default")
    add(
        "--add-config",
        metavar="K1=V1,K2=[V1,V2],...",
        help="options to set; put a value that has commas in brackets",
    )
    add("--add-config-file", metavar="FILE", help="properties file with options to set")
    add("--delete-config", action="append", metavar="K1,K2,...", help="options to reset to their default")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    entities = check_flags(FlagRules(parser, options), options)
    with _reporting_errors(arguments), open_admin(parser, options, NO_SERVER) as admin:
        if options.alter:
            from barnabas.cli.configs.alter import alter

            alter(admin, entities, options)
            return Exit.OK
        from barnabas.cli.configs.describe import describe

        return describe(admin, entities, every=options.all)


@contextmanager
def _reporting_errors(arguments: Sequence[str]) -> Iterator[None]:
    """Reports errors of the cluster with the prefix of Apache Kafka's tool; ConfigError passes unchanged."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code, message_of
    from barnabas.config.errors import ConfigError

    try:
        yield
    except ConfigError:
        raise
    except KafkaError as error:
        line = " ".join(arguments)
        raise CommandError(
            f"Error while executing config command with args '{line}': {message_of(error)}", exit_code(error)
        ) from error


def check_flags(rules: FlagRules, options: Namespace) -> Entities:
    """The entities; conflicting flags are refused with Apache Kafka's messages."""
    rules.exactly_one(
        ("--alter", "--describe"), "Command must include exactly one action: --describe, --alter"
    )
    rules.forbid("--describe", ("--add-config", "--delete-config"))
    entities = check_entities(options)
    if options.bootstrap_server and options.bootstrap_controller:
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    if not (options.bootstrap_server or options.bootstrap_controller or options.old_zookeeper):
        raise UsageError(NO_SERVER)
    if options.alter:
        if options.add_config and options.add_config_file:
            raise UsageError("Only one of --add-config or --add-config-file must be specified")
        if not (options.add_config or options.add_config_file or options.delete_config):
            raise UsageError(
                "At least one of --add-config, --add-config-file, or --delete-config must be specified "
                "with --alter"
            )
    return entities
