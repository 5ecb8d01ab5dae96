"""`barnabas explain`: why does this group receive no records?  What is wrong with these partitions?"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.text.terminal import folded, tell
from barnabas.cli.friendly.framework import FriendlyParser, add_cluster, add_output, open_admin
from barnabas.cli.friendly.output import Column, Printer, Row, Style, count_of, print_headline
from barnabas.cli.friendly.records.times import parse_duration_ms

if TYPE_CHECKING:
    from barnabas.client.explain import Diagnosis, Facts

PROGRAM = "barnabas explain"
FORMATS = ("guess", "json", "text", "bytes")
DEFAULT_WATCH = "2s"
COLUMNS = (
    Column("group"),
    Column("is_stuck", title="STUCK"),
    Column("cause"),
    Column("partitions"),
    Column("summary"),
    Column("evidence"),
    Column("advice"),
)


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM,
        "Explain why the consumers of a group receive no records, or what is wrong with partitions: the "
        "cause, the evidence, and what to do.",
        "It only reads, and commits nothing.",
    )
    add = parser.add_argument
    add("group", nargs="?", metavar="GROUP", help="the group.id of the consumers")
    add(
        "--partitions",
        action="store_true",
        help="explain partitions instead: offline, under-replicated, or stuck in a reassignment",
    )
    add(
        "-t",
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC",
        help="a topic that the group should read, or to look at; may be repeated",
    )
    add(
        "--watch",
        default=DEFAULT_WATCH,
        metavar="DURATION",
        help=f"how long to watch the group's progress (default {DEFAULT_WATCH}; 0s for one look)",
    )
    add(
        "--principal",
        metavar="PRINCIPAL",
        help="the principal of the consumer, as in User:alice, to check its ACLs",
    )
    add(
        "--value",
        choices=FORMATS,
        default="guess",
        help="the format of values (default: that of the preceding ones)",
    )
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if options.partitions == (options.group is not None):
        parser.error("give a group, or --partitions")
    if options.partitions:
        from barnabas.cli.friendly.explain_partitions import explain_partitions

        return explain_partitions(parser, options)
    try:
        watch_ms = parse_duration_ms(options.watch)
    except ValueError as error:
        parser.error(f"--watch: {error}")
    facts = _facts(parser, options, watch_ms)
    from barnabas.client.explain import diagnose

    diagnoses = diagnose(facts)
    if options.output == "table":
        _print_diagnoses(facts, diagnoses)
    else:
        Printer(options.output, COLUMNS, name="cause").all(_row(facts, diagnosis) for diagnosis in diagnoses)
    for line in facts.unknown:
        tell(f"not known: {line}")
    return _code(facts, diagnoses)


def _code(facts: Facts, diagnoses: Sequence[Diagnosis]) -> Exit:
    """A group that is stuck and explained is a success; one that is not there, or that this user may not see,
    is not, and neither is an explanation with gaps."""
    from barnabas.client.explain.diagnosis import Cause
    from barnabas.client.explain.permissions import OURSELVES

    causes = {diagnosis.cause for diagnosis in diagnoses}
    if any(denial.principal == OURSELVES for denial in facts.denials):
        return Exit.DENIED
    if Cause.NO_GROUP in causes or Cause.NO_TOPIC in causes:
        return Exit.NOT_FOUND
    return Exit.FAILED if facts.unknown else Exit.OK


def _facts(parser: FriendlyParser, options: Namespace, watch_ms: int) -> Facts:
    from barnabas.client.explain.decoding import Format
    from barnabas.client.explain.gather import gather

    if watch_ms and sys.stderr.isatty():
        tell(f"looking at {options.group} for {options.watch} …")
    with open_admin(parser, options) as admin:
        return admin.call(
            lambda client: gather(
                client,
                options.group,
                topics=options.topic,
                watch_ms=watch_ms,
                principal=options.principal,
                expected=Format(options.value),
            )
        )


def _row(facts: Facts, diagnosis: Diagnosis) -> Row:
    return {
        "group": facts.group.group_id,
        "is_stuck": diagnosis.cause.is_stuck,
        "cause": diagnosis.cause.value,
        "partitions": [str(partition) for partition in diagnosis.partitions],
        "summary": diagnosis.summary,
        "evidence": list(diagnosis.evidence),
        "advice": list(diagnosis.advice),
    }


def _print_diagnoses(facts: Facts, diagnoses: Sequence[Diagnosis]) -> None:
    """As text for a reader."""
    group = facts.group
    state = group.state or "not there"
    members = count_of(len(group.members), "member")
    partitions = count_of(len(facts.partitions), "partition")
    print(folded(f"group {group.group_id}: {state}, {members}, {partitions}", "", sys.stdout))
    for diagnosis in diagnoses:
        colour = Style.RED if diagnosis.cause.is_stuck else Style.GREEN
        print()
        print_headline(diagnosis.cause.value.upper(), colour, diagnosis.summary)
        for line in diagnosis.evidence:
            print(folded(line, "  seen   ", sys.stdout))
        for line in diagnosis.advice:
            print(folded(line, "  do     ", sys.stdout))
