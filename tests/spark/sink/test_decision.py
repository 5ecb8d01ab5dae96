"""The choices of the exactly-once protocol, all of them, without Spark and without a broker.  # M-I1"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from barnabas.spark.sink.decision import (
    BrokenPromiseError,
    Decision,
    Ending,
    OpenTransaction,
    Plan,
    Report,
    Seen,
    Written,
    decide,
    decode,
    driver_id,
    encode,
    ending,
    task_id,
    task_id_pattern,
    to_abort,
    to_sweep,
    unfit,
)

SINK = "orders"
PLAN = Plan(SINK, producer_id=1, producer_epoch=5, implicit=True, decided=None)
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


def transaction(task: int, epoch: int = 7) -> OpenTransaction:
    return OpenTransaction(task_id(SINK, task, 0), 100 + task, epoch, (Written("out", task, 10, 19, 10),))


def report(task: int | None, plan: Plan = PLAN, query: str = "q", batch: int = 3) -> Report:
    return Report(plan, query, batch, None if task is None else transaction(task))


DECISION = Decision("q", 3, True, (transaction(0), transaction(1)))


# ------------------------------------------------------------------------------------------------- the record


def test_a_decision_survives_its_control_record() -> None:
    assert decode(encode(DECISION), SINK) == DECISION


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"format":2}', encode(DECISION)[:-3], b"\xff"])
def test_a_foreign_control_record_is_rejected_with_a_message(value: bytes) -> None:
    with pytest.raises(BrokenPromiseError, match="use another sinkId"):
        decode(value, SINK)


@pytest.mark.parametrize(
    ("query", "batch", "covered"), [("q", 2, True), ("q", 3, True), ("q", 4, False), ("other", 3, False)]
)
def test_a_batch_is_skipped_if_its_query_has_come_that_far(query: str, batch: int, covered: bool) -> None:
    assert replace(PLAN, decided=DECISION).covers(query, batch) is covered
    assert not PLAN.covers(query, batch)


# ------------------------------------------------------------------------------------------------ the reports


def test_a_second_write_of_a_batch_is_not_taken_for_the_same_one() -> None:
    """Each `batchId` is written once; another write with that number must not be skipped in silence."""
    decided = replace(DECISION, topic="raw", run="r1")
    assert decode(encode(decided), SINK) == decided
    decided.check_repeat(SINK, "raw", "r2")
    for topic, run in (("raw", "r1"), ("checked", "r1"), ("checked", "r2"), ("checked", "")):
        with pytest.raises(BrokenPromiseError, match="give each write in a batch a sinkId of its own"):
            decided.check_repeat(SINK, topic, run)
    # Streams, and writes that were decided by earlier versions.
    DECISION.check_repeat(SINK, "", "")
    DECISION.check_repeat(SINK, "raw", "r1")
    plan, made = decide([replace(report(0), topic="raw", run="r1")]) or (None, None)
    assert plan == PLAN
    assert made is not None
    assert (made.topic, made.run) == ("raw", "r1")


class Context:
    """The properties that Spark gives a task."""

    def __init__(self, **properties: str) -> None:
        self.getLocalProperty = {name.replace("_", "."): value for name, value in properties.items()}.get


def test_numbers_of_batches_belong_to_the_query_that_counts_them() -> None:
    """A new checkpoint restarts batch numbers: its batches must not be taken for the old ones."""
    from barnabas.spark.sink.tasks import Number
    from barnabas.spark.sink.writers import number_of

    run = "0f0e0d0c-0000-4000-8000-000000000001"
    of_stream = Context(sql_streaming_queryId="q1", spark_jobGroup_id=run)
    assert number_of(3, "raw", of_stream) == Number("q1", 3, "raw", run)  # type: ignore[arg-type]
    named = Context(sql_streaming_queryId="q1", spark_jobGroup_id="mine")
    assert number_of(3, None, named) == Number("q1", 3)  # type: ignore[arg-type]
    assert number_of(3, "raw", Context()) == Number("batch-writes", 3, "raw")  # type: ignore[arg-type]


def test_every_mix_of_reports_is_decided_upon_or_refused() -> None:
    """Four tasks, each of which has rows, has none, or has not reported."""
    kinds = (report(0), report(None), None)
    for mix in itertools.product(range(3), repeat=4):
        reports = [
            None if kinds[kind] is None else report(task if kind == 0 else None)
            for task, kind in enumerate(mix)
        ]
        with_rows = tuple(transaction(task) for task, kind in enumerate(mix) if kind == 0)
        if 2 in mix:
            with pytest.raises(BrokenPromiseError, match="not reported"):
                decide(reports)
            assert to_abort(reports) == with_rows
        else:
            found = decide(reports)
            assert found == ((PLAN, Decision("q", 3, True, with_rows)) if with_rows else None)
            # commit() may have decided before it raised: only the next plan can find out.
            assert to_abort(reports) == ()


@pytest.mark.parametrize(
    "stranger",
    [
        report(1, replace(PLAN, producer_epoch=6)),
        report(1, query="other"),
        report(1, batch=4),
        report(None, batch=4),
        report(0),
    ],
)
def test_reports_that_do_not_belong_together_are_refused(stranger: Report) -> None:
    with pytest.raises(BrokenPromiseError, match="run again"):
        decide([report(0), stranger])


def test_a_batch_is_not_decided_twice() -> None:
    plan = replace(PLAN, decided=DECISION)
    assert decide([report(None, plan), report(None, plan)]) is None
    with pytest.raises(BrokenPromiseError, match="is decided"):
        decide([report(0, plan)])


def test_no_task_no_decision() -> None:
    assert decide([]) is None
    assert to_abort([]) == ()


# ------------------------------------------------------------------------------------------------- the states


def test_only_transactions_open_as_their_tasks_left_them_are_decided() -> None:
    open_as_left = {
        one.transactional_id: Seen("Ongoing", one.producer_id, one.producer_epoch)
        for one in DECISION.transactions
    }
    assert unfit(DECISION, open_as_left) == []
    first = DECISION.transactions[0]
    name = first.transactional_id
    assert unfit(DECISION, {**open_as_left, name: Seen("Ongoing", first.producer_id, 8)}) == [name]
    assert unfit(DECISION, {**open_as_left, name: Seen("Ongoing", 1, first.producer_epoch)}) == [name]
    for state in set(STATES) - {"Ongoing"}:
        assert unfit(DECISION, {**open_as_left, name: Seen(state, first.producer_id, 7)}) == [name]
    del open_as_left[name]
    assert unfit(DECISION, open_as_left) == [name]


@pytest.mark.parametrize("implicit", [True, False])
def test_the_coordinators_word_is_taken_only_where_it_is_beyond_doubt(implicit: bool) -> None:
    one = transaction(0)
    ended_epoch = one.producer_epoch + 1 if implicit else one.producer_epoch
    found = {}
    for state, producer_id, epoch in itertools.product(
        STATES, (one.producer_id, one.producer_id + 1), range(one.producer_epoch - 1, one.producer_epoch + 4)
    ):
        found[state, producer_id, epoch] = ending(one, Seen(state, producer_id, epoch), implicit=implicit)
    found_commit = [key for key, what in found.items() if what is Ending.COMMIT]
    found_done = {key for key, what in found.items() if what is Ending.DONE}
    assert found_commit == [("Ongoing", one.producer_id, one.producer_epoch)]
    assert found_done == {
        (state, one.producer_id, ended_epoch) for state in ("PrepareCommit", "CompleteCommit")
    }
    assert ending(one, None, implicit=implicit) is Ending.LOOK


def test_repaired_transactions_leave_the_decision() -> None:
    amended = DECISION.without([transaction(0)])
    assert amended == replace(DECISION, transactions=(transaction(1),))
    assert amended.covers("q", 3)


# -------------------------------------------------------------------------------------------------- the names


def test_a_sweep_aborts_tasks_of_its_own_sink_only() -> None:
    mine = [task_id(SINK, 0, 0), task_id(SINK, 12, 3), task_id(SINK, 1, 0, 2)]
    others = [
        driver_id(SINK),
        task_id(f"{SINK}-t0", 0, 0),
        driver_id(f"{SINK}-t1-a0"),
        task_id("order.", 0, 0),
        task_id("ordersx", 0, 0),
        "my-own-producer",
        f"x{task_id(SINK, 0, 0)}",
        f"{task_id(SINK, 0, 0)}-x",
    ]
    assert to_sweep(SINK, [*others, *mine]) == sorted(mine)
    assert re.match(task_id_pattern("a.b"), task_id("a.b", 0, 0))
    assert not re.match(task_id_pattern("a.b"), task_id("axb", 0, 0))


def test_attempts_have_names_of_their_own() -> None:
    names = {task_id(SINK, *each) for each in itertools.product(range(3), range(3), range(3))}
    assert len(names) == 27


def test_where_rows_lie_adds_up() -> None:
    early, late = Written("t", 0, 5, 9, 5), Written("t", 0, 20, 21, 2)
    assert early.and_also(late) == late.and_also(early) == Written("t", 0, 5, 21, 7)
