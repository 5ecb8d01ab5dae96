"""`barnabas topic`: list, show, create, change, empty and delete topics."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from fnmatch import fnmatchcase

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import (
    add_cluster,
    add_output,
    friendly_tool,
    open_admin,
    tell_errors,
)
from barnabas.cli.friendly.output import Column, Printer
from barnabas.cli.friendly.topic import changes as topic_changes
from barnabas.cli.friendly.topic.rows import PARTITIONS, TOPICS, partition_rows, topic_rows

PROGRAM = "barnabas topic"
CONFIGS = (Column("topic"), Column("key"), Column("value"), Column("source"))


def run(arguments: Sequence[str]) -> int:
    return friendly_tool(PROGRAM, "List, show, create, change, empty and delete topics.", SUBCOMMANDS).run(
        arguments
    )


# Looking ----------------------------------------------------------------------------------------------------


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="names, with * and ? (default all)")
    parser.add_argument("--internal", action="store_true", help="also those that the brokers use themselves")
    add_output(parser)
    add_cluster(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        listed = admin.list_topics(include_internal=options.internal)
        names = sorted(name for name in listed if _fits(name, options.pattern))
        printer = Printer(options.output, TOPICS, name="topic")
        if options.output == "name":
            printer.all({"topic": name} for name in names)
        else:
            printer.all(topic_rows(admin, names))
    return Exit.OK


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _declare_show(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="which")
    add_output(parser)
    add_cluster(parser)


def _show(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        found = admin.describe_topics(options.topic)
        printer = Printer(options.output, PARTITIONS, name=lambda row: f"{row['topic']}-{row['partition']}")
        if found.values_by_key:
            printer.all(partition_rows(admin, list(found.values_by_key.values())))
        return tell_errors(parser.prog, found.errors, "topic")


def _declare_configs(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="which")
    parser.add_argument("--all", action="store_true", help="also the options that nobody has set")
    add_output(parser)
    add_cluster(parser)


def _configs(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
    from barnabas.config.layers import ConfigSource

    with open_admin(parser, options) as admin:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in options.topic]
        found = admin.describe_configs(resources)
        rows = [
            {"topic": resource.name, "key": key, "value": entry.value, "source": entry.source.name.lower()}
            for resource, entries in found.values_by_key.items()
            for key, entry in sorted(entries.items())
            if options.all or entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        ]
        Printer(options.output, CONFIGS, name="key").all(rows)
        return tell_errors(parser.prog, {one.name: error for one, error in found.errors.items()}, "topic")


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": Subcommand("list topics with their sizes", _declare_list, _list),
    "show": Subcommand("show the partitions of topics", _declare_show, _show),
    "configs": Subcommand("show the options of topics", _declare_configs, _configs),
    "create": Subcommand("create topics", topic_changes.declare_create, topic_changes.create),
    "alter": Subcommand("add partitions, set options", topic_changes.declare_alter, topic_changes.alter),
    "empty": Subcommand("delete records, not the topic", topic_changes.declare_empty, topic_changes.empty),
    "delete": Subcommand("delete topics", topic_changes.declare_delete, topic_changes.delete),
}
