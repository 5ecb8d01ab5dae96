"""Reassignments that need several brokers: the requests to a cluster of three, and the output."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.reassign_partitions.command import active_reassignments, generate, make_parser
from barnabas.cli.reassign_partitions.execute import cancel, execute
from barnabas.cli.reassign_partitions.verify import folder_line, verify
from barnabas.client.admin.log_dirs import ReplicaLogDir
from barnabas.client.admin.reassignments import Reassignment
from barnabas.client.errors import ReplicaNotAvailableError
from barnabas.client.model import Node, TopicPartition, TopicPartitionReplica
from barnabas.client.outcomes import Outcomes

MV0, MV1 = TopicPartition("mv", 0), TopicPartition("mv", 1)


class Cluster:
    """An admin client of three brokers with one topic, mv, on brokers 1 and 2."""

    def __init__(self, racks: tuple[str | None, ...] = (None, None, None)) -> None:
        self.nodes = [Node(number, "h", 9092, rack) for number, rack in enumerate(racks, 1)]
        self.replicas = {MV0: (1, 2), MV1: (2, 1)}
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.folders: dict[TopicPartitionReplica, ReplicaLogDir] = {}
        self.altered: dict[str, dict[str, str | None]] = {}
        self.asked: list[tuple[dict[TopicPartition, Any], bool]] = []
        self.folder_attempts = 0
        self.refusals: dict[TopicPartition, KafkaError] = {}

    def describe_cluster(self) -> Any:
        return SimpleNamespace(nodes=self.nodes)

    def describe_topics(self, names: Any) -> Outcomes[str, Any]:
        partitions = [
            SimpleNamespace(partition=one.partition, replicas=replicas)
            for one, replicas in self.replicas.items()
        ]
        return Outcomes({name: SimpleNamespace(name=name, partitions=partitions) for name in names})

    def list_partition_reassignments(self, partitions: Any = None) -> dict[TopicPartition, Reassignment]:
        return {one: move for one, move in self.moving.items() if partitions is None or one in partitions}

    def alter_partition_reassignments(
        self, targets: Any, *, allow_replication_factor_change: bool = True
    ) -> Outcomes[TopicPartition, None]:
        self.asked.append((dict(targets), allow_replication_factor_change))
        return Outcomes({one: self.refusals.get(one) for one in targets})

    def incremental_alter_configs(self, changes: Any) -> Outcomes[Any, None]:
        for resource, some in changes.items():
            self.altered.setdefault(resource.name, {}).update({one.name: one.value for one in some})
        return Outcomes(dict.fromkeys(changes))

    def describe_replica_log_dirs(self, replicas: Any) -> Outcomes[Any, ReplicaLogDir]:
        return Outcomes({one: self.folders[one] for one in replicas})

    def alter_replica_log_dirs(self, moves: Any) -> Outcomes[Any, None]:
        self.folder_attempts += 1
        late = self.folder_attempts < 3
        return Outcomes({one: ReplicaNotAvailableError("not here yet") if late else None for one in moves})

    def call(self, work: Any) -> None:
        work(None).close()


@pytest.fixture
def plan(tmp_path: Path) -> Any:
    """Options for a plan with these partitions."""

    def options(partitions: list[dict[str, Any]], *flags: str) -> Namespace:
        file = tmp_path / "plan.json"
        file.write_text(json.dumps({"version": 1, "partitions": partitions}), "utf-8")
        return make_parser().parse(["--reassignment-json-file", str(file), *flags])

    return options


def part(number: int, *replicas: int, **more: Any) -> dict[str, Any]:
    return {"topic": "mv", "partition": number, "replicas": list(replicas), **more}


def test_active_reassignments_are_listed() -> None:
    cluster: Any = Cluster()
    cluster.moving = {MV1: Reassignment((3, 1, 2), (3,), (2,)), MV0: Reassignment((1, 2), (), ())}
    assert active_reassignments(cluster) == (
        "Current partition reassignments:\n"
        "mv-0: replicas: 1,2.\n"
        "mv-1: replicas: 3,1,2. adding: 3. removing: 2."
    )


def test_throttles_name_senders_and_receivers(
    plan: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster()
    execute(cluster, plan([part(0, 2, 3), part(1, 3, 1)], "--throttle", "1000"))
    # As recorded with three brokers of Apache Kafka.
    assert cluster.altered["mv"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
        "follower.replication.throttled.replicas": "0:3,1:3",
    }
    rates = {
        "leader.replication.throttled.rate": "1000",
        "follower.replication.throttled.rate": "1000",
    }
    assert cluster.altered["1"] == cluster.altered["2"] == cluster.altered["3"] == rates
    assert cluster.asked == [({MV0: (2, 3), MV1: (3, 1)}, True)]
    assert capsys.readouterr().out.endswith(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
        "throttle is removed.\n"
        "The inter-broker throttle limit was set to 1000 B/s\n"
        "Successfully started partition reassignments for mv-0,mv-1\n"
    )


def test_active_reassignments_require_additional(plan: Callable[..., Any]) -> None:
    cluster: Any = Cluster()
    cluster.moving = {MV1: Reassignment((3, 1, 2), (3,), (2,))}
    with pytest.raises(CommandError, match="there is an existing partition assignment"):
        execute(cluster, plan([part(0, 2, 3)]))
    assert not cluster.asked
    execute(cluster, plan([part(0, 2, 3)], "--additional", "--throttle", "5"))
    # Active reassignments are throttled, too.
    assert cluster.altered["mv"]["leader.replication.throttled.replicas"] == "0:1,0:2,1:1,1:2"
    assert cluster.asked == [({MV0: (2, 3)}, True)]


def test_the_number_of_replicas_may_be_protected(plan: Callable[..., Any]) -> None:
    cluster: Any = Cluster()
    execute(cluster, plan([part(0, 1, 2, 3)], "--disallow-replication-factor-change"))
    assert cluster.asked == [({MV0: (1, 2, 3)}, False)]


def test_each_error_has_its_line(plan: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    cluster: Any = Cluster()
    cluster.refusals = {
        MV0: KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no place"),
        MV1: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition"),
    }
    with pytest.raises(CommandError, match="mv-1: no partition") as caught:
        execute(cluster, plan([part(0, 3), part(1, 3)]))
    assert caught.value.code is Exit.NOT_FOUND
    assert capsys.readouterr().err == "Error reassigning partition(s):\nmv-0: no place\n"


def test_a_log_dir_move_is_retried_until_the_replica_exists(
    plan: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster()
    execute(cluster, plan([part(0, 3, log_dirs=["/d"])]))
    assert cluster.folder_attempts == 3
    assert "Successfully started moving log directory to /d for replica mv-0 with broker 3" in (
        capsys.readouterr().out
    )


def test_the_wait_is_bounded(plan: Callable[..., Any]) -> None:
    cluster: Any = Cluster()
    cluster.folder_attempts = -1_000_000
    with pytest.raises(
        CommandError, match="Timed out before log directory move could be started for: mv-0-3"
    ):
        execute(cluster, plan([part(0, 3, log_dirs=["/d"])], "--timeout", "0"))


def test_reassignments_are_cancelled_and_throttles_removed(
    plan: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster()
    cluster.moving = {
        MV0: Reassignment((1, 2, 3), (3,), ()),
        TopicPartition("x", 0): Reassignment((1,), (), ()),
    }
    replica = TopicPartitionReplica("mv", 1, 2)
    cluster.folders = {replica: ReplicaLogDir("/old", 0, "/new", 5)}
    cluster.folder_attempts = 2
    cancel(cluster, plan([part(0, 1, 2, 3), part(1, 2, log_dirs=["/new"])]))
    assert cluster.asked == [({MV0: None}, True)]
    assert set(cluster.altered) == {"1", "2", "3", "mv"}
    assert capsys.readouterr().out == (
        "Successfully cancelled partition reassignment for: mv-0\n"
        "Successfully started moving log directory to /old for replica mv-1 with broker 2 \n"
        "Clearing broker-level throttles on brokers 1,2,3\n"
        "Clearing topic-level throttles on topic mv\n"
    )


def test_throttles_stay_during_reassignments(
    plan: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster()
    cluster.moving = {MV0: Reassignment((1, 2, 3), (3,), ())}
    verify(cluster, plan([part(0, 2, 3), part(1, 3, 1)]))
    assert not cluster.altered
    assert capsys.readouterr().out == (
        "Status of partition reassignment:\n"
        "Reassignment of partition mv-0 is still in progress.\n"
        "There is no active reassignment of partition mv-1, but replica set is 2,1 rather than 3,1.\n\n"
    )


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (ReplicaLogDir(None, -1, None, -1), "is not found in any live log dir on broker 2."),
        (ReplicaLogDir("/a", 0, "/to", 1), "Reassignment of replica mv-0-2 is still in progress."),
        (ReplicaLogDir("/a", 0, "/b", 1), "is being moved to log dir /b instead of /to."),
        (ReplicaLogDir("/to", 0, None, -1), "Reassignment of replica mv-0-2 completed successfully."),
        (ReplicaLogDir("/a", 0, None, -1), "is not being moved from log dir /a to /to."),
    ],
)
def test_the_progress_of_a_replica_move(state: Any, line: str) -> None:
    assert line in folder_line(TopicPartitionReplica("mv", 0, 2), state, "/to")


def generated(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str
) -> list[list[int]]:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "mv"}]}', "utf-8")
    flags = ("--topics-to-move-json-file", str(file), "--broker-list", "2,3", *flags)
    generate(cluster, make_parser().parse(flags))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert lines[3] == "Proposed partition reassignment configuration"
    return [one["replicas"] for one in json.loads(lines[4])["partitions"]]


def test_a_plan_is_proposed_for_the_brokers_that_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proposed = generated(Cluster(), tmp_path, capsys)
    assert [sorted(replicas) for replicas in proposed] == [[2, 3], [2, 3]]
    assert proposed[0] != proposed[1]


def test_racks_of_only_some_brokers_are_refused_unless_racks_are_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster: Any = Cluster(("r1", "r2", None))
    with pytest.raises(CommandError, match="Not all brokers have rack information"):
        generated(cluster, tmp_path, capsys)
    assert len(generated(cluster, tmp_path, capsys, "--disable-rack-aware")) == 2
