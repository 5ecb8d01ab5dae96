"""`barnabas consumer-groups`: list and describe consumer groups, reset their offsets, delete them.

The flags and the output are those of Apache Kafka's kafka-consumer-groups.  Unlike that tool, every failure
has a non-zero exit code, and the lag counts only records that still exist.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import MAX_INT, long_integer, whole_number

if TYPE_CHECKING:
    from barnabas.client.admin.groups.group_model import GroupListing
    from barnabas.client.sync import Admin

PROGRAM = "barnabas consumer-groups"
DEFAULT_TIMEOUT_MS = 30_000
ACTIONS = ("--list", "--describe", "--delete", "--reset-offsets", "--delete-offsets")
SCENARIOS = (
    "--to-offset",
    "--to-datetime",
    "--by-duration",
    "--to-earliest",
    "--to-latest",
    "--to-current",
    "--shift-by",
    "--from-file",
)
# Flags, and the actions that allow them.
ONLY_WITH = {
    "--members": ("--describe",),
    "--offsets": ("--describe",),
    "--verbose": ("--describe",),
    "--state": ("--describe", "--list"),
    "--type": ("--list",),
}
NOT_EXECUTED = (
    "WARN: No action will be performed as the --execute option is missing. In a future major release, the"
    " default behavior of this command will be to prompt the user before executing the reset rather than"
    " doing a dry run. You should add the --dry-run option explicitly if you are scripting this command and"
    " want to keep the current default behavior without prompting."
)


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "List and describe consumer groups, delete them, or reset their offsets.",
        f"Give exactly one of {', '.join(ACTIONS)} and --validate-regex.",
    )
    add = parser.add_argument
    add_connection_flags(parser, old_zookeeper=True)
    add("--list", action="store_true", help="print the ids of the groups")
    add("--describe", action="store_true", help="print offsets and lag, members or states of groups")
    add("--delete", action="store_true", help="delete groups without members, with their offsets")
    add("--delete-offsets", action="store_true", help="delete a group's offsets for topics")
    add("--reset-offsets", action="store_true", help="reset the offsets of groups without members")
    add("--validate-regex", metavar="REGEX", help="only check that a subscription pattern is valid (RE2)")
    add("--group", action="append", metavar="GROUP", help="the group; may be repeated")
    add("--all-groups", action="store_true", help="all groups")
    add(
        "--topic",
        action="append",
        metavar="TOPIC[:P,P]",
        help="topic, or some of its partitions; may be repeated",
    )
    add("--all-topics", action="store_true", help="all topics for which the group has offsets")
    add("--members", action="store_true", help="describe the members")
    add("--offsets", action="store_true", help="describe offsets and lag (the default)")
    state_help = (
        "describe the state of groups; with --list, print states, or list only groups in these states"
    )
    add("--state", nargs="?", const="", metavar="STATE,...", help=state_help)
    add(
        "--type",
        nargs="?",
        const="",
        metavar="TYPE,...",
        help="print types too, or list only groups of these types",
    )
    add("--verbose", action="store_true", help="print more columns")
    timeout = whole_number(0, MAX_INT)
    timeout_help = f"how long a request may take (default {DEFAULT_TIMEOUT_MS})"
    add("--timeout", type=timeout, default=DEFAULT_TIMEOUT_MS, metavar="MS", help=timeout_help)
    add("--to-offset", type=long_integer, metavar="OFFSET", help="reset to an offset")
    add("--to-datetime", metavar="TIME", help="reset to a time, as in 2026-11-15T12:00:00.000 (UTC)")
    add("--by-duration", metavar="DURATION", help="reset to this long ago, as in PT1H30M or P7D")
    add("--to-earliest", action="store_true", help="reset to the log start offset")
    add("--to-latest", action="store_true", help="reset to the end")
    add("--to-current", action="store_true", help="reset to the committed offset, or to the end without one")
    add("--shift-by", type=long_integer, metavar="COUNT", help="move forward, or back if negative")
    add("--from-file", metavar="FILE", help="reset to the offsets of a file written by --export")
    add("--dry-run", action="store_true", help="only print the new offsets")
    add("--execute", action="store_true", help="commit the new offsets")
    add("--export", action="store_true", help="print offsets as CSV")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    rules = FlagRules(parser, options)
    if options.validate_regex is not None and not any(map(rules.has, ACTIONS)):
        return validate_regex(options.validate_regex)
    if not options.old_zookeeper:
        rules.require("--bootstrap-server")
    action = check_flags(rules, options)
    from barnabas.cli.consumer_groups.errors import reporting_errors

    with reporting_errors(), open_admin(parser, options) as admin:
        return run_action(action, admin, options, rules)


def run_action(action: str, admin: Admin, options: Namespace, rules: FlagRules) -> int:
    if action == "--list":
        return list_groups(admin, options, rules)
    if action == "--describe":
        from barnabas.cli.consumer_groups.describe import describe

        return describe(admin, options, groups_of(admin, options))
    if action == "--reset-offsets":
        from barnabas.cli.consumer_groups.reset_offsets import reset

        return reset(admin, options, rules, groups_of(admin, options))
    from barnabas.cli.consumer_groups.delete import delete_groups, delete_offsets

    if action == "--delete-offsets":
        return delete_offsets(admin, options, rules)
    return delete_groups(admin, options, groups_of(admin, options))


# Which flags go together ------------------------------------------------------------------------------------


def check_flags(rules: FlagRules, options: Namespace) -> str:
    """The action; conflicting flags are refused with Apache Kafka's messages, in its order."""
    for flag, actions in ONLY_WITH.items():
        if rules.has(flag) and not any(map(rules.has, actions)):
            name = flag.lstrip("-")
            rules.refuse(f"Option(s) [{name}] are unavailable given other options on the command line")
    if options.describe:
        _check_describe(rules, options)
    for action in ("--delete", "--reset-offsets"):
        if rules.has(action):
            _require_groups(rules, action)
    if options.delete and options.topic:
        rules.refuse("The consumer does not support topic-specific offset deletion from a consumer group.")
    if options.delete_offsets and not (options.group and options.topic):
        rules.refuse("Option [delete-offsets] takes the following options: [topic], [group]")
    if options.reset_offsets:
        _check_reset(rules)
    rules.forbid("--group", ("--all-groups", "--list"))
    rules.forbid("--topic", ("--list", "--describe"))
    known = (*ACTIONS, "--validate-regex")
    return rules.exactly_one(known, f"Command must include exactly one action: {', '.join(known)}")


