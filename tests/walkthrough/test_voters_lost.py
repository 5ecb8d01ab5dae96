"""Voters are killed, paused and cut off: a majority goes on, a minority stops cleanly and comes back."""

from __future__ import annotations

import itertools
import signal
import socket
from functools import partial
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.errors import KafkaError
from barnabas.client.sync import Admin
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.frames import FrameReader
from tests.walkthrough.nodes import PATIENCE_S, Cluster, Node, cluster_of, combined, create, eventually
from tests.walkthrough.proxy import ProxiedControllers, Proxy


@pytest.mark.slow
def test_five_voters_go_on_with_two_killed_and_stop_with_three(tmp_path: Path) -> None:
    # M-C8 M-C5: the two that are left find no majority, again and again
    with cluster_of(tmp_path, combined(5), {"request.timeout.ms": "3000"}) as cluster:
        active = cluster.leader()
        standby = next(node_id for node_id in cluster.nodes if node_id != active)
        cluster[active].kill()
        cluster[standby].kill()
        left = [node.id for node in cluster.nodes.values() if node.is_up]
        with cluster.admin(*left) as admin:
            assert create(admin, "with-three") is None
            third = cluster.leader(of=left)
            cluster[third].kill()
        left.remove(third)
        with cluster.admin(*left, default_api_timeout_ms=8_000) as admin:
            error = _refused(admin, "with-two")
            assert error.code is ErrorCode.REQUEST_TIMED_OUT, error
        # Brokers serve what they have meanwhile, and no node has given up.
        with cluster.admin(*left) as admin:
            assert "with-three" in admin.list_topics()
        assert [node.id for node in cluster.nodes.values() if node.is_up] == left
        cluster.start(standby)
        with cluster.admin(*left) as admin:
            # The brokers' own timeout is short here: a request of before the election may fail, or take effect
            # after its timeout.
            again = "with-three-again"
            eventually(lambda: create(admin, again) is None or again in admin.list_topics())
            # Any of them is asked, also one that has not heard of it yet.
            eventually(lambda: {"with-three", again} <= set(admin.list_topics()))
        _agree(cluster, [*left, standby])


def _refused(admin: object, name: str) -> KafkaError:
    """The error of a topic that cannot be created, from the broker or by the client's own deadline."""
    try:
        error = create(admin, name)  # type: ignore[arg-type]
    except KafkaError as raised:
        return raised
    assert error is not None, "a minority has created a topic"
    return error


@pytest.mark.slow
def test_an_active_controller_that_stops_hands_over(tmp_path: Path) -> None:
    """EndQuorumEpoch: the others would wait for ten minutes before they miss it."""
    # M-C5 M-C7
    with cluster_of(tmp_path, combined(3), {"controller.quorum.fetch.timeout.ms": "600000"}) as cluster:
        active = cluster.leader()
        others = [node_id for node_id in cluster.nodes if node_id != active]
        assert cluster[active].stop() == 0
        with cluster.admin(*others) as admin:
            assert create(admin, "after-the-stop") is None
        assert cluster.leader(of=others) in others


@pytest.mark.slow
def test_a_paused_active_controller_is_replaced_and_steps_down(tmp_path: Path) -> None:
    """SIGSTOP: the leader is silent for longer than the fetch timeout, and believes to lead when it resumes."""
    # M-C8 M-C5
    with cluster_of(tmp_path, combined(3), {"request.timeout.ms": "600000"}) as cluster:
        active = cluster.leader()
        others = [node_id for node_id in cluster.nodes if node_id != active]
        with _admin_through(cluster, others) as admin:
            cluster[active].signal(signal.SIGSTOP)
            try:
                # A broker does not wait for the paused controller's response once there is another one.
                assert create(admin, "while-paused") is None
            finally:
                cluster[active].signal(signal.SIGCONT)
        with cluster.admin(active) as admin:
            assert create(admin, "after-pause") is None
        _agree(cluster, list(cluster.nodes))


