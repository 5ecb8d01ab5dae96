"""The nemesis draws, records and reads as it says; clusters of processes are for `make nemesis`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.batch.build import build
from barnabas.batch.records import Record as BatchRecord
from barnabas.testing.histories.checker import check
from barnabas.testing.histories.events import (
    Acknowledged,
    Assigned,
    CommitRequested,
    Event,
    FinalRead,
    Isolation,
    Partition,
    Polled,
    SendFailed,
    Sent,
    SentAgain,
    TransactionEnded,
    TransactionOutcome,
)
from tools.nemesis.clients import (
    AbortableError,
    ConsumerClient,
    FatalError,
    OnAssigned,
    OnDelivery,
    ProducerClient,
    Record,
    RefusedError,
    RetriableError,
)
from tools.nemesis.confluent_client import Confluent, ConfluentProducer
from tools.nemesis.faults import LONGEST_S, WEIGHTS, Fault, Kind, draw_faults
from tools.nemesis.final_reads import differing_replicas, sent_again
from tools.nemesis.hosts import Hosts
from tools.nemesis.load import (
    MAX_RETRIES,
    ExactlyOnceWorker,
    IdempotentWorker,
    Reader,
    Setting,
    TransactionalWorker,
    Worker,
)
from tools.nemesis.record import PAGE, load, page
from tools.nemesis.recorder import Recorder
from tools.nemesis.run import Outcome
from tools.nemesis.shim import Control, build_shim

A: Partition = ("a", 0)
B: Partition = ("b", 0)
KINDS = list(WEIGHTS)


# ------------------------------------------------------------------------------------------------------- faults


def test_a_seed_determines_the_faults() -> None:
    assert draw_faults(7, [1, 2, 3], 120, KINDS) == draw_faults(7, [1, 2, 3], 120, KINDS)
    assert draw_faults(7, [1, 2, 3], 120, KINDS) != draw_faults(8, [1, 2, 3], 120, KINDS)


@pytest.mark.parametrize("nodes", [[1, 2, 3], [1, 2, 3, 4, 5]])
def test_two_minutes_have_ten_faults_that_end_in_time(nodes: list[int]) -> None:
    """reliability.md: at least ten faults a run, of every kind over the runs."""
    seen: set[Kind] = set()
    for seed in range(100):
        faults = draw_faults(seed, nodes, 120, KINDS)
        assert len(faults) >= 10
        assert all(fault.start_s < fault.end_s <= 120 for fault in faults)
        assert all(fault.end_s - fault.start_s <= LONGEST_S for fault in faults)
        for fault in faults:
            majority = len(nodes) // 2 + 1
            assert fault.kind in (Kind.KILL_ALL, Kind.ONE_WAY_LOSS) or len(fault.nodes) < majority
        seen |= {fault.kind for fault in faults}
    assert seen == set(KINDS) == set(Kind) - {Kind.PLANTED_LOSS}


def test_only_available_kinds_are_drawn() -> None:
    assert {fault.kind for fault in draw_faults(1, [1, 2, 3], 120, [Kind.KILL, Kind.PAUSE])} == {
        Kind.KILL,
        Kind.PAUSE,
    }


def test_a_fault_says_what_it_does() -> None:
    assert str(Fault(Kind.ONE_WAY_LOSS, (3, 1), 0, 1)) == "one-way loss from 3 to 1"
    assert str(Fault(Kind.PACKET_LOSS, (2,), 0, 1, 5)) == "packet loss at 2, one in 5"
    assert str(Fault(Kind.CLOCK_JUMP, (2,), 0, 1, -90)) == "clock jump of 2 by -90 s"


SHIMMED = """
import os, sys, time
print(time.time(), time.monotonic(), flush=True)
for _ in sys.stdin:
    try:
        os.fsync(2)
        synced = "synced"
    except OSError as error:
        synced = error.strerror
    print(time.time(), time.monotonic(), synced, flush=True)
