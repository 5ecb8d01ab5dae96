"""10,000 partitions with three replicas on three brokers and three controllers apart.

In each round: kill -9 of a broker that leads a third of them, until a record of each was acknowledged by
another; its restart, until all replicas are in sync; kill -9 of the active controller, until a topic can be
created; its restart, until it has the whole metadata log.  Both clusters run all the time; sessions are 3 s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench.apache import APACHE
from bench.cluster_load import create, is_whole, wait_for
from bench.clusters import BROKERS, PATIENCE_S, Cluster, make_clusters
from bench.registry import Contender, Workbench, row

PARTITIONS = int(os.environ.get("BARNABAS_BENCH_PARTITIONS", "10000"))
PARTITIONS_PER_TOPIC = 10
TOPICS_PER_REQUEST = 100
SESSION_S = 3
SETTINGS = {
    "broker.session.timeout.ms": str(1000 * SESSION_S),
    "broker.heartbeat.interval.ms": "500",
    "log.segment.delete.delay.ms": "60000",
}
PRODUCE_VERSION = 9
ELECT_VERSION = 2
PRODUCED_AT_ONCE = 100
PRODUCE_TIMEOUT_MS = 2_000
# To ask for all metadata takes a part of a second itself.
RETRY_S = 0.1

Partition = tuple[str, int]


def names() -> list[str]:
    return [f"many-{number}" for number in range(PARTITIONS // PARTITIONS_PER_TOPIC)]


def fill(cluster: Cluster) -> None:
    """Creates the partitions; each takes a record."""
    wanted = names()
    for first in range(0, len(wanted), TOPICS_PER_REQUEST):
        create(cluster, wanted[first : first + TOPICS_PER_REQUEST], PARTITIONS_PER_TOPIC)
    await_whole(cluster)
    write_to_all(
        cluster, [(name, index) for name in wanted for index in range(PARTITIONS_PER_TOPIC)], BROKERS
    )


def await_whole(cluster: Cluster) -> None:
    """First a few topics are asked for: the metadata of all would slow the cluster down."""
    some = names()[:: max(1, PARTITIONS // PARTITIONS_PER_TOPIC // 10)]
    wait_for(lambda: is_whole(cluster, some), "some partitions are not in sync")
    wait_for(lambda: is_whole(cluster, names()), "not all partitions are in sync", RETRY_S)


def led_by(cluster: Cluster, broker_id: int) -> list[Partition]:
    return [
        (topic.name or "", partition.partition_index)
        for topic in cluster.metadata(names()).topics
        for partition in topic.partitions
        if partition.leader_id == broker_id
    ]


# Writing ----------------------------------------------------------------------------------------------------


def write_to_all(cluster: Cluster, partitions: Sequence[Partition], brokers: Sequence[int]) -> None:
    """Until each has acknowledged a record, from whichever of the brokers leads it."""
    left = list(partitions)
    until = time.monotonic() + PATIENCE_S
    while left:
        for broker_id in brokers:
            left = refused(cluster, broker_id, left)
        assert time.monotonic() < until, f"{len(left)} partitions take no records after {PATIENCE_S} s"


def refused(cluster: Cluster, broker_id: int, partitions: Sequence[Partition]) -> list[Partition]:
    """Those that this broker does not acknowledge."""
    batch = bytes(build([Record(0, time.time_ns() // 1_000_000, b"key", b"v" * 100)]))
    left: list[Partition] = []
    with cluster.connect(broker_id) as connection:
        for first in range(0, len(partitions), PRODUCED_AT_ONCE):
            request = produce_request(partitions[first : first + PRODUCED_AT_ONCE], batch)
            response = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
            left += [
                (topic.name, one.index)
                for topic in response.responses
                for one in topic.partition_responses
                if one.error_code
            ]
    return left


def produce_request(partitions: Sequence[Partition], batch: bytes) -> ProduceRequest:
    by_topic: dict[str, list[ProduceRequest.PartitionProduceData]] = {}
    for name, index in partitions:
        data = ProduceRequest.PartitionProduceData(index=index, records=batch)
        by_topic.setdefault(name, []).append(data)
    return ProduceRequest(
        acks=-1,
        timeout_ms=PRODUCE_TIMEOUT_MS,
        topic_data=[
            ProduceRequest.TopicProduceData(name=name, partition_data=data) for name, data in by_topic.items()
        ],
    )


# Rounds -----------------------------------------------------------------------------------------------------


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def run(cluster: Cluster) -> dict[str, float]:
    values = {"rss": cluster.rss_bytes / 1e6}
    prefer_leaders(cluster)
    values |= kill_broker(cluster)
    values |= kill_controller(cluster)
    return values


def kill_broker(cluster: Cluster) -> dict[str, float]:
    victim = cluster.brokers[BROKERS[-1]]
    led = led_by(cluster, victim.id)
    assert len(led) >= PARTITIONS // 4, f"broker {victim.id} leads only {len(led)} partitions"
    others = BROKERS[:-1]
    started = time.perf_counter()
    victim.kill()
    write_to_all(cluster, led, others)
    failover = time.perf_counter() - started

    def restart() -> None:
        victim.launch()
        cluster.await_brokers(BROKERS)
        await_whole(cluster)

    return {"failover": failover, "after session": failover - SESSION_S, "restart": seconds(restart)}


def prefer_leaders(cluster: Cluster) -> None:
    """The first replicas lead, also if brokers were fenced while the other cluster had the machine."""
    await_whole(cluster)
    enough = PARTITIONS // 4
    wait_for(
        lambda: _elect(cluster) and len(led_by(cluster, BROKERS[-1])) >= enough, "leaders do not move back", 1
    )
    await_whole(cluster)


def _elect(cluster: Cluster) -> bool:
    request = ElectLeadersRequest(topic_partitions=None, timeout_ms=PATIENCE_S * 1000)
    with cluster.connect() as connection:
        return not connection.ask(request, ELECT_VERSION, ElectLeadersResponse).error_code


def kill_controller(cluster: Cluster) -> dict[str, float]:
    victim = cluster.active_controller()
    name = f"made-{time.time_ns()}"
    started = time.perf_counter()
    victim.kill()
    wait_for(lambda: is_created(cluster, name), "no topic can be created")
    takeover = time.perf_counter() - started

    def restart() -> None:
        victim.launch()
        wait_for(lambda: is_caught_up(cluster, victim.id), f"controller {victim.id} is behind")

    return {"takeover": takeover, "controller restart": seconds(restart)}


def is_created(cluster: Cluster, name: str) -> bool:
    try:
        create(cluster, [name], 1)
    except AssertionError:
        return cluster.metadata([name]).topics[0].error_code == 0
    return True


def is_caught_up(cluster: Cluster, node_id: int) -> bool:
    """Whether it has what was committed when it was asked, and fetches."""
    quorum = cluster.quorum()
    if quorum is None:
        return False
    now_ms = time.time() * 1000
    return any(
        voter.replica_id == node_id
        and voter.log_end_offset >= quorum.high_watermark
        and now_ms - voter.last_fetch_timestamp < 2_000
        for voter in quorum.current_voters
    )


# A round of both takes minutes.
ROW = partial(
    row, unit="s", higher_is_better=False, goal=0.5, floor=1, against=APACHE, warm_up=False, rounds=3
)
SIZE = f"{PARTITIONS:,} partitions on three brokers"


@ROW(
    "cluster-partitions-failover",
    f"{SIZE}: kill -9 of one that leads a third, session {SESSION_S} s, until each has taken a record",
    value="failover",
    why=f"Both wait for the session of the killed broker first, {SESSION_S} s; the next row is without it.",
)
@ROW("cluster-partitions-takeover-of-leaders", f"{SIZE}: the same, less the session", value="after session")
@ROW(
    "cluster-partitions-restart",
    f"{SIZE}: start of the killed broker, until all are in sync",
    value="restart",
)
@ROW(
    "cluster-partitions-controller",
    f"{SIZE}: kill -9 of the active controller, until a topic was created",
    value="takeover",
    why="With six partitions it takes as long (`failover-creating`): the time is the quorum's own, which"
    " waits for controller.quorum.fetch.timeout.ms, 2 s in both, before it elects.",
)
@ROW(
    "cluster-partitions-controller-restart",
    f"{SIZE}: start of the killed controller, until it has the whole metadata log",
    value="controller restart",
    why="The rounds differ by more than the goal is missed by. The time is the node's own CPU, most of it for"
    " reading the records and replaying them twice, into the image of the node and of its controller; both"
    " take less since this was measured.",
)
@ROW("cluster-partitions-rss", f"{SIZE}: memory of all six nodes", unit="MB", goal=0.3, floor=1, value="rss")
def living(bench: Workbench) -> Mapping[str, Contender]:
    clusters = make_clusters(bench.scratch, bench.stack, SETTINGS, apart=True)
    for cluster in clusters.values():
        fill(cluster)
    return {name: partial(run, cluster) for name, cluster in clusters.items()}