def _admin_through(cluster: Cluster, node_ids: list[int]) -> Admin:
    """A client that sends requests for the controller to one of these brokers.

    Brokers name one of themselves at random; a client waits for that one as long as its request timeout.
    """

    numbers = itertools.count()

    def opened() -> Admin | None:
        admin = cluster.admin(*node_ids, request_timeout_ms=60_000)
        assert create(admin, f"before-{next(numbers)}") is None
        if admin._client.cluster.metadata.controller_id in node_ids:
            return admin
        admin.close()
        return None

    return eventually(opened)


@pytest.mark.slow
def test_a_minority_of_one_cannot_change_anything(tmp_path: Path) -> None:
    # M-C8
    with cluster_of(tmp_path, combined(3), {"request.timeout.ms": "3000"}) as cluster:
        active = cluster.leader()
        others = [node_id for node_id in cluster.nodes if node_id != active]
        for node_id in others:
            cluster[node_id].signal(signal.SIGSTOP)
        try:
            with cluster.admin(active, default_api_timeout_ms=8_000) as admin:
                error = _refused(admin, "alone")
                assert error.code is ErrorCode.REQUEST_TIMED_OUT, error
        finally:
            for node_id in others:
                cluster[node_id].signal(signal.SIGCONT)
        with cluster.admin() as admin:
            assert create(admin, "together") is None
        _agree(cluster, list(cluster.nodes))


@pytest.mark.slow
def test_a_minority_that_is_cut_off_changes_nothing(tmp_path: Path) -> None:
    """The active controller and another voter reach each other and nobody else; three go on without them."""
    # M-C8 M-C4
    short = {"request.timeout.ms": "3000"}
    with ProxiedControllers(tmp_path, 5, dict.fromkeys(range(1, 6), short)) as proxied:
        cluster = proxied.cluster
        active = cluster.leader()
        minority = [active, next(node_id for node_id in cluster.nodes if node_id != active)]
        majority = [node_id for node_id in cluster.nodes if node_id not in minority]
        proxied.part(minority, majority)
        # The old leader writes it into its log, cannot commit it, and resigns; the other one finds no leader.
        for node_id in minority:
            assert _creates(cluster[node_id], f"minority-{node_id}") is ErrorCode.REQUEST_TIMED_OUT
        for node_id in majority:
            name = f"majority-{node_id}"
            eventually(partial(_has_created, cluster[node_id], name))
        proxied.part()
        _agree(cluster, list(cluster.nodes))
        with cluster.admin(*minority) as admin:
            wanted = {f"majority-{node_id}" for node_id in majority}
            eventually(lambda: set(admin.list_topics()) == wanted)


def _has_created(node: Node, name: str) -> bool:
    return _creates(node, name) in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def _starts_after(node: Node, offset: int) -> bool:
    return _offsets(node, "*.log")[0] > offset


def _creates(node: Node, name: str) -> ErrorCode:
    """What this very broker answers; a client would go to another one."""
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    request = write_request(CreateTopicsRequest(topics=[topic]), 7, 1, "walkthrough")
    with socket.create_connection(("127.0.0.1", node.port), PATIENCE_S) as connection:
        connection.sendall(request)
        reader = FrameReader()
        frames: list[bytes] = []
        while not frames:
            data = connection.recv(1 << 16)
            assert data, f"node {node.id} closed the connection"
            frames = reader.feed(data)
    _, response = read_response(frames[0], api(19), 7)
    assert isinstance(response, CreateTopicsResponse)
    return ErrorCode(response.topics[0].error_code)


@pytest.mark.slow
def test_a_leader_that_nobody_reaches_is_replaced(tmp_path: Path) -> None:
    """A one-way cut (KAFKA-15489): the leader's own requests arrive, but no request arrives at the leader."""
    # cluster.md 18
    # M-C8 M-C7
    with ProxiedControllers(tmp_path, 3) as proxied:
        cluster = proxied.cluster
        active = cluster.leader()
        others = [node_id for node_id in cluster.nodes if node_id != active]
        proxied.proxies[active].cut = frozenset(others)
        with cluster.admin(*others) as admin:
            assert create(admin, "one-way") is None
        leader = cluster.leader(of=others)
        assert leader != active
        # The old leader can reach the new one: it follows, and its clients go on.
        with cluster.admin(active) as admin:
            assert create(admin, "through-the-old-leader") is None
        proxied.proxies[active].cut = frozenset()
        _agree(cluster, list(cluster.nodes))


