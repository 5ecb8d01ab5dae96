"""Who votes, as the configuration says it, and how this node presents itself to the quorum."""

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
# Apache Kafka's controller begins the map of its features with one bucket; with six of them it has eight.
_FEATURE_BUCKETS = 1


def static_voters(node: Node) -> Voters:
    """The voters of `controller.quorum.voters`; none where a dynamic quorum keeps them itself."""
    listener = node.listeners.controller_names[0] if node.listeners.controller_names else ""
    return Voters(
        Voter(voter_id, endpoints=(VoterEndpoint(listener, address.host, address.port),))
        for voter_id, address in node.voters.items()
    )


def check_voters(voters: Voters, node: Node, directory_id: Uuid) -> None:
    """Refuse a quorum that this node does not decide alone: more are not built yet."""
    if voters.is_only(node.node_id, directory_id):
        return
    if not len(voters):
        raise ConfigError(
            "no voter is known: this node was formatted to join a quorum, and quorums of more than one"
            " controller are not built yet; format it with --standalone"
        )
    if node.node_id in voters.ids and len(voters) == 1:
        raise ConfigError(
            f"node {node.node_id} votes with another data folder than {directory_id}; start it on that folder"
        )
    raise ConfigError(
        f"the quorum has the voters {', '.join(map(str, voters.ids))}, and quorums of more than one"
        f" controller are not built yet; let node {node.node_id} be the only one"
    )


def own_voter(
    voters: Voters, kraft_version: int, node_id: int, directory_id: Uuid, endpoints: Sequence[Endpoint]
) -> Voter:
    """This node, as it is to stand among the voters.  Static ones stay as the configuration has them."""
    known = voters.get(node_id)
    assert known is not None, "it was checked that this node votes"
    reachable = all(end.host and end.port for end in endpoints)
    if kraft_version < DYNAMIC_QUORUM or not endpoints or not reachable:
        return known
    described = tuple(VoterEndpoint(end.listener_name, end.host or "", end.port) for end in endpoints)
    return Voter(node_id, directory_id, described)


def registration_request(
    node_id: int,
    incarnation_id: Uuid,
    endpoints: Sequence[Endpoint],
    features: dict[str, tuple[int, int]],
) -> ControllerRegistrationRequest:
    """What a controller tells of itself (KIP-919)."""
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=[
            ControllerRegistrationRequest.Listener(
                name=end.listener_name,
                host=end.host or LOCALHOST,
                port=end.port,
                security_protocol=SECURITY_PROTOCOLS[end.security_protocol],
            )
            for end in endpoints
        ],
        features=[
            ControllerRegistrationRequest.Feature(
                name=name, min_supported_version=features[name][0], max_supported_version=features[name][1]
            )
            for name in hash_map_order(features, _FEATURE_BUCKETS)
        ],
    )
