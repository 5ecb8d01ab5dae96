"""Anomalies of the log: lost, duplicated, inconsistent, inverted and invented values."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush

from barnabas.testing.histories.anomalies import Anomaly, Report
from barnabas.testing.histories.events import Isolation, Partition, partition_name
from barnabas.testing.histories.facts import Facts, Place, Send


def check_log(facts: Facts, report: Report) -> None:
    _check_places(facts, report)
    _check_lost_writes(facts, report)
    _check_lost_reads(facts, report)
    _check_order_in_time(facts, report)
    _check_order_of_producers(facts, report)


def _check_places(facts: Facts, report: Report) -> None:
    for (partition, offset), values in facts.places.items():
        if len(values) > 1:
            report.add(Anomaly.INCONSISTENT_OFFSET, f"{_at(partition, offset)} has {' and '.join(values)}")
    for value, places in facts.places_of.items():
        send = facts.sends.get(value)
        if send is None:
            report.add(Anomaly.PHANTOM_READ, f"{value} at {_at(*places[0])} was never sent")
        elif len(places) > 1 and send.sent.is_idempotent:
            where = ", ".join(_at(*place) for place in places)
            kind = Anomaly.SENT_AGAIN if send.is_sent_again else Anomaly.DUPLICATE
            report.add(kind, f"{value} of producer {send.sent.producer} is at {where}")


def _check_lost_writes(facts: Facts, report: Report) -> None:
    for value, send in facts.sends.items():
        if not send.is_acknowledged:
            continue
        transaction = facts.transaction_of(value)
        missing = [
            isolation
            for isolation in Isolation
            if (isolation is Isolation.UNCOMMITTED or transaction is None or transaction.is_committed)
            and _is_missing(facts, send, isolation)
        ]
        if missing:
            offset = "an unknown offset" if send.offset is None else f"offset {send.offset}"
            report.add(
                Anomaly.LOST_WRITE,
                f"{value} was acknowledged at {offset} of {partition_name(send.sent.partition)}, and is "
                f"missing for {' or '.join(missing)}",
            )


def _is_missing(facts: Facts, send: Send, isolation: Isolation) -> bool:
    view = facts.view(send.sent.partition, isolation)
    if send.sent.value in view.values:
        return False
    if view.is_complete:
        # Retention may have deleted what is below the log start offset.
        return send.offset is None or send.offset >= view.start
    # Nobody has read the whole partition: only what precedes a record that was read must have been read.
    return send.offset is not None and send.offset < view.last_offset


def _check_lost_reads(facts: Facts, report: Report) -> None:
    """A value that was read was below the high watermark (and the last stable offset): it must stay."""
    reported: set[tuple[Partition, int, str]] = set()
    for _, poll in facts.polls():
        for record in poll.records:
            partition, offset, value = record
            view = facts.view(partition, poll.isolation)
            if (
                view.is_complete
                and offset >= view.start
                and value not in view.values
                and record not in reported
            ):
                reported.add(record)
                report.add(
                    Anomaly.LOST_WRITE,
                    f"{value} was read by {poll.consumer} at {_at(partition, offset)}, "
                    f"and is missing in the end",
                )


def _check_order_in_time(facts: Facts, report: Report) -> None:
    """A value that is sent after another was acknowledged has a higher offset, whoever sent them."""
    by_partition: dict[Partition, list[Send]] = defaultdict(list)
    for send in facts.sends.values():
        if send.offset is not None:
            by_partition[send.sent.partition].append(send)
    for partition, sends in by_partition.items():
        # In the order of sending; `pending` are those that were sent earlier, by time of acknowledgement.
        sends.sort(key=lambda send: send.sent_at)
        pending: list[tuple[int, int, str]] = []
        highest: tuple[int, str] = (-1, "")
        for send in sends:
            assert send.offset is not None
            while pending and pending[0][0] < send.sent_at:
                _, offset, value = heappop(pending)
                highest = max(highest, (offset, value))
            if send.offset < highest[0]:
                report.add(
                    Anomaly.WRITE_ORDER_INVERTED,
                    f"{send.sent.value} is at offset {send.offset} of {partition_name(partition)}, though "
                    f"it was sent after {highest[1]} had been acknowledged at {highest[0]}",
                )
            heappush(pending, (send.acknowledged_at, send.offset, send.sent.value))


def _check_order_of_producers(facts: Facts, report: Report) -> None:
    """An idempotent producer's acknowledged values to a partition are in the order in which it sent them."""
    latest: dict[tuple[str, Partition], tuple[int, str]] = {}
    for value, send in facts.sends.items():
        place = _place(facts, send)
        if place is None or not send.sent.is_idempotent or not send.is_acknowledged:
            continue
        key = (send.sent.producer, place[0])
        previous = latest.get(key)
        if previous is not None and place[1] < previous[0]:
            report.add(
                Anomaly.WRITE_ORDER_INVERTED,
                f"producer {send.sent.producer} sent {previous[1]} before {value}, and they are at offsets "
                f"{previous[0]} and {place[1]} of {partition_name(place[0])}",
            )
        else:
            latest[key] = (place[1], value)


def _place(facts: Facts, send: Send) -> Place | None:
    if send.offset is not None:
        return send.sent.partition, send.offset
    places = facts.places_of.get(send.sent.value)
    return places[0] if places else None


def _at(partition: Partition, offset: int) -> str:
    return f"{partition_name(partition)} offset {offset}"
