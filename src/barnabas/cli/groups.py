"""`barnabas groups`: list groups of all types, as Apache Kafka's kafka-groups does."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.columns import padded_row
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.flag_rules import FlagRules

if TYPE_CHECKING:
    from barnabas.client.admin.groups.group_model import GroupListing
    from barnabas.client.sync import Admin

PROGRAM = "barnabas groups"
TYPES = ("classic", "consumer", "share", "streams")
MIN_WIDTH = 20
FILTERS = ("--consumer", "--share", "--streams")


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "List groups of all types.")
    add = parser.add_argument
    add_connection_flags(parser)
    add("--list", action="store_true", help="list the groups")
    add(
        "--consumer",
        action="store_true",
        help="only consumer groups, of the classic and the consumer protocol",
    )
    add("--share", action="store_true", help="only share groups")
    add("--streams", action="store_true", help="only streams groups")
    add("--group-type", metavar="TYPE", help=f"only groups of this type: {', '.join(TYPES)}")
    add("--protocol", metavar="PROTOCOL", help="only groups of this protocol")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    rules = FlagRules(parser, options)
    if options.bootstrap_server is None:
        rules.refuse("Missing required option(s) [bootstrap-server]")
    if not options.list:
        rules.refuse("Command must include exactly one action: --list.")
    for flag in FILTERS:
        rules.forbid(flag, [*(other for other in FILTERS if other != flag), "--group-type", "--protocol"])
    if options.group_type is not None and options.group_type.lower() not in TYPES:
        rules.refuse("--group-type must be a valid group type.")
    from barnabas.cli.framework.kafka_errors import error_prefix

    with error_prefix("Error while executing groups command : "), open_admin(parser, options) as admin:
        show(matching_groups(admin, options))
    return Exit.OK


def matching_groups(admin: Admin, options: Namespace) -> list[GroupListing]:
    listing = admin.list_groups()
    for error in listing.errors.values():
        raise error
    return [group for group in listing.groups if _matches(group, options)]


def _matches(group: GroupListing, options: Namespace) -> bool:
    kind = group.type.lower()
    if options.consumer:
        return kind == "consumer" or (kind == "classic" and group.protocol_type in ("", "consumer"))
    if options.share or options.streams:
        return kind == ("share" if options.share else "streams")
    same_type = options.group_type is None or kind == options.group_type.lower()
    return same_type and options.protocol in (None, group.protocol_type)


def show(groups: Sequence[GroupListing]) -> None:
    """All three columns are as wide as the longest group id; a blank follows the last one."""
    width = max([MIN_WIDTH, *(len(group.group_id) for group in groups)])
    widths = (width, width, width)
    print(padded_row(("GROUP", "TYPE", "PROTOCOL"), widths))
    for group in groups:
        print(padded_row((group.group_id, group.type or "Unknown", group.protocol_type), widths) + " ")
