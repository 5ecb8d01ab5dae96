"""What may be wrong with one partition, as the group sees it."""

from __future__ import annotations

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import Facts, Member, OpenTransaction, PartitionFacts

# The summary where several partitions have the same.
TOGETHER = {
    Cause.NO_LEADER: "partitions have no leader",
    Cause.BELOW_LOG_START: "the group stands before the first record that is left",
    Cause.BEYOND_LOG_END: "the group stands behind the end of the log",
    Cause.HELD_BY_ISR: "records are written that nobody may see yet: too few replicas are in sync",
    Cause.OPEN_TRANSACTION: "an open transaction hides what comes after its first record",
    Cause.UNDECODABLE: "the next record cannot be decoded",
    Cause.RESET_LATEST: "nothing is committed, so the consumer began at the end",
    Cause.PAUSED: "the group has records to read, and does not get on",
    Cause.BEHIND: "the group is behind, but gets on",
}


def no_leader(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if one.leader is not None:
        return None
    return Diagnosis(
        Cause.NO_LEADER,
        f"{one.where} has no leader: nobody can read or write it",
        (f"replicas {_list(one.replicas)}, in sync {_list(one.isr)}, leader none",),
        (
            (
                "start the brokers that have its replicas, or see in their logs why their log directories "
                "are offline"
            ),
            (
                "if they are lost for good, and only then, an out-of-sync replica may lead, which loses "
                "records: "
                "barnabas leader-election --election-type unclean"
            ),
        ),
        (one.where,),
    )


def below_log_start(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if one.committed is None or one.log_start is None or one.committed >= one.log_start:
        return None
    return Diagnosis(
        Cause.BELOW_LOG_START,
        f"{one.where}: committed offset {one.committed} is below the log start {one.log_start}",
        (f"{one.log_start - one.committed} records from offset {one.committed} on are deleted",),
        (
            (
                "retention was quicker than the consumer; with auto.offset.reset=none it fails, with latest "
                "it skips "
                f"to the end: barnabas group reset {facts.group.group_id} --to earliest goes on with the "
                "oldest record"
            ),
            "keep records longer (retention.ms, retention.bytes), or read faster",
        ),
        (one.where,),
    )


def beyond_log_end(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if one.committed is None or one.log_end is None or one.committed <= one.log_end:
        return None
    return Diagnosis(
        Cause.BEYOND_LOG_END,
        f"{one.where}: committed offset {one.committed} is beyond the log end {one.log_end}",
        ("the topic was deleted and made anew, or its log was cut by an unclean election",),
        (f"barnabas group reset {facts.group.group_id} --to earliest (or latest)",),
        (one.where,),
    )


def held_by_isr(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    wanted, watermark, end = one.wanted_isr, one.high_watermark, one.log_end
    if wanted is None or watermark is None or end is None:
        return None
    if len(one.isr) >= wanted or end <= watermark or _is_before(one, watermark):
        return None
    return Diagnosis(
        Cause.HELD_BY_ISR,
        f"{one.where}: {end - watermark} records are written that nobody may see yet: too few replicas "
        "are in sync",
        (
            (
                f"in sync {_list(one.isr)} of replicas {_list(one.replicas)}, but "
                f"min.insync.replicas={one.min_isr}"
            ),
            f"high watermark {watermark}, log end {end}",
        ),
        (
            f"start the brokers that are missing ({_list(_missing(one))}), or find out why they lag",
            (
                "until then producers should use acks=all, which refuses such records instead of keeping "
                "them hidden"
            ),
        ),
        (one.where,),
    )


def _missing(one: PartitionFacts) -> tuple[int, ...]:
    return tuple(broker for broker in one.replicas if broker not in one.isr)


def open_transaction(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    stable, watermark = one.last_stable, one.high_watermark
    if stable is None or watermark is None or stable >= watermark or _is_before(one, stable):
        return None
    told = [_about(transaction, facts.now_ms) for transaction in one.transactions]
    holder = min(one.transactions, key=lambda each: each.start_offset, default=None)
    named = holder.transactional_id if holder is not None else None
    abort = (
        "barnabas transactions --bootstrap-server HOST:PORT forceTerminateTransaction --transactional-id "
        f"{named}"
        if named
        else "barnabas transactions --bootstrap-server HOST:PORT find-hanging --broker-id N, then abort"
    )
    return Diagnosis(
        Cause.OPEN_TRANSACTION,
        f"{one.where}: an open transaction hides {watermark - stable} records from readers of committed ones",
        (f"last stable offset {stable}, high watermark {watermark}", *told),
        (
            "end it in its producer, or wait for its time-out; if its producer is gone for good: " + abort,
            "a consumer that may see what is not committed reads on with isolation.level=read_uncommitted",
        ),
        (one.where,),
    )


def _about(transaction: OpenTransaction, now_ms: int) -> str:
    text = (
        f"producer {transaction.producer_id} has a transaction open since offset {transaction.start_offset}"
    )
    if transaction.transactional_id is not None:
        text += f", transactional.id {transaction.transactional_id}"
    if transaction.state is not None:
        text += f", state {transaction.state}"
    if transaction.started_ms is not None:
        text += f", begun {(now_ms - transaction.started_ms) / 1_000:.1f} s ago"
    if transaction.timeout_ms is not None:
        text += f", time-out {transaction.timeout_ms / 1_000:g} s"
    return text


def undecodable(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if one.next_fault is None or one.has_moved:
        return None
    return Diagnosis(
        Cause.UNDECODABLE,
        f"{one.where}: the next record, at offset {one.committed}, cannot be decoded",
        (one.next_fault, _stands_still(facts, one)),
        (
            (
                "a consumer that fails there comes back to it for ever: let it catch the error and put the "
                "record aside"
            ),
            (
                f"look at it: barnabas consume {one.where.topic} -p {one.where.partition} --from "
                f"{one.committed} -n 1 "
                f"-o json; skip it: barnabas group reset {facts.group.group_id} --topic {one.where.topic} "
                f"-p {one.where.partition} --to {(one.committed or 0) + 1}"
            ),
        ),
        (one.where,),
    )


def nothing_committed(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if one.committed is not None or one.log_start is None or one.high_watermark is None:
        return None
    older = one.high_watermark - one.log_start
    if older <= 0:
        return None
    return Diagnosis(
        Cause.RESET_LATEST,
        f"{one.where}: nothing is committed, and {older} records are older than the consumer",
        (
            f"log start {one.log_start}, end {one.high_watermark}, committed nothing",
            "auto.offset.reset=latest, the default, begins at the end: only new records are read",
        ),
        (
            "set auto.offset.reset=earliest for groups that are to read everything",
            (
                f"or stop the consumer and: barnabas group reset {facts.group.group_id} --topic "
                f"{one.where.topic} "
                "--to earliest"
            ),
        ),
        (one.where,),
    )


def paused(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    reader = reader_of(facts, one)
    if one.is_paused:
        evidence = "the consumer itself says that it has paused this partition"
    elif one.is_paused is not None or facts.watched_ms == 0 or one.has_moved or not one.readable:
        return None
    else:
        evidence = _stands_still(facts, one)
    who = "nobody" if reader is None else f"{reader.client_id} at {reader.host}"
    return Diagnosis(
        Cause.PAUSED,
        f"{one.where}: {one.readable or 0} records can be read, but {who} takes none: paused, or busy "
        "with one",
        (
            evidence,
            f"the group is {facts.group.state} and the partition is assigned to {who}",
            "nothing on the broker's side holds it: there is a leader, and the next record can be read",
        ),
        (
            (
                "look for pause() without resume() in the consumer, for a record that it works on for long, "
                "and for "
                "commits that it does not make (enable.auto.commit=false)"
            ),
            "a thread dump of the consumer shows where it is; to begin anew, restart it",
        ),
        (one.where,),
    )


def behind(facts: Facts, one: PartitionFacts) -> Diagnosis | None:
    if not one.readable:
        return None
    evidence = [f"committed {one.committed}, end {one.high_watermark}, lag {one.lag}"]
    if one.has_moved and facts.watched_ms and one.committed is not None:
        rate = (one.committed - (one.committed_before or 0)) * 1_000 / facts.watched_ms
        evidence.append(f"{rate:,.0f} records a second while we looked")
    return Diagnosis(
        Cause.BEHIND,
        f"{one.where}: {one.lag} records behind, and getting on",
        tuple(evidence),
        ("if the lag grows, add members and partitions, or make the work on a record quicker",),
        (one.where,),
    )


def reader_of(facts: Facts, one: PartitionFacts) -> Member | None:
    """The member that the partition is assigned to."""
    return next((member for member in facts.group.members if one.where in member.partitions), None)


def _is_before(one: PartitionFacts, edge: int) -> bool:
    """Whether the group has still to read what lies below an edge, so that it is not the edge that holds
    it."""
    return one.committed is not None and one.committed < edge


def _stands_still(facts: Facts, one: PartitionFacts) -> str:
    seconds = facts.watched_ms / 1_000
    return f"the committed offset {one.committed} did not move in {seconds:g} s, end {one.high_watermark}"


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
