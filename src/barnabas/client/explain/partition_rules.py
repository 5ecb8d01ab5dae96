"""Rules about one partition of a group."""

from __future__ import annotations

from barnabas.client.explain.diagnosis import Cause, Diagnosis
from barnabas.client.explain.facts import Facts, Member, OpenTransaction, PartitionFacts

# The summary when several partitions share a cause.
COMBINED_SUMMARIES = {
    Cause.NO_LEADER: "partitions have no leader",
    Cause.BELOW_LOG_START: "the committed offset is below the first remaining record",
    Cause.BEYOND_LOG_END: "the committed offset is beyond the log end",
    Cause.HELD_BY_ISR: "written records are not visible yet: too few replicas are in sync",
    Cause.OPEN_TRANSACTION: "an open transaction hides the records after its first one",
    Cause.UNDECODABLE: "the next record cannot be decoded",
    Cause.RESET_LATEST: "nothing is committed, so the consumer started at the end",
    Cause.PAUSED: "the group has records to read, and makes no progress",
    Cause.BEHIND: "the group is behind, but makes progress",
}


def no_leader(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if partition.leader is not None:
        return None
    return Diagnosis(
        Cause.NO_LEADER,
        f"{partition.topic_partition} has no leader: it cannot be read or written",
        (f"replicas {_list(partition.replicas)}, in sync {_list(partition.isr)}, leader none",),
        (
            (
                "start the brokers that have its replicas, or see in their logs why their log directories "
                "are offline"
            ),
            (
                "if they are lost for good, and only then, elect an out-of-sync replica, which loses "
                "records: "
                "barnabas leader-election --election-type unclean"
            ),
        ),
        (partition.topic_partition,),
    )


def below_log_start(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if (
        partition.committed is None
        or partition.log_start is None
        or partition.committed >= partition.log_start
    ):
        return None
    return Diagnosis(
        Cause.BELOW_LOG_START,
        f"{partition.topic_partition}: committed offset {partition.committed} is below the log start "
        f"{partition.log_start}",
        (
            (
                f"{partition.log_start - partition.committed} records from offset {partition.committed} on"
                " are deleted"
            ),
        ),
        (
            (
                "retention deleted records before they were read; with auto.offset.reset=none the consumer "
                "fails, with latest it skips to the end: barnabas group reset "
                f"{facts.group.group_id} --to earliest continues with the oldest record"
            ),
            "keep records longer (retention.ms, retention.bytes), or read faster",
        ),
        (partition.topic_partition,),
    )


def beyond_log_end(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if partition.committed is None or partition.log_end is None or partition.committed <= partition.log_end:
        return None
    return Diagnosis(
        Cause.BEYOND_LOG_END,
        f"{partition.topic_partition}: committed offset {partition.committed} is beyond the log end "
        f"{partition.log_end}",
        ("the topic was deleted and re-created, or its log was truncated by an unclean election",),
        (f"barnabas group reset {facts.group.group_id} --to earliest (or latest)",),
        (partition.topic_partition,),
    )


def held_by_isr(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    wanted, watermark, end = partition.wanted_isr, partition.high_watermark, partition.log_end
    if wanted is None or watermark is None or end is None:
        return None
    if len(partition.isr) >= wanted or end <= watermark or _is_below(partition, watermark):
        return None
    return Diagnosis(
        Cause.HELD_BY_ISR,
        f"{partition.topic_partition}: {end - watermark} written records are not visible yet: too few "
        "replicas are in sync",
        (
            (
                f"in sync {_list(partition.isr)} of replicas {_list(partition.replicas)}, but "
                f"min.insync.replicas={partition.min_isr}"
            ),
            f"high watermark {watermark}, log end {end}",
        ),
        (
            f"start the missing brokers ({_list(_missing(partition))}), or find out why they lag",
            ("until then producers should use acks=all, which rejects such records instead of hiding them"),
        ),
        (partition.topic_partition,),
    )


def _missing(partition: PartitionFacts) -> tuple[int, ...]:
    return tuple(broker for broker in partition.replicas if broker not in partition.isr)


def open_transaction(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    stable, watermark = partition.last_stable, partition.high_watermark
    if stable is None or watermark is None or stable >= watermark or _is_below(partition, stable):
        return None
    descriptions = [_about(transaction, facts.now_ms) for transaction in partition.transactions]
    holder = min(partition.transactions, key=lambda each: each.start_offset, default=None)
    named = holder.transactional_id if holder is not None else None
    abort = (
        "barnabas transactions --bootstrap-server HOST:PORT forceTerminateTransaction --transactional-id "
        f"{named}"
        if named
        else "barnabas transactions --bootstrap-server HOST:PORT find-hanging --broker-id N, then abort"
    )
    return Diagnosis(
        Cause.OPEN_TRANSACTION,
        f"{partition.topic_partition}: an open transaction hides {watermark - stable} records from "
        "read_committed consumers",
        (f"last stable offset {stable}, high watermark {watermark}", *descriptions),
        (
            "end it in its producer, or wait for its time-out; if its producer is lost for good: " + abort,
            "a consumer with isolation.level=read_uncommitted reads on, and sees uncommitted records",
        ),
        (partition.topic_partition,),
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
        text += f", open for {(now_ms - transaction.started_ms) / 1_000:.1f} s"
    if transaction.timeout_ms is not None:
        text += f", time-out {transaction.timeout_ms / 1_000:g} s"
    return text


def undecodable(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if partition.next_fault is None or partition.has_moved:
        return None
    return Diagnosis(
        Cause.UNDECODABLE,
        f"{partition.topic_partition}: the next record, at offset {partition.committed}, cannot be decoded",
        (partition.next_fault, _no_progress(facts, partition)),
        (
            ("a consumer that fails on it reads it again forever: catch the error and set the record aside"),
            (
                f"look at it: barnabas consume {partition.topic_partition.topic} -p "
                f"{partition.topic_partition.partition} --from "
                f"{partition.committed} -n 1 "
                f"-o json; skip it: barnabas group reset {facts.group.group_id} --topic "
                f"{partition.topic_partition.topic} "
                f"-p {partition.topic_partition.partition} --to {(partition.committed or 0) + 1}"
            ),
        ),
        (partition.topic_partition,),
    )


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _counted(count: int) -> str:
    return f"{_records(count)} {'was' if count == 1 else 'were'}"


def nothing_committed(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if partition.committed is not None or partition.log_start is None or partition.high_watermark is None:
        return None
    older = partition.high_watermark - partition.log_start
    if older <= 0:
        return None
    return Diagnosis(
        Cause.RESET_LATEST,
        f"{partition.topic_partition}: nothing is committed, and {_counted(older)} written before the "
        "consumer started",
        (
            f"log start {partition.log_start}, end {partition.high_watermark}, committed nothing",
            "auto.offset.reset=latest, the default, begins at the end: only new records are read",
        ),
        (
            "set auto.offset.reset=earliest for groups that are to read everything",
            (
                f"or stop the consumer and: barnabas group reset {facts.group.group_id} --topic "
                f"{partition.topic_partition.topic} "
                "--to earliest"
            ),
        ),
        (partition.topic_partition,),
    )


def paused(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    reader = reader_of(facts, partition)
    if partition.is_paused:
        evidence = "the consumer reports this partition as paused"
    elif (
        partition.is_paused is not None
        or facts.watched_ms == 0
        or partition.has_moved
        or not partition.readable
    ):
        return None
    else:
        evidence = _no_progress(facts, partition)
    who = "no member" if reader is None else f"{reader.client_id} at {reader.host}"
    return Diagnosis(
        Cause.PAUSED,
        f"{partition.topic_partition}: {_records(partition.readable or 0)} can be read, but {who} reads or "
        "commits none: it is paused, busy with one, or does not commit",
        (
            evidence,
            f"the group is {facts.group.state} and the partition is assigned to {who}",
            "the broker does not hold it back: there is a leader, and the next record can be read",
        ),
        (
            (
                "look for pause() without resume() in the consumer, for a record that takes long to process, "
                "and for "
                "missing commits (enable.auto.commit=false)"
            ),
            "a thread dump of the consumer shows where it hangs; if in doubt, restart it",
        ),
        (partition.topic_partition,),
    )


def behind(facts: Facts, partition: PartitionFacts) -> Diagnosis | None:
    if not partition.readable:
        return None
    evidence = [f"committed {partition.committed}, end {partition.high_watermark}, lag {partition.lag}"]
    if partition.has_moved and facts.watched_ms and partition.committed is not None:
        rate = (partition.committed - (partition.committed_before or 0)) * 1_000 / facts.watched_ms
        evidence.append(f"{rate:,.0f} records per second during the observation")
    return Diagnosis(
        Cause.BEHIND,
        f"{partition.topic_partition}: {partition.lag} records behind, and making progress",
        tuple(evidence),
        ("if the lag grows, add members and partitions, or process records faster",),
        (partition.topic_partition,),
    )


def reader_of(facts: Facts, partition: PartitionFacts) -> Member | None:
    """Return the member that the partition is assigned to."""
    return next(
        (member for member in facts.group.members if partition.topic_partition in member.partitions), None
    )


def _is_below(partition: PartitionFacts, edge: int) -> bool:
    """Whether the group has yet to read records below `edge`, so that the edge does not hold it back."""
    return partition.committed is not None and partition.committed < edge


def _no_progress(facts: Facts, partition: PartitionFacts) -> str:
    seconds = facts.watched_ms / 1_000
    return (
        f"the committed offset {partition.committed} did not move in {seconds:g} s, end "
        f"{partition.high_watermark}"
    )


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