"""


def test_the_preloaded_library_shifts_the_clock_and_fails_syncs(tmp_path: Path) -> None:
    library = build_shim(tmp_path)
    assert library is not None
    control = Control(tmp_path / "control")
    with (
        (tmp_path / "errors").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", SHIMMED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"LD_PRELOAD": str(library), "NEMESIS_CONTROL": str(control.path)},
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None

        def seen() -> tuple[float, str]:
            """How far the wall clock is ahead of that of this process, and the result of a sync."""
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            wall, monotonic, synced = process.stdout.readline().split(maxsplit=2)
            here = time.time() - time.monotonic()
            return round(float(wall) - float(monotonic) - here), synced.strip()

        process.stdout.readline()
        assert seen() == (0, "synced")
        control.shift_clock(-600)
        control.fail_syncs(fail=True)
        assert seen() == (-600, "Input/output error")
        control.shift_clock(0)
        control.fail_syncs(fail=False)
        assert seen() == (0, "synced")
        assert control.failed_syncs == 1
        process.stdin.close()


# ------------------------------------------------------------------------------------------------- final reads


def test_replicas_that_differ_are_named(tmp_path: Path) -> None:
    for number, content in enumerate([b"same", b"same", b"other"]):
        replica = tmp_path / f"node-{number}" / "data" / "a-0"
        replica.mkdir(parents=True)
        (replica / "00000000000000000000.log").write_bytes(content)
    folders = [tmp_path / f"node-{number}" / "data" for number in range(3)]
    assert differing_replicas(folders[:2], [A]) == []
    assert differing_replicas(folders, [A]) == [
        "the replicas of a-0 differ: node-0 4 bytes, node-1 4 bytes, node-2 5 bytes"
    ]


def test_segments_may_be_cut_elsewhere(tmp_path: Path) -> None:
    for number, segments in enumerate([{"0": b"ab"}, {"0": b"a", "1": b"b"}]):
        replica = tmp_path / f"node-{number}" / "data" / "a-0"
        replica.mkdir(parents=True)
        for name, content in segments.items():
            (replica / f"{name:>020}.log").write_bytes(content)
    assert differing_replicas([tmp_path / f"node-{number}" / "data" for number in range(2)], [A]) == []


@pytest.mark.parametrize(
    ("epochs", "workers", "found"),
    [
        ([(5, 0), (5, 1)], {"idempotent-c"}, [SentAgain("idempotent-c-1")]),
        ([(5, 0), (6, 0)], {"idempotent-c"}, [SentAgain("idempotent-c-1")]),
        # The broker should have known it.
        ([(5, 0), (5, 0)], {"idempotent-c"}, []),
        ([(5, 0), (5, 1), (5, 1)], {"idempotent-c"}, []),
        # Our own client does not send anything again.
        ([(5, 0), (5, 1)], {"another"}, []),
        ([(5, 0)], {"idempotent-c"}, []),
    ],
)
def test_a_copy_of_another_epoch_was_sent_again(
    tmp_path: Path, epochs: list[tuple[int, int]], workers: set[str], found: list[SentAgain]
) -> None:
    replica = tmp_path / "a-0"
    replica.mkdir()
    log = b"".join(
        build(
            [BatchRecord(offset, 0, None, b"idempotent-c-1 padding")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
        )
        for offset, (producer_id, epoch) in enumerate(epochs)
    )
    (replica / "00000000000000000000.log").write_bytes(log)
    read = tuple((offset, "idempotent-c-1") for offset in range(len(epochs)))
    events = [FinalRead(A, isolation, read) for isolation in Isolation]
    assert sent_again(events, [tmp_path / "absent", tmp_path], workers) == found


# ------------------------------------------------------------------------------------------------------ the page


def test_the_page_has_a_row_for_each_run() -> None:
    clean = Outcome("barnabas", 1, 3, 120, {"pause": 2, "kill -9": 1}, totals={"acknowledged": 1234})
    bad = Outcome(
        "Apache Kafka 4.1.0",
        2,
        5,
        60,
        unavailable={"disk full": "needs root"},
        anomalies={"lost write": 3},
        problems=["node 1 ended by itself with code 1"],
        longest_gap_s=7.25,
    )
    text = page([clean, bad])
    assert "| 1 | 3 | 120 | 3: kill -9, 2 pause | 1,234 |" in text
    assert "| 3 lost write; node 1 ended by itself with code 1 | 7.2 s |" in text
    assert "- disk full: needs root" in text
    assert (clean.is_clean, bad.is_clean) == (True, False)


def test_the_page_is_that_of_the_saved_results() -> None:
    assert PAGE.read_text("utf-8") == page(load())


# ------------------------------------------------------------------------------------------------ confluent-kafka


class StuckProducer:
    """Does what it is told in send_offsets_to_transaction."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def send_offsets_to_transaction(self, *_: object) -> None:
        self._answer()


