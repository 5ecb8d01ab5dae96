"""`barnabas restart` and `barnabas drain` on three real processes: what they wait for, refuse, and leave.

Operators ask for a restart or drain verb that says what it waits for, ends, and can be interrupted
(strimzi 9272, 3710, 4112).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.client.sync import Producer
from tests.broker.replication.load import Load, read_back
from tests.cli.cluster.local_cluster import PATIENCE_S, LocalCluster
from tests.cli.cluster.test_replicas import described, in_sync, tool, wait_for
from tools.ports import free_run

# One cluster for all of them.
pytestmark = pytest.mark.xdist_group("upkeep")

Typed = subprocess.Popen[str]


@contextmanager
def running(folder: Path, *flags: str) -> Iterator[LocalCluster]:
    cluster = LocalCluster(folder)
    started = cluster.start("up", "--port", str(free_run(6)[0]), *flags)
    assert started.code == 0, started.err + started.out
    try:
        yield cluster
    finally:
        cluster.run("down", "--delete", "--timeout", "20")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running(tmp_path_factory.mktemp("upkeep")) as cluster:
        yield cluster


@pytest.fixture
def cluster(started: LocalCluster) -> Iterator[LocalCluster]:
    """Three nodes without topics: these tests run in any order, and not all in one process."""
    yield started
    for topic in tool(started, "topics", "--list", "--exclude-internal").split():
        tool(started, "topics", "--delete", "--topic", topic)


def typed(cluster: LocalCluster, *arguments: str) -> Typed:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", *arguments],
        env={**os.environ, **cluster.environment, "BARNABAS_BOOTSTRAP": cluster.servers},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: Typed) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def pids(cluster: LocalCluster) -> dict[int | str, int]:
    return {node_id: row["pid"] for node_id, row in cluster.status().items()}


def test_a_node_is_restarted_when_others_have_its_partitions(cluster: LocalCluster) -> None:
    # M-D9
    tool(cluster, "topics", "--create", "--topic", "three", "--replica-assignment", "2:1:3,1:3:2")
    before = pids(cluster)
    code, out, err = result(typed(cluster, "restart", "2"))
    assert (code, err) == (0, ""), out
    after = pids(cluster)
    assert (after[1], after[3]) == (before[1], before[3])
    assert after[2] != before[2]
    assert "node 2: stopping; it hands over 1 leadership\n" in out
    assert "node 2: restarted (1 of 1)\n1 leadership moved back to the preferred replica\n" in out
    assert in_sync(cluster, "three")
    assert described(cluster, "--topic", "three")["three-0"][0] == "2"


def test_replicas_are_verified_until_ctrl_c(cluster: LocalCluster) -> None:
    tool(cluster, "topics", "--create", "--topic", "three", "--replica-assignment", "2:1:3,1:3:2")
    with Producer({"bootstrap.servers": cluster.servers, "acks": "all"}) as producer:
        for number in range(100):
            producer.send("three", value=str(number).encode())
        producer.flush()
    ends = tool(cluster, "get-offsets", "--topic", "three").splitlines()
    flags = ("--report-interval-ms", "0", "--max-wait-ms", "50", "--time", "-2", "--topics-include", "three")
    process = typed(cluster, "replica-verification", "--broker-list", cluster.servers, *flags)
    assert process.stdout is not None
    started = process.stdout.readline()
    assert re.fullmatch(r"[-0-9]{10} [:0-9]{8},[0-9]{3}: verification process is started\n", started)
    line = ""
    while "max lag is 0 for partition" not in line:
        line = process.stdout.readline()
        assert line, "it ended"
        assert ": max lag is " in line, "nothing differs"
    assert line.endswith(" among 2 partitions\n")
    assert sum(int(end.rpartition(":")[2]) for end in ends) == 100
    process.send_signal(signal.SIGINT)
    assert result(process)[0] == Exit.INTERRUPTED


def test_the_only_replica_is_not_taken_away(cluster: LocalCluster) -> None:
    tool(cluster, "topics", "--create", "--topic", "alone", "--replica-assignment", "2")
    before = pids(cluster)
    code, out, err = result(typed(cluster, "restart", "--rolling", "2"))
    assert (code, out) == (Exit.FAILED, "")
    assert err.startswith("node 2: it has the only replica of alone-0, which cannot be read or written while")
    assert err.endswith("no other node has been touched; barnabas restart 2 goes on\n")
    assert pids(cluster) == before


@pytest.mark.slow
def test_a_restart_waits_for_another_in_sync_replica_and_can_be_interrupted(tmp_path: Path) -> None:
    """The last in-sync replica is never stopped: what it alone has would be lost with it."""
    with running(tmp_path, "--brokers", "2", "--controllers", "1") as pair:
        tool(pair, "topics", "--create", "--topic", "two", "--replica-assignment", "1:2")
        assert pair.run("kill", "2").code == 0
        wait_for("broker 2 is fenced", lambda: described(pair, "--topic", "two")["two-0"][2] == "1")
        process = typed(pair, "restart", "1")
        assert process.stdout is not None
        assert process.stdout.readline() == "node 1: waiting until another replica is in sync: two-0\n"
        process.send_signal(signal.SIGINT)
        code, _, err = result(process)
        assert code == Exit.INTERRUPTED
        assert err == "barnabas restart: no other node has been touched; barnabas restart 1 goes on\n"
        code, _, err = result(typed(pair, "restart", "1", "--timeout", "1"))
        assert code == Exit.TIMED_OUT
        assert (
            "gave up after 1 s of waiting until another replica is in sync: two-0; it was not stopped" in err
        )
        assert pair.status()[1]["state"] == "up"
        # All of them: the one that is down first, then those that need it.
        code, out, err = result(typed(pair, "restart", "--rolling"))
        assert (code, err) == (0, ""), out
        done = [line for line in out.splitlines() if "restarted" in line]
        assert done == [
            "node 2: restarted (1 of 3)",
            "node 1: restarted (2 of 3)",
            "node 3: restarted (3 of 3)",
        ]
        assert "node 3: without it there is no quorum; metadata waits until it is back\n" in out
        assert in_sync(pair, "two")


def test_the_quorum_is_not_taken_away(cluster: LocalCluster) -> None:
    """One of three controllers is down: without another one there would be none to decide."""
    tool(cluster, "topics", "--create", "--topic", "two", "--replica-assignment", "2:3")
    assert cluster.run("kill", "3").code == 0
    code, _, err = result(typed(cluster, "restart", "1"))
    assert (code, "only 2 of 3 controllers run" in err) == (Exit.FAILED, True)
    code, out, _ = result(typed(cluster, "restart", "3"))
    assert code == 0
    assert "node 3: restarted (1 of 1)" in out, "what is down is started"
    wait_for("3 is in sync again", lambda: in_sync(cluster, "two"))


def test_a_broker_is_drained_and_the_others_have_everything(cluster: LocalCluster) -> None:
    # M-D9
    tool(cluster, "topics", "--create", "--topic", "two", "--replica-assignment", "2:3")
    tool(cluster, "topics", "--create", "--topic", "three", "--replica-assignment", "2:1:3,1:3:2")
    code, _, err = result(typed(cluster, "drain", "3", "--yes"))
    assert (code, "three-0 has 3 replicas, and there is no other broker" in err) == (Exit.FAILED, True)
    tool(cluster, "topics", "--delete", "--topic", "three")
    code, out, err = result(typed(cluster, "drain", "3", "--dry-run"))
    assert (code, out) == (0, "")
    assert (
        err
        == "broker 3: 1 replica to move, 0 leaders among them\n  two-0: 2,3 -> 2,1\nnothing was done (--dry-run)\n"
    )
    code, out, _ = result(typed(cluster, "drain", "3", "--yes"))
    assert code == 0
    assert "broker 3: 1 of 1 replica moved\nbroker 3 has no replicas any more" in out
    assert described(cluster, "--topic", "two")["two-0"] == ("2", "2,1", "2,1")
    assert result(typed(cluster, "drain", "3"))[:2] == (0, "broker 3 has no replicas\n")
    code, _, err = result(typed(cluster, "drain", "9"))
    assert (code, err) == (Exit.FAILED, "barnabas drain: there is no broker 9; the brokers are 1, 2, 3\n")


@pytest.mark.slow
def test_a_drain_that_is_interrupted_goes_on_later_or_is_cancelled(cluster: LocalCluster) -> None:
    tool(cluster, "topics", "--create", "--topic", "late", "--replica-assignment", "1:2")
    tool(cluster, "topics", "--create", "--topic", "two", "--replica-assignment", "2:1")
    assert cluster.run("kill", "3").code == 0  # Nobody knows yet, and so it is to take over.
    process = typed(cluster, "drain", "2", "--yes")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("broker 2: waiting for late-0, two-0 to be in sync on broker "), line
    process.send_signal(signal.SIGINT)
    code, _, err = result(process)
    assert code == Exit.INTERRUPTED
    assert err.endswith(
        "0 of 2 replicas moved; those that have begun complete, no others start; barnabas drain 2 goes on, "
        "barnabas drain 2 --cancel ends what is in progress\n"
    )
    assert len(tool(cluster, "reassign-partitions", "--list").splitlines()) == 3
    code, out, _ = result(typed(cluster, "drain", "2", "--cancel"))
    assert (code, out) == (0, "broker 2: 2 moves cancelled; its replicas stay\n")
    assert result(typed(cluster, "drain", "2", "--cancel"))[1] == "no replicas are being moved off broker 2\n"
    assert described(cluster, "--topic", "late")["late-0"][1] == "1,2"
    assert cluster.start("start", "3").code == 0


@pytest.mark.slow
def test_nodes_of_other_hosts_are_restarted_by_a_command(cluster: LocalCluster) -> None:
    """The active controller is the last; when the command fails, the whole command that goes on is named."""
    # M-D9
    tool(cluster, "topics", "--create", "--topic", "three", "--replica-assignment", "2:1:3,1:3:2")
    before, epoch = pids(cluster), _active(cluster)
    ours = f"{sys.executable} -m barnabas cluster"
    command = f"{ours} stop {{id}} && {ours} start {{id}}"
    code, out, err = result(typed(cluster, "restart", "--rolling", "--command", command))
    assert (code, err) == (0, ""), out
    order = re.findall(r"^node (\d): restarted", out, re.M)
    # A busy machine may elect another one meanwhile.
    assert sorted(order) == ["1", "2", "3"]
    assert order[-1] == epoch[0] or _active(cluster)[1] != str(int(epoch[1]) + 1)
    assert not set(pids(cluster).items()) & set(before.items())
    flags = ("-b", cluster.servers, "--command", "exit 7")
    code, _, err = result(typed(cluster, "restart", "2", *flags))
    assert code == Exit.FAILED
    again = f"barnabas restart 2 -b {cluster.servers} --command 'exit 7' goes on"
    assert f"the command ended with 7; barnabas restart: no other node has been touched; {again}" in err


def _active(cluster: LocalCluster) -> tuple[str, str]:
    """The active controller and its epoch."""
    status = tool(cluster, "metadata-quorum", "describe", "--status")
    leader, epoch = (re.search(rf"{name}: +(\d+)", status) for name in ("LeaderId", "LeaderEpoch"))
    assert leader is not None
    assert epoch is not None
    return leader[1], epoch[1]


@pytest.mark.slow
def test_all_nodes_are_restarted_under_load(tmp_path: Path) -> None:
    """M-D8, M-D9: every record is acknowledged by acks=all, none is lost, none comes twice at another offset."""
    with running(tmp_path) as cluster:
        flags = ("--partitions", "3", "--replication-factor", "3", "--config", "min.insync.replicas=2")
        tool(cluster, "topics", "--create", "--topic", "load", *flags)
        load = Load(cluster.servers, "load")
        load.start()
        try:
            load.wait_for_more()
            code, out, err = result(typed(cluster, "restart", "--rolling"))
            assert (code, err) == (0, ""), out
            load.wait_for_more()
        finally:
            load.stop()
        assert load.failed == []
        ends = {
            partition: 1 + max(offset for number, offset in load.acknowledged if number == partition)
            for partition in range(3)
        }
        found = read_back(cluster.servers, "load", ends)
        assert {key: found.get(key) for key in load.acknowledged} == load.acknowledged
