"""A cluster in ZooKeeper mode: three servers of ZooKeeper and two brokers, started, broken and stopped by
commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.framework.exits import Exit
from barnabas.runtime.loop.reactor_thread import wait_until
from tests.cli.cluster.local_cluster import PATIENCE_S, LocalCluster
from tests.cli.cluster.test_replicas import described, in_sync, tool
from tests.cli.cluster.test_upkeep import pids, result, typed
from tests.ensemble import why_no_zookeeper
from tools.ports import free_run

pytestmark = [
    pytest.mark.xdist_group("zookeeper cluster"),
    pytest.mark.skipif(why_no_zookeeper() is not None, reason=str(why_no_zookeeper())),
]

NAMES: list[int | str] = ["zk-1", "zk-2", "zk-3", 1, 2]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("zookeeper"))
    given = ["--mode", "zookeeper", "--brokers", "2", "--zookeepers", "3", "--port", str(free_run(11)[0])]
    started = cluster.start("up", "--timeout", str(PATIENCE_S), *given)
    assert started.code == 0, started.err + started.out
    yield cluster
    cluster.run("down", "--delete", "--timeout", "20")


def active(cluster: LocalCluster) -> tuple[int, int] | None:
    """The controller and its epoch."""
    for node_id, row in cluster.status().items():
        if row.get("epoch") is not None:
            return node_id, row["epoch"]
    return None


def test_servers_and_brokers_are_shown(cluster: LocalCluster) -> None:  # M-B1
    rows = cluster.status()
    assert list(rows) == NAMES
    assert {row["state"] for row in rows.values()} == {"up"}
    assert sorted(rows[name]["mode"] for name in NAMES[:3]) == ["follower", "follower", "leader"]
    assert [rows[name]["roles"] for name in NAMES] == [["zookeeper"]] * 3 + [["broker"]] * 2
    assert active(cluster) in {(1, 1), (2, 1)}
    again = cluster.start("up", "--mode", "zookeeper")
    assert again.code == 0
    assert f"node zk-1 is up already (pid {rows['zk-1']['pid']})" in again.out


def test_the_size_and_the_mode_stay(cluster: LocalCluster) -> None:
    for flags, said in (
        (["--mode", "kraft"], "--mode zookeeper"),
        (["--zookeepers", "1"], "--zookeepers 3"),
        (["--brokers", "3"], "--brokers 2"),
    ):
        refused = cluster.start("up", *flags)
        assert (refused.code, refused.out) == (Exit.FAILED, "")
        assert f"was created with {said}" in refused.err


def test_topics_are_in_zookeeper(cluster: LocalCluster) -> None:  # M-B2
    given = ["--bootstrap-server", cluster.servers, "--topic", "local"]
    created = cluster.barnabas("topics", "--create", "--partitions", "4", "--replication-factor", "2", *given)
    assert created.code == 0, created.err
    shell = cluster.barnabas(
        "zookeeper-shell", cluster.status()["zk-1"]["zookeeper"], "ls", "/brokers/topics"
    )
    assert shell.out.endswith("\n[local]\n")
    described = cluster.barnabas("topics", "--describe", *given)
    assert described.out.count("Elr: N/A\tLastKnownElr: N/A\n") == 4


def test_a_broker_and_a_server_are_killed_and_come_back(cluster: LocalCluster) -> None:  # M-B3
    before = active(cluster)
    assert before is not None
    controller, epoch = before
    leader = next(name for name in ("zk-1", "zk-2", "zk-3") if cluster.status()[name]["mode"] == "leader")
    killed = cluster.run("kill", leader, str(controller))
    assert killed.code == 0, killed.err
    rows = cluster.status()
    assert rows[leader]["state"] == rows[controller]["state"] == "killed"
    other = 3 - controller
    assert wait_until(lambda: active(cluster) == (other, epoch + 1), PATIENCE_S), active(cluster)
    started = cluster.start("start", leader, str(controller), "--timeout", str(PATIENCE_S))
    assert started.code == 0, started.out + started.err
    assert {row["state"] for row in cluster.status().values()} == {"up"}
    assert active(cluster) == (other, epoch + 1)


def test_a_server_is_stopped_cleanly(cluster: LocalCluster) -> None:
    assert cluster.run("stop", "zk-2").code == 0
    assert cluster.status()["zk-2"]["state"] == "stopped"
    assert cluster.start("start", "zk-2").code == 0
    assert cluster.status()["zk-2"]["state"] == "up"


def test_brokers_are_restarted_one_after_another_the_controller_last(cluster: LocalCluster) -> None:
    # M-B1 M-D9
    before, controller = pids(cluster), active(cluster)
    assert controller is not None
    code, out, err = result(typed(cluster, "restart", "--rolling"))
    assert (code, err) == (0, ""), out
    order = re.findall(r"^node (\d): restarted", out, re.M)
    assert order == [str(3 - controller[0]), str(controller[0])]
    after = pids(cluster)
    assert [name for name in NAMES if after[name] != before[name]] == [1, 2]
    assert in_sync(cluster, "local")


@pytest.mark.slow
def test_brokers_of_other_hosts_are_restarted_by_a_command(cluster: LocalCluster) -> None:
    """There is no metadata quorum to ask: /controller says which of them is the last."""
    before, controller = pids(cluster), active(cluster)
    assert controller is not None
    ours = f"{sys.executable} -m barnabas cluster"
    command = f"{ours} stop {{id}} && {ours} start {{id}}"
    code, out, err = result(typed(cluster, "restart", "--rolling", "--command", command))
    assert (code, err) == (0, ""), out
    order = re.findall(r"^node (\d): restarted", out, re.M)
    assert order == [str(3 - controller[0]), str(controller[0])]
    assert not {1, 2} & {name for name, pid in pids(cluster).items() if before[name] == pid}
    assert in_sync(cluster, "local")


def test_a_broker_is_drained(cluster: LocalCluster) -> None:  # M-D9
    code, _, err = result(typed(cluster, "drain", "2", "--yes"))
    assert (code, "local-0 has 2 replicas, and there is no other broker" in err) == (Exit.FAILED, True)
    tool(cluster, "topics", "--delete", "--topic", "local")
    tool(cluster, "topics", "--create", "--topic", "local", "--replica-assignment", "2,1")
    code, out, err = result(typed(cluster, "drain", "2", "--yes"))
    assert code == 0, err
    assert "broker 2: 1 of 1 replica moved\nbroker 2 has no replicas any more" in out
    assert described(cluster, "--topic", "local")["local-0"] == ("1", "1", "1")


def test_what_happened_is_told_in_order(cluster: LocalCluster) -> None:  # M-B3
    """By the files of both brokers: there is no metadata log."""
    events = cluster.timeline()
    epochs = [event["epoch"] for event in events if event["kind"] == "leader-elected"]
    assert epochs == sorted(epochs)
    assert len(epochs) > 1
    causes = {event["cause"] for event in events if event["kind"] == "partition-leader"}
    # Broker 1 or 2 was killed, and both have been restarted.
    assert causes & {f"the session of broker {number} has ended" for number in (1, 2)}
    assert {f"controlled shutdown of broker {number}" for number in (1, 2)} <= causes
    asked = cluster.barnabas("timeline", "--bootstrap-server", cluster.servers)
    assert (asked.code, asked.out) == (Exit.FAILED, "")
    assert asked.err.startswith("barnabas: a cluster in ZooKeeper mode has no metadata log; use barnabas ")


def test_partitions_without_fault_are_explained(cluster: LocalCluster) -> None:
    explained = cluster.barnabas("explain", "--partitions", "-b", cluster.servers)
    assert (explained.code, explained.err) == (0, "")
    assert explained.out == "2 partitions, 0 with a problem\n"


def test_unknown_servers(cluster: LocalCluster) -> None:
    refused = cluster.run("kill", "zk-4")
    assert refused.code == Exit.NOT_FOUND
    assert refused.err == "barnabas: the cluster has no zk-4; its nodes are zk-1, zk-2, zk-3, 1, 2\n"


@pytest.mark.parametrize(
    "flags",
    [
        ["--zookeepers", "3"],
        ["--mode", "zookeeper", "--controllers", "1"],
        ["--mode", "zk"],
        ["--zookeepers", "0"],
    ],
)
def test_flags_that_do_not_fit(tmp_path: Path, flags: list[str]) -> None:
    refused = LocalCluster(tmp_path).run("up", *flags)
    assert refused.code == Exit.USAGE
    assert refused.err.count("\n") == 1


def test_down_keeps_the_data_and_up_finds_it(cluster: LocalCluster) -> None:
    """The last test: it stops everything, brokers first."""
    down = cluster.run("down", "--timeout", str(PATIENCE_S))
    assert down.code == 0, down.out + down.err
    assert {row["state"] for row in cluster.status().values()} == {"stopped"}
    assert "no active controller: 0 of 3 ZooKeeper servers run, 2 are needed" in cluster.run("status").out
    alone = cluster.start("start", "1", "--timeout", "1")
    assert alone.code == Exit.TIMED_OUT
    assert "0 of 3 ZooKeeper servers run, and 2 are needed" in alone.out
    up = cluster.start("up", "--timeout", str(PATIENCE_S))
    assert up.code == 0, up.out + up.err
    listed = cluster.barnabas("topics", "--list", "--bootstrap-server", cluster.servers)
    assert listed.out == "local\n"