@pytest.mark.slow
def test_a_follower_that_cannot_reach_the_leader_disturbs_nobody(tmp_path: Path) -> None:
    """Pre-vote (KIP-996): the others follow their leader, so the one that is cut off starts no new epoch."""
    # cluster.md 26
    # M-C7
    with ProxiedControllers(tmp_path, 3) as proxied:
        cluster = proxied.cluster
        active = cluster.leader()
        lonely, other = (node_id for node_id in cluster.nodes if node_id != active)
        with cluster.admin(active, other) as admin:
            before = cluster.leader_and_epoch(of=[active, other])
            proxied.proxies[active].cut = frozenset({lonely})
            for number in range(5):
                _vote_again(proxied.proxies[other], lonely)
                assert create(admin, f"undisturbed-{number}") is None
        assert cluster.leader_and_epoch(of=[active, other]) == before
        proxied.proxies[active].cut = frozenset()
        _agree(cluster, list(cluster.nodes))


def _vote_again(proxy: Proxy, node_id: int) -> None:
    """Waits until this node has requested one more vote."""
    votes = proxy.votes_of(node_id)
    eventually(lambda: proxy.votes_of(node_id) > votes)


def _agree(cluster: Cluster, node_ids: list[int]) -> None:
    """The metadata logs of these nodes become equal, byte for byte."""
    # M-C4 M-C11
    eventually(lambda: len({_log(cluster[node_id]) for node_id in node_ids}) == 1, "the logs differ")


def _log(node: Node) -> bytes:
    return (node.data / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes().rstrip(b"\0")


@pytest.mark.slow
def test_a_voter_that_was_away_for_long_gets_a_snapshot(tmp_path: Path) -> None:
    """FetchSnapshot: what it missed is no longer in the leader's log, which begins after a snapshot."""
    # M-C3 M-C7 M-C11
    options = {
        "metadata.log.max.record.bytes.between.snapshots": "2000",
        "metadata.max.retention.bytes": "4000",
        "internal.metadata.log.segment.bytes": "2000",
        "internal.metadata.delete.delay.millis": "100",
    }
    with cluster_of(tmp_path, combined(3), options) as cluster:
        active = cluster.leader()
        away = next(node_id for node_id in cluster.nodes if node_id != active)
        cluster[away].kill()
        others = [node_id for node_id in cluster.nodes if node_id != away]
        with cluster.admin(*others) as admin:
            for number in range(40):
                assert create(admin, f"topic-{number}") is None
        end_offset = _offsets(cluster[away], "*.log")[-1]
        # Looked for every minute, as in Apache Kafka.
        for node_id in others:
            eventually(partial(_starts_after, cluster[node_id], end_offset), patience_s=200)
        known = _offsets(cluster[away], "*.checkpoint")
        cluster.start(away)
        eventually(lambda: _offsets(cluster[away], "*.log")[0] > end_offset, "it fetched no snapshot")
        assert _offsets(cluster[away], "*.checkpoint")[-1] > known[-1]
        cluster[away].says(" serves ")
        # It has the metadata, and counts: the quorum goes on without the active controller.
        cluster[cluster.leader(of=others)].kill()
        with cluster.admin(away) as admin:
            assert create(admin, "after") is None
            assert {"after", *(f"topic-{number}" for number in range(40))} <= set(admin.list_topics())


def _offsets(node: Node, pattern: str) -> list[int]:
    """The offsets that name the files of its metadata log."""
    return sorted(int(path.name[:20]) for path in (node.data / "__cluster_metadata-0").glob(pattern))
