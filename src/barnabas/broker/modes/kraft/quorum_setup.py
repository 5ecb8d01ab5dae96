"""The voters of the configuration, and the registration of this node's controller."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.ids import Uuid
from barnabas.base.java_order import hash_map_order
from barnabas.config.errors import ConfigError
from barnabas.config.node.listeners import Endpoint
from barnabas.config.node.node import Node
from barnabas.protocol.messages.controller_registration import ControllerRegistrationRequest
from barnabas.raft.voters import DYNAMIC_QUORUM, Voter, VoterEndpoint, Voters

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
LOCALHOST = "localhost"
# Apache Kafka's controller creates the map of its features with one bucket; with six features it has eight.
_FEATURE_BUCKETS = 1


def static_voters(node: Node) -> Voters:
    """Returns the voters of `controller.quorum.voters`; none for a dynamic quorum."""
    listener = node.listeners.controller_names[0] if node.listeners.controller_names else ""
    return Voters(
        Voter(voter_id, endpoints=(VoterEndpoint(listener, address.host, address.port),))
        for voter_id, address in node.voters.items()
    )


def check_voters(voters: Voters, node: Node, directory_id: Uuid) -> None:
    """Raises unless this node is the only voter: larger quorums are not implemented."""
    if voters.is_only(node.node_id, directory_id):
        return
    if not len(voters):
        raise ConfigError(
            "there are no voters: this node was formatted to join a quorum, and quorums of more than one"
            " controller are not supported yet; format it with --standalone"
        )
    if node.node_id in voters.ids and len(voters) == 1:
        raise ConfigError(
            f"voter {node.node_id} has another directory id than {directory_id}; start it with that"
            " log directory"
        )
    raise ConfigError(
        f"the quorum has the voters {', '.join(map(str, voters.ids))}, and quorums of more than one"
        f" controller are not supported yet; make node {node.node_id} the only voter"
    )


def own_voter(
    voters: Voters, kraft_version: int, node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]
) -> Voter:
    """Returns this node as a voter.  Static voters stay as configured."""
    configured = voters.get(node_id)
    assert configured is not None, "check_voters has checked that this node is a voter"
    has_addresses = all(endpoint.host and endpoint.port for endpoint in endpoints)
    if kraft_version < DYNAMIC_QUORUM or not endpoints or not has_addresses:
        return configured
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
