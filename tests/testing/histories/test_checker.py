"""The checker finds every kind of anomaly that is planted, and nothing in the history of a cluster without faults.

A checker that finds nothing is worthless, and so is one that finds too much (issue 3 of 8, nemesis: the checker
itself is tested; reliability.md: histories to judge end to end).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.testing.histories.anomalies import MEANINGS, Anomaly
from barnabas.testing.histories.checker import check
from barnabas.testing.histories.events import (
    Acknowledged,
    Assigned,
    CommitRequested,
    Event,
    FinalPosition,
    FinalRead,
    Isolation,
    Partition,
    Polled,
    SendFailed,
    Sent,
    SentAgain,
    TransactionBegun,
    TransactionEnded,
    TransactionOutcome,
)
from barnabas.testing.histories.facts import HistoryError
from tests.testing.histories.reference_cluster import ReferenceCluster

A: Partition = ("orders", 0)
B: Partition = ("orders", 1)
IN: Partition = ("input", 0)
OUT: Partition = ("output", 0)


def finals(partition: Partition, *records: tuple[int, str], aborted: tuple[int, ...] = ()) -> list[Event]:
    """The final reads; the records at `aborted` only read_uncommitted."""
    committed = tuple(record for record in records if record[0] not in aborted)
    return [
        FinalRead(partition, Isolation.COMMITTED, committed),
        FinalRead(partition, Isolation.UNCOMMITTED, records),
    ]


def acknowledged(value: str, offset: int, partition: Partition = A, producer: str = "p") -> list[Event]:
    return [Sent(value, producer, partition), Acknowledged(value, offset)]


def polled(*records: tuple[int, str], isolation: Isolation = Isolation.COMMITTED) -> Polled:
    return Polled("c", isolation, tuple((A, offset, value) for offset, value in records))


def transaction(
    name: str, *writes: tuple[Partition, int, str], outcome: TransactionOutcome, commit: bool = True
) -> list[Event]:
    events: list[Event] = [TransactionBegun(name, f"producer of {name}")]
    for partition, offset, value in writes:
        events += [Sent(value, f"producer of {name}", partition, name), Acknowledged(value, offset)]
    if commit:
        events.append(CommitRequested(name))
    return [*events, TransactionEnded(name, outcome)]


COMMITTED = TransactionOutcome.COMMITTED
ABORTED = TransactionOutcome.ABORTED
UNKNOWN = TransactionOutcome.UNKNOWN

PLANTED: dict[str, tuple[Anomaly, list[Event]]] = {
    "acknowledged, and not in the log": (
        Anomaly.LOST_WRITE,
        [*acknowledged("a", 0), *acknowledged("b", 1), *finals(A, (0, "a"))],
    ),
    "acknowledged without an offset, and not in the log": (
        Anomaly.LOST_WRITE,
        [Sent("a", "p", A), Acknowledged("a"), *finals(A)],
    ),
    "committed, and only visible to read_uncommitted": (
        Anomaly.LOST_WRITE,
        [*transaction("t", (A, 0, "a"), outcome=COMMITTED), *finals(A, (0, "a"), aborted=(0,))],
    ),
    "an aborted value is acknowledged too, and must be in the log": (
        Anomaly.LOST_WRITE,
        [*transaction("t", (A, 0, "a"), outcome=ABORTED, commit=False), *finals(A)],
    ),
    "read, and not in the log afterwards": (
        Anomaly.LOST_WRITE,
        [Sent("a", "p", A), SendFailed("a"), polled((0, "a")), *finals(A)],
    ),
    "acknowledged below a record that was read, and never read, without a final read": (
        Anomaly.LOST_WRITE,
        [*acknowledged("a", 0), *acknowledged("b", 1), polled((1, "b"))],
    ),
    "a poll of an aborted transaction": (
        Anomaly.ABORTED_READ,
        [
            *transaction("t", (A, 0, "a"), outcome=ABORTED, commit=False),
            polled((0, "a")),
            *finals(A, (0, "a")),
        ],
    ),
    "an aborted commit": (
        Anomaly.ABORTED_READ,
        [*transaction("t", (A, 0, "a"), outcome=ABORTED), *finals(A, (0, "a"))],
    ),
    "a transaction of unknown outcome that was never to be committed": (
        Anomaly.ABORTED_READ,
        [*transaction("t", (A, 0, "a"), outcome=UNKNOWN, commit=False), *finals(A, (0, "a"))],
    ),
    "a send that failed": (
        Anomaly.ABORTED_READ,
        [Sent("a", "p", A), SendFailed("a", is_definite=True), *finals(A, (0, "a"))],
    ),
    "a poll and the final read disagree": (
        Anomaly.INCONSISTENT_OFFSET,
        [*acknowledged("a", 0), *acknowledged("b", 1), polled((1, "a")), *finals(A, (0, "a"), (1, "b"))],
    ),
    "two acknowledgements for one offset": (
        Anomaly.INCONSISTENT_OFFSET,
        [*acknowledged("a", 0), *acknowledged("b", 0), *finals(A, (0, "b"))],
    ),
    "a value at two offsets": (
        Anomaly.DUPLICATE,
        [*acknowledged("a", 0), *finals(A, (0, "a"), (1, "a"))],
    ),
    "a value that was sent again with a new epoch": (
        Anomaly.SENT_AGAIN,
        [*acknowledged("a", 1), SentAgain("a"), *finals(A, (0, "a"), (1, "a"))],
    ),
    "a value in two partitions": (
        Anomaly.DUPLICATE,
        [*acknowledged("a", 0), *finals(A, (0, "a")), *finals(B, (0, "a"))],
    ),
    "an input with two committed outputs": (
        Anomaly.DUPLICATE,
        [
            *acknowledged("i", 0, IN),
            *finals(IN, (0, "i")),
            TransactionBegun("t", "p"),
            Sent("x", "p", OUT, "t", source="i"),
            Acknowledged("x", 0),
            CommitRequested("t"),
            TransactionEnded("t", COMMITTED),
            TransactionBegun("u", "q"),
            Sent("y", "q", OUT, "u", source="i"),
            Acknowledged("y", 2),
            CommitRequested("u"),
            TransactionEnded("u", COMMITTED),
            *finals(OUT, (0, "x"), (2, "y")),
        ],
    ),
    "half of a transaction of unknown outcome": (
        Anomaly.TORN_TRANSACTION,
        [
            *transaction("t", (A, 0, "a"), (B, 0, "b"), outcome=UNKNOWN),
            *finals(A, (0, "a")),
            *finals(B, (0, "b"), aborted=(0,)),
        ],
    ),
    "half of a committed transaction": (
        Anomaly.TORN_TRANSACTION,
        [
            *transaction("t", (A, 0, "a"), (A, 1, "b"), outcome=COMMITTED),
            *finals(A, (0, "a"), (1, "b"), aborted=(1,)),
        ],
    ),
    "committed offsets without the output": (
        Anomaly.TORN_TRANSACTION,
        [
            *acknowledged("i", 0, IN),
            *finals(IN, (0, "i")),
            FinalPosition("g", IN, 1, is_transactional=True),
            *finals(OUT),
        ],
    ),
    "a gap between two polls": (
        Anomaly.POLL_SKIP,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            *acknowledged("c", 2),
            polled((0, "a")),
            polled((2, "c")),
            *finals(A, (0, "a"), (1, "b"), (2, "c")),
        ],
    ),
    "a gap in a poll": (
        Anomaly.POLL_SKIP,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            *acknowledged("c", 2),
            polled((0, "a"), (2, "c")),
            *finals(A, (0, "a"), (1, "b"), (2, "c")),
        ],
    ),
    "a gap after an assignment with a position": (
        Anomaly.POLL_SKIP,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            Assigned("c", {A: 0}),
            polled((1, "b")),
            *finals(A, (0, "a"), (1, "b")),
        ],
    ),
    "a read_uncommitted consumer does not see an aborted record": (
        Anomaly.POLL_SKIP,
        [
            *acknowledged("a", 0),
            *transaction("t", (A, 1, "b"), outcome=ABORTED, commit=False),
            *acknowledged("c", 3),
            polled((0, "a"), (3, "c"), isolation=Isolation.UNCOMMITTED),
            *finals(A, (0, "a"), (1, "b"), (3, "c"), aborted=(1,)),
        ],
    ),
    "a group committed what no member was given": (
        Anomaly.POLL_SKIP,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            Polled("c", Isolation.COMMITTED, ((A, 0, "a"),), "g"),
            FinalPosition("g", A, 2),
            *finals(A, (0, "a"), (1, "b")),
        ],
    ),
    "a record is given again": (
        Anomaly.NON_MONOTONIC_POLL,
        [*acknowledged("a", 0), polled((0, "a")), polled((0, "a")), *finals(A, (0, "a"))],
    ),
    "a poll goes back": (
        Anomaly.NON_MONOTONIC_POLL,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            polled((0, "a"), (1, "b")),
            polled((0, "a")),
            *finals(A, (0, "a"), (1, "b")),
        ],
    ),
    "a poll before the position of the assignment": (
        Anomaly.NON_MONOTONIC_POLL,
        [
            *acknowledged("a", 0),
            *acknowledged("b", 1),
            Assigned("c", {A: 1}),
            polled((0, "a")),
            *finals(A, (0, "a"), (1, "b")),
        ],
    ),
    "a later send has a lower offset than an acknowledged one of another producer": (
        Anomaly.WRITE_ORDER_INVERTED,
        [
            *acknowledged("a", 1, producer="p"),
            *acknowledged("b", 0, producer="q"),
            *finals(A, (0, "b"), (1, "a")),
        ],
    ),
    "two sends in flight of one producer are in the wrong order": (
        Anomaly.WRITE_ORDER_INVERTED,
        [
            Sent("a", "p", A),
            Sent("b", "p", A),
            Acknowledged("a", 1),
            Acknowledged("b", 0),
            *finals(A, (0, "b"), (1, "a")),
        ],
    ),
    "the same, and the offset of the acknowledgement is unknown": (
        Anomaly.WRITE_ORDER_INVERTED,
        [
            Sent("a", "p", A),
            Sent("b", "p", A),
            Acknowledged("b", 0),
            Acknowledged("a"),
            *finals(A, (0, "b"), (1, "a")),
        ],
    ),
    "a read before the commit was requested": (
        Anomaly.READ_BEFORE_COMMIT,
        [
            TransactionBegun("t", "p"),
            Sent("a", "p", A, "t"),
            Acknowledged("a", 0),
            polled((0, "a")),
            CommitRequested("t"),
            TransactionEnded("t", COMMITTED),
            *finals(A, (0, "a")),
        ],
    ),
    "a value that nobody sent": (
        Anomaly.PHANTOM_READ,
        [*acknowledged("a", 0), *finals(A, (0, "a"), (1, "x"))],
    ),
    "two transactions write in different order": (
        Anomaly.G0,
        [
            TransactionBegun("t", "p"),
            TransactionBegun("u", "q"),
            Sent("a", "p", A, "t"),
            Acknowledged("a", 0),
            Sent("b", "q", A, "u"),
            Acknowledged("b", 1),
            Sent("c", "q", B, "u"),
            Acknowledged("c", 0),
            Sent("d", "p", B, "t"),
            Acknowledged("d", 1),
            CommitRequested("t"),
            TransactionEnded("t", COMMITTED),
            CommitRequested("u"),
            TransactionEnded("u", COMMITTED),
            *finals(A, (0, "a"), (1, "b")),
            *finals(B, (0, "c"), (1, "d")),
        ],
    ),
    "two transactions read each other": (
        Anomaly.G1C,
        [
            TransactionBegun("t", "p"),
            TransactionBegun("u", "q"),
            Sent("a", "p", A, "t"),
            Acknowledged("a", 0),
            Sent("b", "q", B, "u"),
            Acknowledged("b", 0),
            CommitRequested("t"),
            CommitRequested("u"),
            Polled("c", Isolation.COMMITTED, ((A, 0, "a"),), transaction="u"),
            Polled("d", Isolation.COMMITTED, ((B, 0, "b"),), transaction="t"),
            TransactionEnded("t", COMMITTED),
            TransactionEnded("u", COMMITTED),
            *finals(A, (0, "a")),
            *finals(B, (0, "b")),
        ],
    ),
}

CLEAN: dict[str, list[Event]] = {
    "nothing": [],
    "a time-out that arrived": [Sent("a", "p", A), SendFailed("a"), *finals(A, (0, "a"))],
    "a time-out that did not": [Sent("a", "p", A), SendFailed("a"), *finals(A)],
    "retention has deleted it": [
        *acknowledged("a", 0),
        *acknowledged("b", 1),
        FinalRead(A, Isolation.COMMITTED, ((1, "b"),), start=1),
        FinalRead(A, Isolation.UNCOMMITTED, ((1, "b"),), start=1),
    ],
    "a producer without idempotence repeats itself": [
        Sent("a", "p", A, is_idempotent=False),
        Acknowledged("a", 1),
        *finals(A, (0, "a"), (1, "a")),
    ],
    "acknowledged above all that was read": [
        *acknowledged("a", 0),
        *acknowledged("b", 1),
        polled((0, "a")),
    ],
    "an unknown outcome, committed": [
        *transaction("t", (A, 0, "a"), (B, 0, "b"), outcome=UNKNOWN),
        *finals(A, (0, "a")),
        *finals(B, (0, "b")),
    ],
    "an unknown outcome, aborted": [
        *transaction("t", (A, 0, "a"), outcome=UNKNOWN),
        *finals(A, (0, "a"), aborted=(0,)),
    ],
    "read_uncommitted sees an open transaction": [
        TransactionBegun("t", "p"),
        Sent("a", "p", A, "t"),
        polled((0, "a"), isolation=Isolation.UNCOMMITTED),
        Acknowledged("a", 0),
        TransactionEnded("t", ABORTED),
        *finals(A, (0, "a"), aborted=(0,)),
    ],
    "markers are gaps": [
        *transaction("t", (A, 0, "a"), outcome=COMMITTED),
        *acknowledged("b", 2),
        polled((0, "a"), (2, "b")),
        *finals(A, (0, "a"), (2, "b")),
    ],
    "another assignment": [
        *acknowledged("a", 0),
        *acknowledged("b", 1),
        Assigned("c", {A: 0}),
        polled((0, "a"), (1, "b")),
        Assigned("c", {A: None}),
        polled((0, "a"), (1, "b")),
        *finals(A, (0, "a"), (1, "b")),
    ],
    "sends in flight at the same time": [
        Sent("a", "p", A),
        Sent("b", "q", A),
        Acknowledged("a", 1),
        Acknowledged("b", 0),
        *finals(A, (0, "b"), (1, "a")),
    ],
    "one output for one input": [
        *acknowledged("i", 0, IN),
        *acknowledged("j", 1, IN),
        *finals(IN, (0, "i"), (1, "j")),
        TransactionBegun("t", "p"),
        Polled("c", Isolation.COMMITTED, ((IN, 0, "i"),), "g", "t"),
        Sent("x", "p", OUT, "t", source="i"),
        Acknowledged("x", 0),
        CommitRequested("t"),
        TransactionEnded("t", COMMITTED),
        FinalPosition("g", IN, 1, is_transactional=True),
        *finals(OUT, (0, "x")),
    ],
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_anomaly_is_found(name: str) -> None:
    kind, events = PLANTED[name]
    report = check(events, allowed=frozenset())
    assert kind in report.kinds, report.lines()


def test_every_kind_is_planted_and_explained() -> None:
    assert {kind for kind, _ in PLANTED.values()} == set(Anomaly) == set(MEANINGS)


def test_the_page_lists_every_kind() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "check-a-history.md"
    rows = page.read_text("utf-8")
    assert [kind for kind, meaning in MEANINGS.items() if f"| {kind} | {meaning} |" not in rows] == []


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_passes(name: str) -> None:
    report = check(CLEAN[name], allowed=frozenset())
    assert report.is_clean, report.lines()


def test_write_cycles_are_allowed_unless_asked_for() -> None:
    """Apache Kafka does not isolate writers, so Jepsen allows G0."""
    _, events = PLANTED["two transactions write in different order"]
    report = check(events)
    assert (report.is_clean, report.anomalies, report.counts[Anomaly.G0]) == (True, 0, 1)


def test_a_report_keeps_some_findings_and_counts_all() -> None:
    events: list[Event] = []
    for number in range(50):
        events += acknowledged(f"v{number}", number)
    report = check([*events, *finals(A)])
    assert (report.anomalies, len(report.findings)) == (50, 20)
    assert report.totals["acknowledged"] == 50


@pytest.mark.parametrize(
    "events",
    [
        [Acknowledged("a", 0)],
        [Sent("a", "p", A), Sent("a", "p", A)],
        [CommitRequested("t")],
        [TransactionBegun("t", "p"), TransactionBegun("t", "p")],
    ],
)
def test_a_history_that_contradicts_itself_is_refused(events: list[Event]) -> None:
    with pytest.raises(HistoryError):
        check(events)


PRODUCERS = ("p", "q", "r")
Step = tuple[str, int, int, bool]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "begin", "end", "poll", "group", "assign"]),
        st.integers(0, len(PRODUCERS) - 1),
        st.integers(0, 1),
        st.booleans(),
    ),
    max_size=60,
)


def play(cluster: ReferenceCluster, steps: list[Step]) -> list[Event]:
    """Producers with transactions, consumers of both isolation levels and a group."""
    open_transactions: dict[str, str] = {}
    for number, (action, who, where, flag) in enumerate(steps):
        producer = PRODUCERS[who]
        isolation = Isolation.COMMITTED if flag else Isolation.UNCOMMITTED
        match action:
            case "send":
                transaction = open_transactions.get(producer)
                cluster.send(producer, cluster.partitions[where], transaction, acknowledged=flag or who > 0)
            case "begin" if producer not in open_transactions:
                open_transactions[producer] = f"t{number}"
                cluster.begin(producer, f"t{number}")
            case "end" if producer in open_transactions:
                cluster.end(open_transactions.pop(producer), commit=flag, known=where == 0)
            case "poll":
                cluster.poll(f"c-{isolation}-{where}", isolation, most=1 + who)
            case "group":
                cluster.poll("g", Isolation.COMMITTED, group="g")
            case "assign":
                cluster.assign(f"c-{isolation}-{where}")
    return cluster.finish("g")


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_a_cluster_without_faults_has_no_anomalies(steps: list[Step]) -> None:
    report = check(play(ReferenceCluster(), steps))
    assert report.is_clean, report.lines()


def lose(events: list[Event]) -> list[Event]:
    """The last record of a partition is missing in the end."""
    return [
        replace(event, records=event.records[:-1]) if isinstance(event, FinalRead) else event
        for event in events
    ]


def repeat(events: list[Event]) -> list[Event]:
    """The first record of a partition is appended again."""
    return [
        replace(event, records=(*event.records, (10_000, event.records[0][1])))
        if isinstance(event, FinalRead)
        else event
        for event in events
    ]


def swap(events: list[Event]) -> list[Event]:
    """The first two values change places in the end."""

    def swapped(event: FinalRead) -> FinalRead:
        (first, one), (second, other), *rest = event.records
        return replace(event, records=((first, other), (second, one), *rest))

    return [swapped(event) if isinstance(event, FinalRead) else event for event in events]


def reread(events: list[Event]) -> list[Event]:
    """A consumer is given its first records again."""
    poll = next(event for event in events if isinstance(event, Polled) and event.records)
    return [*events, poll]


def skip(events: list[Event]) -> list[Event]:
    """A consumer is not given the first record."""

    def late(event: Polled) -> Polled:
        return replace(event, records=tuple(record for record in event.records if record[2] != "v0"))

    return [late(event) if isinstance(event, Polled) else event for event in events]


DAMAGE: dict[Callable[[list[Event]], list[Event]], Anomaly] = {
    lose: Anomaly.LOST_WRITE,
    repeat: Anomaly.DUPLICATE,
    swap: Anomaly.INCONSISTENT_OFFSET,
    reread: Anomaly.NON_MONOTONIC_POLL,
    skip: Anomaly.POLL_SKIP,
}


@pytest.mark.parametrize("damage", DAMAGE)
@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_damage_to_any_history_is_found(
    damage: Callable[[list[Event]], list[Event]], steps: list[Step]
) -> None:
    """Each partition starts with two acknowledged values, which a consumer has read."""
    cluster = ReferenceCluster()
    for partition in (*cluster.partitions, *cluster.partitions):
        cluster.send("first", partition)
    cluster.assign("g")
    cluster.poll("g", Isolation.COMMITTED, group="g")
    play(cluster, steps)
    assert DAMAGE[damage] in check(damage(cluster.events)).kinds