def send_offsets(monkeypatch: pytest.MonkeyPatch, library: Confluent, answer: Any) -> None:
    producer = library.producer("localhost:1", "copies")
    consumer = library.consumer("localhost:1", Isolation.COMMITTED, "g")
    assert isinstance(producer, ConfluentProducer)
    monkeypatch.setattr(producer, "_producer", StuckProducer(answer))
    try:
        producer.send_offsets(consumer, {A: 1})
    finally:
        consumer.close()


def test_a_call_that_returns_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Confluent()
    send_offsets(monkeypatch, library, lambda: None)
    assert library.hangs == []


def test_the_error_of_a_watched_call_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "slow", retriable=True))

    with pytest.raises(RetriableError, match="slow"):
        send_offsets(monkeypatch, Confluent(), fail)


def test_a_call_that_hangs_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.nemesis.confluent_client.HANGS_S", 0.1)
    is_over = threading.Event()
    library = Confluent()
    with pytest.raises(FatalError, match="send_offsets_to_transaction has not returned"):
        send_offsets(monkeypatch, library, is_over.wait)
    assert library.hangs == ["send_offsets_to_transaction"]
    is_over.set()


# ------------------------------------------------------------------------------------------------------ the load


class FakeProducer:
    """Acknowledges at once; calls fail as told."""

    def __init__(self, errors: Mapping[str, list[Exception]], worker: Worker) -> None:
        self._errors = errors
        self._worker = worker
        self._next = 0
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self._errors.get(name):
            raise self._errors[name].pop(0)

    def send(self, partition: Partition, payload: bytes, on_delivery: OnDelivery) -> None:
        self._call("send")
        on_delivery(self._next, None)
        self._next += 1

    def flush(self, timeout_s: float) -> None:
        self._call("flush")

    def init_transactions(self) -> None:
        self._call("init")

    def begin(self) -> None:
        # One transaction is enough.
        self._worker.stopping.set()
        self._call("begin")

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def send_offsets(self, consumer: ConsumerClient, offsets: Mapping[Partition, int]) -> None:
        self._call("offsets")

    def close(self) -> None:
        self._call("close")


class FakeConsumer:
    """Returns some records, then stops its worker."""

    def __init__(self, polls: list[list[Record]], worker: Worker) -> None:
        self._polls = polls
        self._worker = worker
        self.rewound = 0

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self.positions = dict(positions)

    def subscribe(self, topics: Sequence[str], on_assigned: OnAssigned) -> None:
        on_assigned([A])

    def poll(self, timeout_s: float) -> Sequence[Record]:
        if not self._polls:
            self._worker.stopping.set()
            return []
        return self._polls.pop(0)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        pass

    def rewind(self) -> None:
        self.rewound += 1

    def close(self) -> None:
        pass


class FakeLibrary:
    name = "fake"

    def __init__(
        self, errors: Mapping[str, list[Exception]] | None = None, polls: list[list[Record]] | None = None
    ) -> None:
        self.errors = errors or {}
        self.polls = polls or []
        self.worker: Worker | None = None
        self.producers: list[FakeProducer] = []
        self.consumers: list[FakeConsumer] = []

    def producer(self, bootstrap: str, transactional_id: str | None = None) -> ProducerClient:
        assert self.worker is not None
        self.producers.append(FakeProducer(self.errors, self.worker))
        return self.producers[-1]

    def consumer(self, bootstrap: str, isolation: Isolation, group: str | None = None) -> ConsumerClient:
        assert self.worker is not None
        self.consumers.append(FakeConsumer(self.polls, self.worker))
        return self.consumers[-1]


def transacted(errors: Mapping[str, list[Exception]]) -> list[Event]:
    """The history of a worker that plays one transaction."""
    recorder = Recorder()
    library = FakeLibrary(errors)
    worker = TransactionalWorker("w", library, Setting("", recorder, 1), [A])
    library.worker = worker
    worker.run()
    return recorder.events


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.nemesis.load.BACKOFF_S", 0.0)
    monkeypatch.setattr("tools.nemesis.load.ABORTED_IN", 1_000_000)


