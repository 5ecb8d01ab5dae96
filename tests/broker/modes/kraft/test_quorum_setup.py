"""The quorum's options from a node's configuration."""

from __future__ import annotations

import pytest

from barnabas.broker.modes.kraft.quorum_setup import check_voters, quorum_options
from barnabas.config.errors import ConfigError
from barnabas.config.node.node import read_node
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import NO_VOTERS, Voters
from barnabas.testing.simulation.metadata_node import configuration
from tests.raft.leader_lab import described, directory

AUTO_JOIN = "controller.quorum.auto.join.enable"


def test_timeouts_are_converted() -> None:
    options = quorum_options(
        configuration(
            {
                "controller.quorum.election.timeout.ms": 1,
                "controller.quorum.fetch.timeout.ms": 2,
                "controller.quorum.election.backoff.max.ms": 3,
                "controller.quorum.request.timeout.ms": 4,
                "controller.quorum.retry.backoff.ms": 5,
            }
        )
    )
    assert [
        options.election_timeout_ns,
        options.fetch_timeout_ns,
        options.election_backoff_max_ns,
        options.request_timeout_ns,
        options.retry_backoff_ns,
    ] == [number * 1_000_000 for number in (1, 2, 3, 4, 5)]


def test_a_controller_may_join_by_itself() -> None:
    # Apache Kafka 4.2 introduced the option; it is off unless it is set.
    assert not quorum_options(configuration(dynamic=True)).auto_join
    assert quorum_options(configuration({AUTO_JOIN: "true"}, dynamic=True)).auto_join
    broker = {
        "process.roles": "broker",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "a:1,b:2",
        AUTO_JOIN: "true",
    }
    options = quorum_options(read_node(broker))
    assert not options.auto_join, "a broker is no voter"
    assert options.bootstrap_ids == (-2, -3)


def test_a_node_that_cannot_find_its_quorum() -> None:
    with pytest.raises(ConfigError, match=r"no controller\.quorum\.bootstrap\.servers"):
        check_voters(VoterHistory(NO_VOTERS, 1), configuration(), directory(1))
    check_voters(VoterHistory(NO_VOTERS, 1), configuration(dynamic=True), directory(1))


def test_the_only_voter_with_another_directory_cannot_be_elected() -> None:
    history = VoterHistory(Voters([described(1)]), 1)
    with pytest.raises(ConfigError, match="has another directory id than"):
        check_voters(history, configuration(dynamic=True), directory(2))
    check_voters(history, configuration(dynamic=True), directory(1))
    # Among several voters it is an observer, and may be added again (KIP-853).
    several = VoterHistory(Voters([described(1), described(2)]), 1)
    check_voters(several, configuration(dynamic=True), directory(9))
