"""`barnabas drain N`: move every replica off a broker, so that it can be removed.

Replicas move in batches, each of which is an ordinary reassignment: the cluster completes it even if this
command ends.  Contains the command; the choice of brokers belongs in `drain_plan`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.cluster.health import counted
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import FriendlyParser, add_cluster, add_plan, confirm_plan, open_admin

if TYPE_CHECKING:
    from barnabas.cli.cluster.drain_plan import DrainPlan, Move
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

PROGRAM = "barnabas drain"
WAIT_S = 3_600
EPILOG = """\
Ctrl+C stops between two batches: moves that have begun complete, no others start, and the same command
goes on later.  --cancel takes back moves that are in progress; what has moved stays where it is."""


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM, "Move every replica off a broker, batch by batch, so that it can be removed.", EPILOG
    )
    add = parser.add_argument
    add("broker", type=whole_number(0), metavar="N", help="id of the broker")
    add("--cancel", action="store_true", help="cancel the moves off this broker that are in progress")
    add(
        "--timeout",
        type=whole_number(1),
        default=WAIT_S,
        metavar="SECONDS",
        help=f"how long a batch may take (default {WAIT_S})",
    )
    add_plan(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    with open_admin(parser, options) as admin:
        if options.cancel:
            return _cancel(admin, options.broker)
        plan = _plan(admin, options.broker)
        if not plan.moves and not plan.moving:
            print(f"broker {options.broker} has no replicas")
            return Exit.OK
        if not confirm_plan(PROGRAM, options, _lines(plan)):
            return Exit.OK
        return _drain(admin, plan, options)


def _plan(admin: Admin, broker_id: int) -> DrainPlan:
    from barnabas.cli.cluster.drain_plan import moves_off

    nodes = {node.id: node.rack for node in admin.describe_cluster().nodes}
    names = sorted(admin.list_topics(include_internal=True))
    topics = admin.describe_topics(names).values_by_key.values() if names else ()
    plan = moves_off(
        broker_id,
        nodes,
        {
            f"{topic.name}-{info.partition}": (topic.name, info)
            for topic in topics
            for info in topic.partitions
        },
        admin.list_partition_reassignments(),
    )
    if plan.refusals:
        for line in plan.refusals[1:]:
            print(f"{PROGRAM}: {line}", file=sys.stderr)
        raise CommandError(f"{PROGRAM}: {plan.refusals[0]}")
    return plan


def _lines(plan: DrainPlan) -> list[str]:
    leaders = counted(sum(move.is_leader for move in plan.moves), "leader")
    lines = [f"broker {plan.broker_id}: {counted(len(plan.moves), 'replica')} to move, {leaders} among them"]
    lines += [f"  {move.partition}: {_ids(move.before)} -> {_ids(move.after)}" for move in plan.moves]
    if plan.moving:
        lines.append(f"  {counted(len(plan.moving), 'replica')} are being moved already")
    return lines


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _drain(admin: Admin, plan: DrainPlan, options: Namespace) -> Exit:
    from barnabas.cli.cluster.drain_plan import MAX_MOVING
    from barnabas.cli.cluster.waiting import wait_until

    broker_id, total = plan.broker_id, len(plan.moves) + len(plan.moving)
    done = 0
    again = f"{PROGRAM} {broker_id}"
    try:
        batches: list[Sequence[Move]] = [
            plan.moves[first : first + MAX_MOVING] for first in range(0, len(plan.moves), MAX_MOVING)
        ]
        for batch in [[], *batches] if plan.moving else batches:
            started: Mapping[TopicPartition, Sequence[int]] = {move.partition: move.after for move in batch}
            if started:
                admin.alter_partition_reassignments(started).raise_first()
            wait_until(
                admin,
                lambda: _in_progress(admin, broker_id),
                options.timeout,
                subject=f"broker {broker_id}",
                how_on=f"the moves go on in the cluster; {again} waits for them, {again} --cancel ends them",
            )
            done += len(batch) or len(plan.moving)
            print(f"broker {broker_id}: {done} of {counted(total, 'replica')} moved", flush=True)
    except KeyboardInterrupt:
        print(
            f"{PROGRAM}: {done} of {counted(total, 'replica')} moved; those that have begun complete, no "
            f"others start; {again} goes on, {again} --cancel ends what is in progress",
            file=sys.stderr,
        )
        return Exit.INTERRUPTED
    print(
        f"broker {broker_id} has no replicas any more; after it has stopped, barnabas cluster unregister "
        f"--id {broker_id} removes it"
    )
    return Exit.OK


def _moving_off(admin: Admin, broker_id: int) -> list[TopicPartition]:
    return [
        partition
        for partition, move in sorted(admin.list_partition_reassignments().items())
        if broker_id in move.removing_replicas
    ]


def _in_progress(admin: Admin, broker_id: int) -> str:
    moving = _moving_off(admin, broker_id)
    if not moving:
        return ""
    described = admin.describe_topics(sorted({partition.topic for partition in moving}))
    behind = {
        replica
        for topic in described.values_by_key.values()
        for info in topic.partitions
        for replica in info.replicas
        if (topic.name, info.partition) in moving and replica not in info.isr and replica != broker_id
    }
    first = ", ".join(str(partition) for partition in moving[:3])
    more = f" and {len(moving) - 3} more" if len(moving) > 3 else ""
    brokers = f" on broker {_ids(sorted(behind))}" if behind else ""
    return f"for {first}{more} to be in sync{brokers}"


def _cancel(admin: Admin, broker_id: int) -> Exit:
    moving = _moving_off(admin, broker_id)
    if not moving:
        print(f"no replicas are being moved off broker {broker_id}")
        return Exit.OK
    admin.alter_partition_reassignments(dict.fromkeys(moving)).raise_first()
    print(f"broker {broker_id}: {counted(len(moving), 'move')} cancelled; its replicas stay")
    return Exit.OK
