"""The voters of the configuration, and the registration of this node's controller."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.ids import Uuid
from barnabas.base.java_order import hash_map_order
from barnabas.base.units import NS_PER_MS
from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.raft.options import QuorumOptions
from barnabas.raft.voter_history import VoterHistory
from barnabas.raft.voters import Voter, VoterEndpoint, Voters
from barnabas.runtime.network.network import Address

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
LOCALHOST = "localhost"
# Bootstrap servers are numbered downwards from here.
FIRST_BOOTSTRAP_ID = -2
# Apache Kafka's controller creates the map of its features with one bucket; with six features it has eight.
_FEATURE_BUCKETS = 1


def quorum_options(node: Node) -> QuorumOptions:
    """Returns the timeouts of the quorum, and where to find it."""
    settings = node.settings
    return QuorumOptions(
        election_timeout_ns=settings["controller.quorum.election.timeout.ms"] * NS_PER_MS,
        fetch_timeout_ns=settings["controller.quorum.fetch.timeout.ms"] * NS_PER_MS,
        election_backoff_max_ns=settings["controller.quorum.election.backoff.max.ms"] * NS_PER_MS,
        request_timeout_ns=settings["controller.quorum.request.timeout.ms"] * NS_PER_MS,
        retry_backoff_ns=settings["controller.quorum.retry.backoff.ms"] * NS_PER_MS,
        bootstrap_ids=tuple(bootstrap_addresses(node)),
        # Only controllers vote.
        auto_join=node.is_controller and settings["controller.quorum.auto.join.enable"],
    )


def static_voters(node: Node) -> Voters:
    """Returns the voters of `controller.quorum.voters`; none for a dynamic quorum."""
    listener = node.listeners.controller_names[0] if node.listeners.controller_names else ""
    return Voters(
        Voter(voter_id, endpoints=(VoterEndpoint(listener, address.host, address.port),))
        for voter_id, address in node.voters.items()
    )


def bootstrap_addresses(node: Node) -> dict[int, Address]:
    """Returns the servers of `controller.quorum.bootstrap.servers` under ids that no node has."""
    return {
        FIRST_BOOTSTRAP_ID - index: Address(server.host, server.port)
        for index, server in enumerate(node.bootstrap_servers)
    }


def check_voters(history: VoterHistory, node: Node, directory_id: Uuid) -> None:
    """Raises if this node cannot find its quorum, or is a voter with another directory."""
    voters = history.voters
    if not len(voters) and not node.bootstrap_servers:
        raise ConfigError(
            "there are no voters, and no controller.quorum.bootstrap.servers to find them at; set it, or"
            " format this node with --standalone"
        )
    voter = voters.get(node.node_id)
    is_alone = voter is not None and len(voters) == 1
    if is_alone and not voters.has(node.node_id, directory_id):
        raise ConfigError(
            f"voter {node.node_id} has another directory id than {directory_id}; start it with that"
            " log directory"
        )


def own_voter(voters: Voters, node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]) -> Voter:
    """Returns how this node describes itself to the others; without addresses it stays as configured."""
    configured = voters.get(node_id)
    if configured is not None and not all(endpoint.host and endpoint.port for endpoint in endpoints):
        return Voter(node_id, directory_id, configured.endpoints)
    voter_endpoints = tuple(
        VoterEndpoint(endpoint.listener_name, endpoint.host or "", endpoint.port) for endpoint in endpoints
    )
    return Voter(node_id, directory_id, voter_endpoints)


def registration_request(
    node_id: int,
    incarnation_id: Uuid,
    endpoints: Sequence[Endpoint],
    features: dict[str, tuple[int, int]],
) -> ControllerRegistrationRequest:
    """Returns the registration of a controller (KIP-919)."""
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=[
            ControllerRegistrationRequest.Listener(
                name=endpoint.listener_name,
                host=endpoint.host or LOCALHOST,
                port=endpoint.port,
                security_protocol=SECURITY_PROTOCOLS[endpoint.security_protocol],
            )
            for endpoint in endpoints
        ],
        features=[
            ControllerRegistrationRequest.Feature(
                name=name, min_supported_version=features[name][0], max_supported_version=features[name][1]
            )
            for name in hash_map_order(features, _FEATURE_BUCKETS)
        ],
    )
