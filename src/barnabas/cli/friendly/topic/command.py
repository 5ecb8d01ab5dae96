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
    report_errors,
)
from barnabas.cli.friendly.output import Column, Printer
from barnabas.cli.friendly.topic import changes as topic_changes
from barnabas.cli.friendly.topic.rows import PARTITIONS, TOPICS, partition_rows, topic_rows

PROGRAM = "barnabas topic"
CONFIGS = (Column("topic"), Column("key"), Column("value"), Column("source"))


def run(arguments: Sequence[str]) -> int:
    return friendly_tool(PROGRAM, "List, show, create, alter, empty and delete topics.", SUBCOMMANDS).run(
        arguments
    )


# Describing -------------------------------------------------------------------------------------------------


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="names, with * and ? (default all)")
    parser.add_argument("--internal", action="store_true", help="include internal topics")
    add_output(parser)
    add_cluster(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        listed = admin.list_topics(include_internal=options.internal)
        names = sorted(name for name in listed if _matches(name, options.pattern))
        empty = "no topic has such a name" if options.pattern else "there are no topics"
        printer = Printer(options.output, TOPICS, name="topic", empty=empty)
        if options.output == "name":
            printer.all({"topic": name} for name in names)
        else:
            printer.all(topic_rows(admin, names))
    return Exit.OK


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _declare_show(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="name of the topic")
    add_output(parser)
    add_cluster(parser)


def _show(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        described = admin.describe_topics(options.topic)
        printer = Printer(options.output, PARTITIONS, name=lambda row: f"{row['topic']}-{row['partition']}")
        if described.values_by_key:
            printer.all(partition_rows(admin, list(described.values_by_key.values())))
        return report_errors(parser.prog, described.errors, "topic", admin)


def _declare_configs(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="name of the topic")
    parser.add_argument("--all", action="store_true", help="include options at their default")
    add_output(parser)
    add_cluster(parser)


def _configs(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.configs import ConfigResource, ConfigResourceType
    from barnabas.config.layers import ConfigSource

    with open_admin(parser, options) as admin:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in options.topic]
        described = admin.describe_configs(resources)
        rows = [
            {"topic": resource.name, "key": key, "value": entry.value, "source": entry.source.name.lower()}
            for resource, entries in described.values_by_key.items()
            for key, entry in sorted(entries.items())
            if options.all or entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        ]
        empty = "" if described.errors else "all options are at their defaults; --all shows them"
        Printer(options.output, CONFIGS, name="key", empty=empty).all(rows)
        return report_errors(
            parser.prog,
            {resource.name: error for resource, error in described.errors.items()},
            "topic",
            admin,
        )


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": Subcommand("list topics with their sizes", _declare_list, _list),
    "show": Subcommand("show the partitions of topics", _declare_show, _show),
    "configs": Subcommand("show the options of topics", _declare_configs, _configs),
    "create": Subcommand("create topics", topic_changes.declare_create, topic_changes.create),
    "alter": Subcommand("add partitions, set options", topic_changes.declare_alter, topic_changes.alter),
    "empty": Subcommand("delete records, not the topic", topic_changes.declare_empty, topic_changes.empty),
    "delete": Subcommand("delete topics", topic_changes.declare_delete, topic_changes.delete),
}
