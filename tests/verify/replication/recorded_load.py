"""Clients of a cluster in trouble, and the verdict on what they saw: nothing lost, nothing twice, nothing torn.

Idempotent and transactional producers with acks=all, an exactly-once copy, groups of both protocols and readers,
most of them by confluent-kafka.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from barnabas.testing.histories.checker import check
from barnabas.testing.histories.events import (
    Acknowledged,
    Event,
    Isolation,
    Partition,
    Polled,
    TransactionEnded,
    TransactionOutcome,
)
from tests.verify.quorum.mixed_cluster import wait_for
from tests.verify.replication.brokers import GROUP_KEY, TRANSACTION_KEY, Brokers
from tools.nemesis.clients import CLASSIC, CONSUMER
from tools.nemesis.confluent_client import Confluent
from tools.nemesis.final_reads import Judge, sent_again
from tools.nemesis.load import (
    ExactlyOnceWorker,
    IdempotentWorker,
    Member,
    Reader,
    Setting,
    TransactionalWorker,
    Worker,
)
from tools.nemesis.own_client import Own
from tools.nemesis.recorder import Recorder

TOPICS = {"plain": 4, "transactional": 3, "output": 2}
PARTITIONS: list[Partition] = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
COPIES = "copies"
# One for each protocol.
GROUPS = {CLASSIC: "classic-group", CONSUMER: "consumer-group"}
IDEMPOTENT = "idempotent"
PRODUCERS = ("transactional-1", "transactional-2")
COPIERS = ("copy-1", "copy-2")
TRANSACTIONAL_IDS = PRODUCERS + COPIERS
# Every call of a client has a shorter limit.
STOP_S = 120
MAX_ATTEMPTS = 5
# What every step of a story waits for: all kinds of clients get further.
STEP = Counter({"acknowledged": 300, "transactions": 5, "copies": 2})
GROUP_STEP = 2


class RecordedLoad:
    """Runs from its creation to `finish` or `stop`; the cluster has the topics."""

    def __init__(self, bootstrap: str, seed: int = 1, protocols: Sequence[str] = (CLASSIC, CONSUMER)) -> None:
        """`protocols`: those of groups that the cluster has."""
        self._groups = {protocol: GROUPS[protocol] for protocol in protocols}
        self._step = STEP + Counter(dict.fromkeys(self._groups.values(), GROUP_STEP))
        self._judge = Judge(bootstrap)
        self._recorder = Recorder()
        self._counts: Counter[str] = Counter()
        self._counted = 0
        self._workers = _workers(Setting(bootstrap, self._recorder, seed), self._groups)
        for worker in self._workers:
            worker.start()

    def await_step(self, when: str) -> None:
        """Waits until each kind of client has got further."""
        wanted = self._count() + self._step
        try:
            wait_for(f"clients get further {when}", lambda: not wanted - self._count())
        except AssertionError as error:
            said = "\n".join(f"{count} x {text}" for text, count in self._recorder.messages.most_common(20))
            raise AssertionError(f"{error}; lacking: {dict(wanted - self._count())}\n{said}") from error

    def await_step_led_by(self, brokers: Brokers, leader: int, when: str) -> None:
        """The same while one broker leads every partition and coordinates every group and transaction.

        On a busy machine it may be fenced meanwhile, and lead no more.
        """
        for _ in range(MAX_ATTEMPTS):
            brokers.lead_all(leader)
            self.await_step(when)
            if self._coordinators(brokers) == {leader}:
                return
        raise AssertionError(f"{leader} does not stay the leader {when}")

    def finish(self, folders: Sequence[Path]) -> list[str]:
        """Stops the clients, reads everything, and returns the anomalies; `folders` are the brokers' data folders."""
        self._stop([worker for worker in self._workers if not isinstance(worker, Reader | Member)])
        self._judge.wait_for_transactions(PARTITIONS)
        # What was committed last is for consumers, too.
        self.stop()
        for isolation in Isolation:
            for event in self._judge.read(PARTITIONS, isolation):
                self._recorder.add(event)
        for group in (*self._groups.values(), COPIES):
            for position in self._judge.positions(group, is_transactional=group == COPIES):
                self._recorder.add(position)
        for copy in sent_again(self._recorder.events, folders, {IDEMPOTENT}):
            self._recorder.add(copy)
        report = check(self._recorder.events)
        print(*report.lines(), sep="\n")
        return [str(finding) for finding in report.findings if finding.kind in report.kinds]

    def stop(self) -> None:
        """Without a verdict; nothing if it has finished."""
        self._stop([worker for worker in self._workers if not worker.stopping.is_set()])

    def _stop(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.stopping.set()
        limit = time.monotonic() + STOP_S
        for worker in workers:
            worker.join(max(0.0, limit - time.monotonic()))
            assert not worker.is_alive(), f"{worker.name} does not stop"

    def _coordinators(self, brokers: Brokers) -> set[int]:
        """Of all groups and transactions of the load."""
        groups = brokers.coordinators(GROUP_KEY, (*self._groups.values(), COPIES))
        return groups | brokers.coordinators(TRANSACTION_KEY, TRANSACTIONAL_IDS)

    def _count(self) -> Counter[str]:
        events = self._recorder.events[self._counted :]
        self._counted += len(events)
        self._counts.update(filter(None, map(_kind, events)))
        return Counter(self._counts)


def _kind(event: Event) -> str | None:
    match event:
        case Acknowledged():
            return "acknowledged"
        case TransactionEnded(transaction, TransactionOutcome.COMMITTED):
            return "copies" if transaction.startswith(COPIERS) else "transactions"
        case Polled(group=group) if group in GROUPS.values():
            return group
    return None


def _workers(setting: Setting, groups: Mapping[str, str]) -> list[Worker]:
    confluent, own = Confluent(), Own()
    of = {topic: [place for place in PARTITIONS if place[0] == topic] for topic in TOPICS}
    both = ["plain", "transactional"]
    return [
        IdempotentWorker(IDEMPOTENT, confluent, setting, of["plain"]),
        *(TransactionalWorker(name, confluent, setting, of["transactional"]) for name in PRODUCERS),
        # A client of librdkafka that knows only a coordinator that is cut off stays with it, also in a cluster of
        # Apache Kafka alone: such a coordinator names itself.  Ours asks the others, so that one of the two copies.
        ExactlyOnceWorker(COPIERS[0], confluent, setting, of["output"], COPIES, "transactional"),
        ExactlyOnceWorker(COPIERS[1], own, setting, of["output"], COPIES, "transactional"),
        Reader("committed", confluent, setting, PARTITIONS, Isolation.COMMITTED),
        Reader("uncommitted", own, setting, PARTITIONS, Isolation.UNCOMMITTED),
        *(
            Member(f"{group}-{library.name}", library, setting, both, group, Isolation.COMMITTED)
            for protocol, group in groups.items()
            for library in (Confluent(protocol), Own(protocol))
        ),
    ]
