"""What may be wrong with a group as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import Facts, Member

EMPTY, DEAD = "Empty", "Dead"
# What each state of a rebalance waits for, in the words of a person.
WAITING_FOR = {
    "PreparingRebalance": "its members have to join again, and the coordinator waits for the last of them "
    "(at most max.poll.interval.ms)",
    "CompletingRebalance": "its members have joined, and the coordinator waits for their leader to say "
    "who reads "
    "what",
    "Assigning": "its coordinator computes who reads what",
    "Reconciling": "its members give partitions back and take others over, and some have not finished",
}
SHOWN_HAPPENINGS = 5


def denied(facts: Facts) -> Iterator[Diagnosis]:
    for one in facts.denials:
        by = f" ({one.reason})" if one.reason else ""
        kind, _, name = one.resource.partition(" ")
        grant = (
            f"barnabas acls --bootstrap-server HOST:PORT --add --allow-principal {one.principal} "
            f"--operation {one.operation} --{kind} {name}"
        )
        yield Diagnosis(
            Cause.DENIED,
            f"{one.principal} may not {one.operation} the {one.resource}",
            (f"the authorizer refuses {one.operation} on the {one.resource} to {one.principal}{by}",),
            (f"allow it, and remove what denies it: {grant}",),
        )


def no_group(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state in (None, DEAD) and not facts.denials:
        yield Diagnosis(
            Cause.NO_GROUP,
            f"there is no group {group.group_id}",
            ("nobody has joined it, and nothing is committed under its name",),
            (
                (
                    "check the name (barnabas group list), and that the consumer has the group.id and "
                    "reached this "
                    "cluster"
                ),
            ),
        )


def no_topic(facts: Facts) -> Iterator[Diagnosis]:
    for topic in facts.missing_topics:
        yield Diagnosis(
            Cause.NO_TOPIC,
            f"there is no topic {topic}",
            (f"the cluster knows no topic {topic}, which the group reads",),
            (f"check the name (barnabas topic list), or make it: barnabas topic create {topic}",),
        )


def rebalancing(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state not in WAITING_FOR:
        return
    evidence = [f"the group is in state {group.state}: {WAITING_FOR[group.state]}"]
    evidence += [
        f"{_name(member)} has still to {_to_do(member)}" for member in group.members if _to_do(member)
    ]
    for one in facts.happenings[-SHOWN_HAPPENINGS:]:
        who = f" {one.who}" if one.who else ""
        evidence.append(f"{_ago(facts.now_ms - one.at_ms)} ago: {one.what}{who}{_because(one.reason)}")
    yield Diagnosis(
        Cause.REBALANCING,
        f"the group is rebalancing, and nobody reads meanwhile ({group.state})",
        tuple(evidence),
        (
            (
                "wait; if it does not end, a member does not poll: look for one that works on a batch "
                "for longer "
                "than max.poll.interval.ms, or was stopped, and lower max.poll.records or end it"
            ),
            (
                "if it comes back again and again, members come and go: see their logs; group.instance.id "
                "keeps a "
                "restart from causing one"
            ),
        ),
    )


def _to_do(member: Member) -> str:
    if member.target is None or member.target == member.partitions:
        return ""
    back = len(member.partitions - member.target)
    over = len(member.target - member.partitions)
    parts = [f"give {back} partitions back"] if back else []
    parts += [f"take {over} partitions over"] if over else []
    return " and ".join(parts)


def no_members(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    if group.state != EMPTY:
        return
    lag = sum(one.lag or 0 for one in facts.partitions)
    yield Diagnosis(
        Cause.NO_MEMBERS,
        f"nobody reads: the group {group.group_id} has no members",
        (f"the group is in state {EMPTY}", f"{lag} records wait to be read"),
        (
            (
                "start the consumer; if it runs, it has left or was expired: see its log for "
                "max.poll.interval.ms and session.timeout.ms"
            ),
        ),
    )


def idle_members(facts: Facts) -> Iterator[Diagnosis]:
    group = facts.group
    idle = [one for one in group.members if not one.partitions and not one.target]
    if not idle or group.state in WAITING_FOR:
        return
    assigned = sum(len(one.partitions) for one in group.members)
    names = ", ".join(_name(one) for one in idle)
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
                "--partitions N), or let fewer consumers run"
            ),
        ),
    )


def caught_up(facts: Facts) -> Diagnosis:
    parts = [
        f"{one.where}: committed {one.committed}, end {one.high_watermark}"
        for one in facts.partitions
        if one.committed is not None
    ]
    return Diagnosis(
        Cause.CAUGHT_UP,
        f"the group {facts.group.group_id} is not stuck: it has read all there is",
        tuple(parts) or ("none of its partitions has records",),
        (
            (
                "if records should come, look at the producer (barnabas tail TOPIC shows them as they "
                "come); for "
                f"those from before the group began: barnabas group reset {facts.group.group_id} --to "
                "earliest"
            ),
        ),
    )


def _name(member: Member) -> str:
    return f"{member.client_id} at {member.host} ({member.member_id})"


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _ago(passed_ms: int) -> str:
    return f"{passed_ms / 1_000:.1f} s"
