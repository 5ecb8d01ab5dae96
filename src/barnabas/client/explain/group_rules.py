"""Rules about a group as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import Facts, Member

EMPTY, DEAD = "Empty", "Dead"
# What each rebalance state waits for.
WAITING_FOR = {
    "PreparingRebalance": "its members must join again, and the coordinator waits for the last of them "
    "(at most max.poll.interval.ms)",
    "CompletingRebalance": "its members have joined, and the coordinator waits for the leader's assignment",
    "Assigning": "its coordinator computes the assignment",
    "Reconciling": "its members revoke and take over partitions, and some have not finished",
}
SHOWN_EVENTS = 5


def denied(facts: Facts) -> Iterator[Diagnosis]:
    for denial in facts.denials:
        by = f" ({denial.reason})" if denial.reason else ""
        kind, _, name = denial.resource.partition(" ")
        grant = (
            f"barnabas acls --bootstrap-server HOST:PORT --add --allow-principal {denial.principal} "
            f"--operation {denial.operation} --{kind} {name}"
        )
        yield Diagnosis(
            Cause.DENIED,
            f"{denial.principal} may not {denial.operation} the {denial.resource}",
            (
                (
                    f"the authorizer refuses {denial.operation} on the {denial.resource} to "
                    f"{denial.principal}{by}"
                ),
            ),
            (f"allow it, and remove what denies it: {grant}",),
        )


def no_group(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state in (None, DEAD) and not facts.denials:
        yield Diagnosis(
            Cause.NO_GROUP,
            f"there is no group {group.group_id}",
            ("no member has joined it, and nothing is committed under its name",),
            (
                (
                    "check the name (barnabas group list), and that the consumer uses this group.id and "
                    "this cluster"
                ),
            ),
        )


def no_topic(facts: Facts) -> Iterator[Diagnosis]:
    for topic in facts.missing_topics:
        yield Diagnosis(
            Cause.NO_TOPIC,
            f"there is no topic {topic}",
            (f"the cluster has no topic {topic}, which the group reads",),
            (f"check the name (barnabas topic list), or create it: barnabas topic create {topic}",),
        )


def rebalancing(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state not in WAITING_FOR:
        return
    evidence = [f"the group is in state {group.state}: {WAITING_FOR[group.state]}"]
    evidence += [f"{_name(member)} must still {_to_do(member)}" for member in group.members if _to_do(member)]
    for happening in facts.events[-SHOWN_EVENTS:]:
        who = f" {happening.who}" if happening.who else ""
        evidence.append(
            f"{_ago(facts.now_ms - happening.at_ms)} ago: {happening.what}{who}{_because(happening.reason)}"
        )
    yield Diagnosis(
        Cause.REBALANCING,
        f"the group is rebalancing, and no member reads meanwhile ({group.state})",
        tuple(evidence),
        (
            (
                "wait; if it does not end, a member does not poll: look for one that processes a batch for "
                "longer "
                "than max.poll.interval.ms, or was stopped, and lower max.poll.records or end it"
            ),
            (
                "if it keeps recurring, members join and leave: see their logs; group.instance.id avoids "
                "rebalances on restarts"
            ),
        ),
    )


def _to_do(member: Member) -> str:
    if member.target is None or member.target == member.partitions:
        return ""
    back = len(member.partitions - member.target)
    over = len(member.target - member.partitions)
    parts = [f"revoke {_partitions(back)}"] if back else []
    parts += [f"take {_partitions(over)} over"] if over else []
    return " and ".join(parts)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def no_members(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state != EMPTY:
        return
    lag = sum(partition.lag or 0 for partition in facts.partitions)
    waiting = "1 record waits to be read" if lag == 1 else f"{lag} records wait to be read"
    yield Diagnosis(
        Cause.NO_MEMBERS,
        f"no consumer is running: the group {group.group_id} has no members",
        (
            f"the group is in state {EMPTY}",
            waiting,
        ),
        (
            (
                "start the consumer; if it runs, it has left or was expired: see its log for "
                "max.poll.interval.ms and session.timeout.ms"
            ),
        ),
    )


def idle_members(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    idle = [member for member in group.members if not member.partitions and not member.target]
    if not idle or group.state in WAITING_FOR:
        return
    assigned = sum(len(member.partitions) for member in group.members)
    names = ", ".join(_name(entry) for entry in idle)
    yield Diagnosis(
        Cause.IDLE_MEMBER,
        f"{len(idle)} of {len(group.members)} members have no partition, as there are only {assigned}",
        (
            f"nothing is assigned to {names}",
            f"{assigned} partitions are shared by {len(group.members)} members",
        ),
        (
            (
                "a partition is read by one member of a group: add partitions (barnabas topic alter TOPIC "
                "--partitions N), or run fewer consumers"
            ),
        ),
    )


def caught_up(facts: Facts) -> Diagnosis:
    parts = [
        f"{partition.topic_partition}: committed {partition.committed}, end {partition.high_watermark}"
        for partition in facts.partitions
        if partition.committed is not None
    ]
    return Diagnosis(
        Cause.CAUGHT_UP,
        f"the group {facts.group.group_id} is not stuck: it has read everything",
        tuple(parts) or ("none of its partitions has records",),
        (
            (
                "if records should arrive, check the producer (barnabas tail TOPIC shows new records); for "
                "records "
                f"from before the group began: barnabas group reset {facts.group.group_id} --to earliest"
            ),
        ),
    )


def _name(member: Member) -> str:
    return f"{member.client_id} at {member.host} ({member.member_id})"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _ago(passed_ms: int) -> str:
    return f"{passed_ms / 1_000:.1f} s"
