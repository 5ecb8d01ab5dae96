"""`barnabas explain --partitions`: which partitions are unwell, why, and what to do."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.text.terminal import GAP, folded
from barnabas.cli.friendly.framework import FriendlyParser, open_admin
from barnabas.cli.friendly.output import Column, Printer, Row, Style, count_of, print_headline
from barnabas.client.explain.replica_gather import gather_replicas
from barnabas.client.explain.replica_rules import ReplicaDiagnosis, diagnose_replicas

# How many partitions with the same problem are named.
MAX_ALIKE = 5
COLUMNS = (
    Column("partition"),
    Column("is_problem", title="PROBLEM"),
    Column("cause"),
    Column("summary"),
    Column("evidence"),
    Column("advice"),
)


def explain_partitions(parser: FriendlyParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        partitions = admin.call(lambda client: gather_replicas(client, options.topic))
    found = diagnose_replicas(partitions)
    if options.output == "table":
        _print(found, len(partitions))
    else:
        Printer(options.output, COLUMNS, name="partition").all(map(_row, found))
    return Exit.OK


def _row(diagnosis: ReplicaDiagnosis) -> Row:
    return {
        "partition": str(diagnosis.partition),
        "is_problem": diagnosis.cause.is_problem,
        "cause": diagnosis.cause.value,
        "summary": diagnosis.summary,
        "evidence": list(diagnosis.evidence),
        "advice": list(diagnosis.advice),
    }


def _print(found: Sequence[ReplicaDiagnosis], partitions: int) -> None:
    unwell = len({diagnosis.partition for diagnosis in found if diagnosis.cause.is_problem})
    print(f"{count_of(partitions, 'partition')}, {unwell} with a problem")
    for alike in _groups(found):
        first = alike[0]
        cause = first.cause.value.upper()
        colour = Style.RED if first.cause.is_problem else Style.GREEN
        print()
        print_headline(cause, colour, first.summary)
        for diagnosis in alike[1:MAX_ALIKE]:
            print(folded(diagnosis.summary, " " * len(cause) + GAP, sys.stdout))
        if len(alike) > MAX_ALIKE:
            print(f"{' ' * len(cause)}  and {len(alike) - MAX_ALIKE} more; -o wide lists them all")
        for line in first.evidence:
            print(folded(line, "  seen   ", sys.stdout))
        for line in first.advice:
            print(folded(line, "  do     ", sys.stdout))


def _groups(found: Sequence[ReplicaDiagnosis]) -> list[list[ReplicaDiagnosis]]:
    """Those with the same evidence and advice together: a broker that is down concerns many partitions."""
    groups: dict[object, list[ReplicaDiagnosis]] = {}
    for diagnosis in found:
        key = (diagnosis.cause, diagnosis.evidence, diagnosis.advice)
        groups.setdefault(key, []).append(diagnosis)
    return list(groups.values())
