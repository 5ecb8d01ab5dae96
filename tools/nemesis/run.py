"""One run: a cluster, a load, faults drawn by a seed, the final reads, the verdict."""

from __future__ import annotations

import faulthandler
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from barnabas.testing.histories.anomalies import Anomaly
from barnabas.testing.histories.checker import check
from barnabas.testing.histories.events import Isolation, Partition
from barnabas.testing.histories.jsonl import write_event
from tools.nemesis.cluster import Cluster, System
from tools.nemesis.confluent_client import Confluent
from tools.nemesis.faults import Fault, Injector, Kind, draw_faults
from tools.nemesis.final_reads import Judge, NotRecovered, differing_replicas, sent_again
from tools.nemesis.hosts import BALLAST, Hosts
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
EXACTLY_ONCE = "exactly-once"
GROUPS = {"group-confluent": False, "group-barnabas": False, EXACTLY_ONCE: True}
# A node that ends so soon after its disk was healed has ended because of it.
GRACE_S = 15.0
TICK_S = 0.1
PROGRESS_S = 5.0
# How long consumers go on after the faults were healed.
CALM_S = 5.0
STOP_S = 90.0
Say = Callable[[str], None]


@dataclass
class Outcome:
    """The row of a run in docs/nemesis.md."""

    system: str
    seed: int
    nodes: int
    seconds: int
    faults: dict[str, int] = field(default_factory=dict)
    unavailable: dict[str, str] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)
    # Other than anomalies: nodes that ended by themselves, replicas that differ, …
    problems: list[str] = field(default_factory=list)
    # What is no fault of the cluster.
    remarks: list[str] = field(default_factory=list)
    longest_gap_s: float = 0.0
    failed_syncs: int = 0
    ended_nodes: int = 0
    version: str = ""

    @property
    def is_clean(self) -> bool:
        return not self.anomalies and not self.problems

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Run:
    """Everything that belongs to one run."""

    def __init__(self, outcome: Outcome, cluster: Cluster, folder: Path, say: Say, *, planted: bool) -> None:
        self.outcome = outcome
        self.recorder = Recorder()
        self._cluster = cluster
        self._injector = Injector(cluster)
        self._folder = folder
        self._say = say
        self._planted = planted
        self._judge = Judge(cluster.bootstrap)
        self._partitions: list[Partition] = [
            (topic, number) for topic, count in TOPICS.items() for number in range(count)
        ]
        self._confluent = Confluent()
        self._workers: list[Worker] = []
        self._started_s = 0.0
        # When the disk of a node was last healed.
        self._healed_s: dict[int, float] = {}

    def play(self) -> None:
        outcome = self.outcome
        kinds, missing = self._injector.available()
        outcome.unavailable = {kind.value: reason for kind, reason in missing.items()}
        nodes = tuple(self._cluster.nodes)
        faults = draw_faults(outcome.seed, nodes, outcome.seconds, kinds)
        if self._planted:
            middle_s = outcome.seconds / 2
            faults = [Fault(Kind.PLANTED_LOSS, nodes, middle_s, middle_s + 1)]
        outcome.faults = dict(Counter(fault.kind.value for fault in faults))
        self._cluster.up()
        try:
            self._judge.create_topics(TOPICS)
            self._judge.wait_for_replicas(TOPICS)
            self._start_load()
            self._strike(faults)
            self._recover()
        except NotRecovered as error:
            outcome.problems.append(str(error))
        finally:
            self._stop_load()
            outcome.ended_nodes += self._injector.ended
            outcome.failed_syncs = sum(node.control.failed_syncs for node in self._cluster.nodes.values())
        self._check()

    def _start_load(self) -> None:
        setting = Setting(self._cluster.bootstrap, self.recorder, self.outcome.seed)
        confluent, own = self._confluent, Own()
        of = {topic: [place for place in self._partitions if place[0] == topic] for topic in TOPICS}
        plain, transactional, output = of["plain"], of["transactional"], of["output"]
        both = ["plain", "transactional"]
        committed, uncommitted = Isolation.COMMITTED, Isolation.UNCOMMITTED
        self._workers = [
            IdempotentWorker("idempotent-c", confluent, setting, plain),
            IdempotentWorker("idempotent-b", own, setting, plain),
            TransactionalWorker("transactional-c1", confluent, setting, transactional),
            TransactionalWorker("transactional-c2", confluent, setting, transactional),
            TransactionalWorker("transactional-b", own, setting, transactional),
            ExactlyOnceWorker("copy-c", confluent, setting, output, EXACTLY_ONCE, "transactional"),
            ExactlyOnceWorker("copy-b", own, setting, output, EXACTLY_ONCE, "transactional"),
            Reader("committed-c", confluent, setting, self._partitions, committed),
            Reader("committed-b", own, setting, self._partitions, committed),
            Reader("uncommitted-c", confluent, setting, self._partitions, uncommitted),
            Reader("uncommitted-b", own, setting, self._partitions, uncommitted),
            Member("member-c1", confluent, setting, both, "group-confluent", committed),
            Member("member-c2", confluent, setting, both, "group-confluent", committed),
            Member("member-b1", own, setting, both, "group-barnabas", committed),
            Member("member-b2", own, setting, both, "group-barnabas", committed),
        ]
        for worker in self._workers:
            worker.start()
        deadline = time.monotonic() + STOP_S
        while not self.recorder.acknowledged:
            if time.monotonic() > deadline:
                raise NotRecovered(f"nothing was acknowledged within {STOP_S:.0f} s")
            time.sleep(TICK_S)
        self.recorder.begin_gaps()

    def _strike(self, faults: list[Fault]) -> None:
        """Injects and heals at the times that were drawn."""
        agenda = sorted(
            [(fault.start_s, True, fault) for fault in faults]
            + [(fault.end_s, False, fault) for fault in faults],
            key=lambda entry: entry[0],
        )
        self._started_s = self.recorder.started_s = time.monotonic()
        shown_s = 0.0
        while (now_s := time.monotonic() - self._started_s) < self.outcome.seconds or agenda:
            while agenda and agenda[0][0] <= now_s:
                _, begins, fault = agenda.pop(0)
                self._report(f"{'begin' if begins else 'heal '} {fault}")
                if begins:
                    self._injector.inject(fault)
                else:
                    self._injector.heal(fault)
                    if fault.kind in (Kind.DISK_FULL, Kind.SYNC_ERROR):
                        self._healed_s |= dict.fromkeys(fault.nodes, time.monotonic())
            self._look_after()
            if now_s - shown_s > PROGRESS_S:
                shown_s = now_s
                self._report("")
            time.sleep(TICK_S)

    def _report(self, text: str) -> None:
        now_s = time.monotonic() - self._started_s
        self._say(
            f"seed {self.outcome.seed} {now_s:6.1f} s  {self.recorder.acknowledged:8} acknowledged  "
            f"longest gap {self.recorder.longest_gap_s:4.1f} s  {text}"
        )

    def _look_after(self) -> None:
        """A node that has ended because of its disk stays down until that is healed; others must not end."""
        for node in self._cluster.nodes.values():
            code = node.exit_code
            if code is None or self._injector.is_killed(node.id) or self._injector.may_end(node.id):
                continue
            healed_s = self._healed_s.get(node.id)
            self.outcome.ended_nodes += 1
            if healed_s is None or time.monotonic() - healed_s > GRACE_S:
                self.outcome.problems.append(f"node {node.id} ended by itself with code {code}")
                self._report(f"node {node.id} ended by itself with code {code}")
            node.start()

    def _recover(self) -> None:
        self._injector.heal_all()
        self._report("all healed")
        self._wait_calmly(CALM_S)
        self.recorder.end_gaps()
        producers = [worker for worker in self._workers if not isinstance(worker, Reader | Member)]
        self._stop(producers)
        self._judge.wait_for_replicas([*TOPICS, "__consumer_offsets", "__transaction_state"])
        self._judge.wait_for_transactions(self._partitions)
        self._report("recovered: every replica is in sync, no transaction is open")
        self._wait_calmly(CALM_S)
        self._stop_load()
        for isolation in Isolation:
            for event in self._judge.read(self._partitions, isolation):
                self.recorder.add(event)
        for group, is_transactional in GROUPS.items():
            for position in self._judge.positions(group, is_transactional=is_transactional):
                self.recorder.add(position)
        self._cluster.down(graceful=True)
        folders = [node.data for node in self._cluster.nodes.values()]
        self.outcome.problems += differing_replicas(folders, self._partitions)
        self._note_copies(folders)

    def _note_copies(self, folders: list[Path]) -> None:
        bumping = {
            worker.name
            for worker in self._workers
            if worker.library is self._confluent and isinstance(worker, IdempotentWorker)
        }
        for event in sent_again(self.recorder.events, folders, bumping):
            self.recorder.add(event)

    def _wait_calmly(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self._look_after()
            time.sleep(TICK_S)

    def _stop(self, workers: list[Worker]) -> None:
        for worker in workers:
            worker.stopping.set()
        deadline = time.monotonic() + STOP_S
        for worker in workers:
            worker.join(max(0.0, deadline - time.monotonic()))
            if worker.is_alive():
                self._report_hanging(worker)

    def _report_hanging(self, worker: Worker) -> None:
        """Every call of a client has a time limit: one that hangs is at fault, whatever the cluster did."""
        text = f"{worker.name} did not stop within {STOP_S:.0f} s"
        if worker.library.name == Own.name:
            self.outcome.problems.append(text)
        else:
            self.outcome.remarks.append(f"{text} ({worker.library.name} hangs in a call)")
        self._report(text)
        with (self._folder / "stacks.txt").open("w", encoding="utf-8") as file:
            faulthandler.dump_traceback(file)

    def _stop_load(self) -> None:
        self._stop([worker for worker in self._workers if not worker.stopping.is_set()])

    def _check(self) -> None:
        report = check(self.recorder.events)
        self.outcome.totals = dict(report.totals)
        self.outcome.longest_gap_s = round(self.recorder.longest_gap_s, 1)
        for kind, count in report.counts.items():
            target = self.outcome.allowed if kind in report.allowed else self.outcome.anomalies
            target[kind.value] = count
        if again := report.counts[Anomaly.SENT_AGAIN]:
            self.outcome.remarks.append(f"confluent-kafka sent {again} records again with a bumped epoch")
        if hangs := len(self._confluent.hangs):
            self.outcome.remarks.append(f"confluent-kafka hung {hangs} x in {self._confluent.hangs[0]}")
        recorder = self.recorder
        gap = f"longest gap {recorder.longest_gap_s:.1f} s, {recorder.gap_began_s:.1f} s after the start"
        lines = [*report.lines(), gap, *self.outcome.problems]
        (self._folder / "report.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for line in lines:
            self._say(f"seed {self.outcome.seed}  {line}")

    def keep(self) -> None:
        """The history and what clients reported, for those who look for the cause."""
        with (self._folder / "history.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{write_event(event)}\n" for event in self.recorder.events)
        messages = "".join(f"{count:6} {text}\n" for text, count in self.recorder.messages.most_common())
        bumps = "".join(f"{text}\n" for text in self._confluent.epoch_bumps)
        (self._folder / "clients.txt").write_text(messages + bumps, "utf-8")


def run(outcome: Outcome, system: System, folder: Path, say: Say, *, keep: bool, planted: bool) -> Outcome:
    """Play a run in a folder, which stays if there is something to look at."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with Hosts(folder, outcome.nodes) as hosts:
        cluster = Cluster(dict.fromkeys(hosts.hosts, system), hosts, folder)
        play = Run(outcome, cluster, folder, say, planted=planted)
        try:
            play.play()
        finally:
            cluster.down()
            if keep or not outcome.is_clean or not outcome.totals:
                play.keep()
                for node in cluster.nodes.values():
                    shutil.copytree(
                        node.data, folder / f"data-{node.id}", ignore=shutil.ignore_patterns(BALLAST)
                    )
    if outcome.is_clean and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome
