"""One KRaft cluster of Apache Kafka's nodes and ours, in the oracle's layout.

Each node is formatted and started by its own kind; every one can be stopped, killed, paused and started again,
and the kind of a node can change between two of its starts: both use the same files.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from barnabas.base.ids import Uuid
from barnabas.runtime.random import SystemRandom, random_uuid
from tests.verify.answers.broker_ask import Plain, RawClient
from tools.ports import free_oracle_base

APACHE = "apache"
OURS = "ours"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
RELEASE = "4.1-IV1"
# Two cores, several JVMs: generous, and never waited out by a run that passes.
PATIENCE_S = 120
LOOK_EACH_S = 0.05
VERSIONS = ("4.1.0", "4.3.1")
# A leader is drawn by the election: in so many each kind has led, but for one run in 10,000.
MAX_ROUNDS = 24
RECORDS_BEFORE_A_PAUSE = 8
METADATA = "__cluster_metadata-0"
# Small snapshots, and a log that begins at the oldest of them.
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "metadata.max.retention.bytes": "1000",
}
T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], patience_s: float = PATIENCE_S) -> T:
    """The first result that is not None or False."""
    limit = time.monotonic() + patience_s
    while not (found := look()):
        assert time.monotonic() < limit, f"{what}: not within {patience_s} s"
        time.sleep(LOOK_EACH_S)
    return found


@dataclass
class Member:
    """One node of the cluster; `kind` says whose software runs it."""

    number: int
    kind: str
    role: str
    port: int
    home: Path
    directory_id: Uuid
    process: subprocess.Popen[bytes] | None = None
    pid: int | None = None
    is_paused: bool = False
    # Where the other nodes reach it, if there is something in between.
    public_port: int | None = None

    @property
    def name(self) -> str:
        return self.home.name

    @property
    def properties(self) -> Path:
        return self.home / "server.properties"

    @property
    def metadata(self) -> Path:
        return self.home / "data" / METADATA

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self.port}"

    @property
    def address(self) -> str:
        return self.bootstrap if self.public_port is None else f"localhost:{self.public_port}"

    @property
    def log(self) -> Path:
        return self.home / ("server.log" if self.kind == APACHE else "barnabas.log")

    @property
    def runs(self) -> bool:
        return self.pid is not None and not self.is_paused

    @property
    def option(self) -> tuple[str, str]:
        """How tools are pointed at it."""
        flag = "--bootstrap-controller" if self.role == "controller" else "--bootstrap-server"
        return flag, self.bootstrap


@dataclass
class Status:
    """What the leader says of its quorum."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]