@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ({}, TransactionOutcome.COMMITTED),
        ({"commit": [RetriableError("again")]}, TransactionOutcome.COMMITTED),
        ({"commit": [RetriableError("again")] * MAX_RETRIES}, TransactionOutcome.UNKNOWN),
        ({"commit": [FatalError("fenced")]}, TransactionOutcome.UNKNOWN),
        ({"commit": [AbortableError("failed")]}, TransactionOutcome.ABORTED),
        ({"commit": [AbortableError("failed")], "abort": [FatalError("dead")]}, TransactionOutcome.UNKNOWN),
        ({"send": [RefusedError("full")]}, TransactionOutcome.ABORTED),
    ],
)
def test_the_outcome_of_a_transaction(
    errors: dict[str, list[Exception]], outcome: TransactionOutcome
) -> None:
    events = transacted(errors)
    assert [event.outcome for event in events if isinstance(event, TransactionEnded)] == [outcome]
    check(events)


def test_a_commit_is_recorded_before_it_is_requested() -> None:
    events = transacted({"commit": [FatalError("fenced")]})
    kinds = [type(event) for event in events]
    assert kinds.index(CommitRequested) < kinds.index(TransactionEnded)
    assert kinds.index(Sent) < kinds.index(Acknowledged) < kinds.index(CommitRequested)


def test_a_refused_record_has_failed_for_good() -> None:
    events = transacted({"send": [RefusedError("full")]})
    assert [event for event in events if isinstance(event, SendFailed)] == [SendFailed("w-1", True)]


def test_an_idempotent_worker_flushes_and_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    library = FakeLibrary({"send": [RefusedError("full")]})
    worker = IdempotentWorker("w", library, Setting("", recorder, 1), [A])
    library.worker = worker
    worker.PAUSE_S = 0.0
    rounds = iter([False, True])
    monkeypatch.setattr(worker, "is_over", lambda _: next(rounds))
    worker.live(0.0)
    assert library.producers[0].calls[-2:] == ["flush", "close"]
    assert recorder.acknowledged == IdempotentWorker.BURST - 1


def test_a_copy_that_is_aborted_is_read_again() -> None:
    recorder = Recorder()
    library = FakeLibrary({"commit": [AbortableError("failed")]}, [[(A, 0, b"x-1 padding")]])
    worker = ExactlyOnceWorker("w", library, Setting("", recorder, 1), [B], "g", "a")
    library.worker = worker
    worker.run()
    polled = next(event for event in recorder.events if isinstance(event, Polled))
    assert polled == Polled("w.1", Isolation.COMMITTED, ((A, 0, "x-1"),), "g", "w-t1")
    assert [event.source for event in recorder.events if isinstance(event, Sent)] == ["x-1"]
    assert library.consumers[0].rewound == 1
    # The next poll may go back.
    assert isinstance(recorder.events[-1], Assigned)


def test_a_reader_continues_where_its_last_client_was() -> None:
    recorder = Recorder()
    library = FakeLibrary(polls=[[(A, 0, b"x-1 "), (A, 3, b"x-2 ")]])
    worker = Reader("r", library, Setting("", recorder, 1), [A, B], Isolation.UNCOMMITTED)
    library.worker = worker
    worker.run()
    worker.stopping.clear()
    worker.run()
    assigned = [event.positions for event in recorder.events if isinstance(event, Assigned)]
    assert assigned == [{A: 0, B: 0}, {A: 4, B: 0}]


def test_gaps_count_between_acknowledged_records(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tools.nemesis.recorder.time.monotonic", lambda: now[0])
    recorder = Recorder()
    recorder.add(Acknowledged("before", 0))
    now[0] = 100.0
    recorder.begin_gaps()
    for moment in (101.0, 108.0, 109.0):
        now[0] = moment
        recorder.add(Acknowledged("value", 0))
    assert (recorder.longest_gap_s, recorder.gap_began_s, recorder.acknowledged) == (7.0, 101.0, 4)
    now[0] = 120.0
    recorder.end_gaps()
    now[0] = 500.0
    recorder.add(Acknowledged("after", 0))
    assert recorder.longest_gap_s == 11.0


def test_hosts_that_exist_at_the_same_time_share_no_names(tmp_path: Path) -> None:
    first, second = Hosts(tmp_path / "first", 1), Hosts(tmp_path / "second", 1)
    assert first.namespace(first.hosts[1]) != second.namespace(second.hosts[1])
    assert first.client_address != second.client_address