def _check_describe(rules: FlagRules, options: Namespace) -> None:
    _require_groups(rules, "--describe")
    if sum((options.members, options.offsets, options.state is not None)) > 1:
        rules.refuse("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if options.state:
        rules.refuse("Option [describe] does not take a value for [state]")


def _require_groups(rules: FlagRules, action: str) -> None:
    if not (rules.has("--group") or rules.has("--all-groups")):
        rules.refuse(f"Option [{action.lstrip('-')}] takes one of these options: [all-groups], [group]")


def _check_reset(rules: FlagRules) -> None:
    if rules.has("--dry-run") and rules.has("--execute"):
        rules.refuse("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not rules.has("--dry-run") and not rules.has("--execute"):
        print(NOT_EXECUTED, file=sys.stderr)
    for scenario in SCENARIOS:
        rules.forbid(scenario, [other for other in SCENARIOS if other != scenario])


# Listing ----------------------------------------------------------------------------------------------------


def groups_of(admin: Admin, options: Namespace) -> list[str]:
    """The groups that the flags name, or all."""
    if not options.all_groups:
        return list(dict.fromkeys(options.group))
    return [group.group_id for group in _listed(admin, options.timeout)]


def _listed(admin: Admin, timeout_ms: int, **filters: Sequence[str]) -> Sequence[GroupListing]:
    listing = admin.list_consumer_groups(timeout_ms=timeout_ms, **filters)
    for error in listing.errors.values():
        raise error
    return listing.groups


def list_groups(admin: Admin, options: Namespace, rules: FlagRules) -> int:
    from barnabas.cli.consumer_groups.kinds import states_named, types_named

    states = states_named(options.state or "", rules)
    types = types_named(options.type or "", rules)
    groups = _listed(admin, options.timeout, states=states, types=types)
    if options.state is None and options.type is None:
        for group in groups:
            print(group.group_id)
        return Exit.OK
    rows = [("GROUP", "TYPE", "STATE"), *((group.group_id, group.type, group.state) for group in groups)]
    width = 10 + max(15, *(len(row[0]) for row in rows[1:]), 15)
    for group_id, kind, state in rows:
        shown = [f"{group_id:<{width}}"]
        shown += [f"{kind:<20}"] if options.type is not None else []
        shown += [f"{state:<20}"] if options.state is not None else []
        print(" ".join(shown))
    return Exit.OK


def validate_regex(pattern: str) -> int:
    from barnabas.coordinator.group.subscription.regexes import compiled

    try:
        compiled(pattern)
    except ValueError as error:
        print(f"The regular expression `{pattern}` is invalid: {error}.", file=sys.stderr)
        return Exit.FAILED
    print(f"The regular expression `{pattern}` is valid.")
    return Exit.OK