@dataclass
class MixedCluster:
    """Controllers 101.. and brokers 1.., on consecutive ports."""

    oracle: Callable[..., Any]
    version: str
    home: Path
    port: int
    is_dynamic: bool
    settings: Mapping[str, str]
    members: dict[int, Member] = field(default_factory=dict)
    # (epoch, leader, fault that ended it)
    led: list[tuple[int, int, str]] = field(default_factory=list)

    # Building

    def add(self, number: int, kind: str, **settings: str) -> Member:
        """A new member, not yet formatted; numbers above 100 are controllers."""
        role = "controller" if number > 100 else "broker"
        port = self.port + number
        home = self.home / f"{role}-{number}"
        home.mkdir(parents=True)
        member = Member(number, kind, role, port, home, random_uuid(SystemRandom()))
        self.members[number] = member
        self._write_cluster_file()
        member_settings = {**self.settings, **settings}
        (home / "wanted.json").write_text(json.dumps(member_settings), "utf-8")
        return member

    def _write_cluster_file(self) -> None:
        """The oracle's own record of its cluster, so that it can start each node."""
        nodes = {
            member.name: {"kind": member.role, "roles": member.role, "port": member.port}
            for member in self.members.values()
        }
        cluster = {"version": self.version, "mode": "kraft", "as_shipped": False, "nodes": nodes}
        (self.home / "cluster.json").write_text(json.dumps(cluster), "utf-8")

    def configure(self, member: Member, voters: list[Member]) -> None:
        if self.is_dynamic:
            servers = ",".join(voter.address for voter in voters)
            quorum = {"controller.quorum.bootstrap.servers": servers}
        else:
            pairs = ",".join(f"{voter.number}@{voter.address}" for voter in voters)
            quorum = {"controller.quorum.voters": pairs}
        listener = "CONTROLLER" if member.role == "controller" else "PLAINTEXT"
        properties = {
            "process.roles": member.role,
            "node.id": str(member.number),
            "listeners": f"{listener}://{member.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **quorum,
            "log.dirs": str(member.home / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **json.loads((member.home / "wanted.json").read_text("utf-8")),
        }
        if member.public_port is not None:
            properties["advertised.listeners"] = f"{listener}://{member.address}"
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        member.properties.write_text(text, "utf-8")

    def format(self, member: Member, voters: list[Member]) -> None:
        """With its own kind's tool; `voters` are the initial controllers of a dynamic quorum."""
        options = ["-t", CLUSTER_ID, "-c", str(member.properties), "--release-version", RELEASE]
        if self.is_dynamic and member in voters:
            listed = [f"{voter.number}@{voter.address}:{voter.directory_id}" for voter in voters]
            options += ["--initial-controllers", ",".join(listed)]
        elif self.is_dynamic:
            options += ["--no-initial-controllers"]
        self.tool_of(member.kind, "storage", "format", *options)

    # Tools

    def tool_of(self, kind: str, name: str, *args: str) -> str:
        """A tool's output, run to a good end."""
        code, output = self.try_tool(kind, name, *args)
        assert code == 0, f"{kind}'s {name} {args} ended with {code}: {output[-3000:]}"
        return output

    def try_tool(self, kind: str, name: str, *args: str) -> tuple[int, str]:
        if kind == APACHE:
            done = self.oracle(self.version, "tool", name, *args)
        else:
            command = [sys.executable, "-m", "barnabas", name, *args]
            done = subprocess.run(
                command, capture_output=True, text=True, env=self._env(), check=False, timeout=PATIENCE_S
            )
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    def _env(self) -> dict[str, str]:
        return {**os.environ, "BARNABAS_STATE": str(self.home / "state")}

    # Processes

    def start(self, *numbers: int) -> None:
        """Start them together, and wait until each serves."""
        for number in numbers:
            self._launch(self.members[number])
        for number in numbers:
            self._await_started(self.members[number])

    def _launch(self, member: Member) -> None:
        assert member.pid is None, f"{member.name} runs"
        if member.kind == APACHE:
            done = self.oracle(self.version, "start", "--dir", str(self.home), member.name, "--no-wait")
            assert done.returncode == 0, done.stderr[-3000:]
            member.pid = int((member.home / "pid").read_text("utf-8"))
            return
        with member.log.open("ab") as log:
            member.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "server-start", str(member.properties)],
                stdout=log,
                stderr=log,
                env=self._env(),
            )
        member.pid = member.process.pid

    def _await_started(self, member: Member) -> None:
        def look() -> bool:
            if member.process is not None:
                assert member.process.poll() is None, f"{member.name}: {self.tail(member)}"
            with suppress(OSError), socket.create_connection(("localhost", member.port), timeout=1):
                return True
            return False

        wait_for(f"{member.name} listens", look)

    def tail(self, member: Member) -> str:
        return member.log.read_text("utf-8")[-3000:] if member.log.exists() else "(no log)"

    def kill(self, number: int) -> None:
        self._end(self.members[number], signal.SIGKILL)

    def stop(self, number: int) -> None:
        self._end(self.members[number], signal.SIGTERM)

    def _end(self, member: Member, signal_number: int) -> None:
        if member.pid is None:
            return
        self.resume(member.number)
        if member.process is not None:
            member.process.send_signal(signal_number)
            code = member.process.wait(PATIENCE_S)
            assert signal_number == signal.SIGKILL or code == 0, f"{member.name}: {self.tail(member)}"
        else:
            options = ["--kill"] if signal_number == signal.SIGKILL else []
            self.oracle(self.version, "stop", "--dir", str(self.home), member.name, *options)
        member.pid = member.process = None

    def pause(self, number: int) -> None:
        member = self.members[number]
        assert member.pid is not None
        os.kill(member.pid, signal.SIGSTOP)
        member.is_paused = True

    def resume(self, number: int) -> None:
        member = self.members[number]
        if member.is_paused and member.pid is not None:
            os.kill(member.pid, signal.SIGCONT)
        member.is_paused = False

    def empty(self, number: int) -> None:
        """A new disk for a stopped node."""
        shutil.rmtree(self.members[number].home / "data")

    def down(self) -> None:
        for member in self.members.values():
            with suppress(OSError, AssertionError):
                self._end(member, signal.SIGKILL)

    # Questions

    def controllers(self) -> list[Member]:
        return [member for member in self.members.values() if member.role == "controller"]

    def brokers(self) -> list[Member]:
        return [member for member in self.members.values() if member.role == "broker"]

    def ask(self, member: Member, api: str, version: int, **fields: Any) -> Plain:
        """One request on a connection of its own; None if it did not answer."""
        client = RawClient(member.port, 0)
        try:
            answer = client.one(api, version, **fields)
        except OSError:
            return None
        finally:
            client.close()
        return None if isinstance(answer, str) else answer

    def status(self, member: Member) -> Status | None:
        """The quorum as this controller leads it; None if it does not lead."""
        topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
        answer = self.ask(member, "DescribeQuorum", 2, topics=topics)
        if answer is None or answer["error_code"] or not answer["topics"]:
            return None
        partition = answer["topics"][0]["partitions"][0]
        if partition["error_code"] or partition["leader_id"] != member.number:
            return None
        return Status(
            partition["leader_id"],
            partition["leader_epoch"],
            partition["high_watermark"],
            {each["replica_id"]: each["log_end_offset"] for each in partition["current_voters"]},
            {each["replica_id"]: each["log_end_offset"] for each in partition["observers"]},
        )

    def leader(self, above: int = -1) -> Status:
        """Waits for a leader of an epoch above this one that has committed records of its own."""

        def look() -> Status | None:
            found = [self.status(member) for member in self.controllers() if member.runs]
            known = [each for each in found if each is not None and each.high_watermark > 0]
            newest = max(known, key=lambda each: each.epoch, default=None)
            return newest if newest is not None and newest.epoch > above else None

        return wait_for(f"a leader above epoch {above}", look)

    def await_following(self, number: int) -> None:
        """Waits until the leader counts the voter's log as far as it was committed just now."""
        end = self.leader().high_watermark

        def look() -> bool:
            status = self.leader()
            return status.leader_id == number or status.voters.get(number, -1) >= end

        wait_for(f"{number} follows", look)

    def lead_by(self, kind: str) -> Member:
        """Has a leader of this kind elected: others are paused until another leads.

        A leader that resigns chooses its successor; one that is paused leaves it to chance, once its followers have
        fetched for a while: before, the one that joined last is the first to miss its leader.
        """
        for _ in range(MAX_ROUNDS):
            status = self.leader()
            if self.kind_of(status.leader_id) == kind:
                return self.members[status.leader_id]
            end = status.high_watermark + RECORDS_BEFORE_A_PAUSE
            wait_for("more records", partial(self._reaches, end))
            self.pause(status.leader_id)
            self.led.append((status.epoch, status.leader_id, "pause"))
            self.leader(above=status.epoch)
            self.resume(status.leader_id)
            self.await_following(status.leader_id)
        raise AssertionError(f"no leader of {kind} in {MAX_ROUNDS} elections")

    def _reaches(self, end: int) -> bool:
        return self.leader().high_watermark >= end

    def kind_of(self, number: int) -> str:
        return self.members[number].kind

    def faults(self) -> list[str]:
        """Errors in the logs of our nodes."""
        return [
            f"{member.name}: {line}"
            for member in self.members.values()
            if (path := member.home / "barnabas.log").exists()
            for line in path.read_text("utf-8").splitlines()
            if " ERROR " in line or "Traceback" in line
        ]


@contextmanager
def mixed_cluster(
    oracle: Callable[..., Any],
    version: str,
    home: Path,
    kinds: Mapping[int, str],
    *,
    is_dynamic: bool,
    settings: Mapping[str, str] = SETTINGS,
    later: Mapping[int, str] | None = None,
    prepare: Callable[[MixedCluster], object] = lambda _: None,
) -> Iterator[MixedCluster]:
    """A new cluster of these nodes, running; it is down when this ends.

    `prepare` is called with its nodes before they are configured.  Those of `later` are neither formatted nor started, but known as places where controllers may be.
    """
    cluster = MixedCluster(oracle, version, home, free_oracle_base(), is_dynamic, settings)
    home.mkdir(parents=True, exist_ok=True)
    try:
        members = [cluster.add(number, kind) for number, kind in kinds.items()]
        voters = cluster.controllers()
        for number, kind in (later or {}).items():
            cluster.add(number, kind)
        prepare(cluster)
        for member in members:
            cluster.configure(member, cluster.controllers())
            cluster.format(member, voters)
        cluster.start(*kinds)
        cluster.leader()
        yield cluster
    finally:
        cluster.down()
