"""Calls about the cluster: nodes, features, the metadata quorum, API versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from barnabas import __version__
from barnabas.base.ids import Uuid
from barnabas.base.topic_names import CLUSTER_METADATA
from barnabas.client.admin.calls import AdminCalls, operations
from barnabas.client.errors.base import RetriableError, check
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.client.errors.local import NoBrokersError
from barnabas.client.login.handshake import SOFTWARE_NAME
from barnabas.client.model import Node
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.schema import Versions
from barnabas.security.acls import Operation


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The nodes of a cluster, and its id."""

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: tuple[Operation, ...] | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """Finalized levels, with the epoch of the last change, and the levels that a node supports."""

    finalized: Mapping[str, tuple[int, int]]
    finalized_epoch: int
    supported: Mapping[str, tuple[int, int]]


class UpgradeType(IntEnum):
    """Whether, and how, a feature's level may be lowered."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A new level; 0 disables the feature."""

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer; times are None if the leader does not know them."""

    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int | None
    last_caught_up_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a voter listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumInfo:
    """The metadata quorum: its leader, voters and observers."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[Endpoint, ...]]


class ClusterCalls(AdminCalls):
    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_ms: int | None = None,
    ) -> ClusterDescription:
        """Return the brokers, or the controllers if the client was given `bootstrap.controllers`."""
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=include_authorized_operations,
            endpoint_type=self.cluster.endpoint_type,
            include_fenced_brokers=include_fenced_brokers,
        )
        try:
            response = await self._send_to_any(request, DescribeClusterResponse, timeout_ms)
        except UnsupportedVersionError:
            if include_fenced_brokers:
                raise
            return await self._describe_by_metadata(timeout_ms)
        check(response.error_code, response.error_message)
        nodes = tuple(
            Node(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
            for broker in response.brokers
        )
        return ClusterDescription(
            response.cluster_id,
            next((node for node in nodes if node.id == response.controller_id), None),
            nodes,
            _operations(response.cluster_authorized_operations),
        )

    async def _describe_by_metadata(self, timeout_ms: int | None) -> ClusterDescription:
        """Fallback for brokers without DescribeCluster."""
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        response = await self._send_to_any(request, MetadataResponse, timeout_ms)
        nodes = tuple(
            Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        )
        controller = next((node for node in nodes if node.id == response.controller_id), None)
        return ClusterDescription(response.cluster_id, controller, nodes)

    async def describe_features(
        self, *, node_id: int | None = None, timeout_ms: int | None = None
    ) -> Features:
        """Return the cluster's features as reported by the given node, or by any."""
        deadline = self._deadline(timeout_ms)
        find = self.cluster.any_connection if node_id is None else lambda: self.cluster.connection_to(node_id)

        async def attempt() -> ApiVersionsResponse:
            request = ApiVersionsRequest(
                client_software_name=SOFTWARE_NAME, client_software_version=__version__
            )
            return await (await find()).send(request, ApiVersionsResponse)

        response = await self.cluster.retries.until(deadline, "ApiVersions", attempt)
        check(response.error_code)
        return Features(
            {
                feature.name: (feature.min_version_level, feature.max_version_level)
                for feature in response.finalized_features
            },
            response.finalized_features_epoch,
            {
                feature.name: (feature.min_version, feature.max_version)
                for feature in response.supported_features
            },
        )

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> None:
        """Set feature levels: all of them, or none."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._deadline(timeout_ms).left_ms,
            feature_updates=[
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name, max_version_level=update.max_version_level, upgrade_type=update.upgrade_type
                )
                for name, update in updates.items()
            ],
            validate_only=validate_only,
        )
        response = await self._send_to_controller(
            request,
            UpdateFeaturesResponse,
            timeout_ms,
            lambda outcome: check(outcome.error_code, outcome.error_message),
        )
        for result in response.results:
            check(result.error_code, result.error_message)

    async def describe_metadata_quorum(self, *, timeout_ms: int | None = None) -> QuorumInfo:
        """Return the leader of the metadata quorum and the progress of its replicas."""
        topic = DescribeQuorumRequest.TopicData(
            topic_name=CLUSTER_METADATA,
            partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)],
        )
        response = await self._send_to_controller(
            DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, timeout_ms, _check_code
        )
        quorum = response.topics[0].partitions[0]
        check(quorum.error_code, quorum.error_message or None)
        return QuorumInfo(
            quorum.leader_id,
            quorum.leader_epoch,
            quorum.high_watermark,
            tuple(map(_replica, quorum.current_voters)),
            tuple(map(_replica, quorum.observers)),
            {
                node.node_id: tuple(
                    Endpoint(listener.name, listener.host, listener.port) for listener in node.listeners
                )
                for node in response.nodes
            },
        )

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        endpoints: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Add a controller to the voters (KIP-853)."""
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._deadline(timeout_ms).left_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[
                AddRaftVoterRequest.Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                for endpoint in endpoints
            ],
        )
        await self._send_to_controller(request, AddRaftVoterResponse, timeout_ms, _check_code)

    async def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: Uuid,
        *,
        cluster_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Remove a controller from the voters (KIP-853)."""
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
        )
        await self._send_to_controller(request, RemoveRaftVoterResponse, timeout_ms, _check_code)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: int | None = None) -> None:
        """Remove the registration of a broker that will not come back."""
        request = UnregisterBrokerRequest(broker_id=broker_id)
        await self._send_to_controller(request, UnregisterBrokerResponse, timeout_ms, _check_code)

    async def describe_api_versions(
        self, *, timeout_ms: int | None = None
    ) -> dict[Node, Mapping[int, Versions] | NoBrokersError]:
        """Return the API versions that each node supports, by API key, or why it cannot be reached."""
        results: dict[Node, Mapping[int, Versions] | NoBrokersError] = {}
        for node in await self._brokers(timeout_ms):
            try:
                results[node] = (await self.cluster.pool.connection(node)).protocol.api_versions
            except RetriableError as error:
                results[node] = NoBrokersError(error.message)
        return results


def _replica(replica: DescribeQuorumResponse.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        replica.replica_id,
        replica.replica_directory_id,
        replica.log_end_offset,
        replica.last_fetch_timestamp if replica.last_fetch_timestamp >= 0 else None,
        replica.last_caught_up_timestamp if replica.last_caught_up_timestamp >= 0 else None,
    )


def _operations(bits: int) -> tuple[Operation, ...] | None:
    numbers = operations(bits)
    return None if numbers is None else tuple(Operation(number) for number in numbers)


class _WithError(Protocol):
    error_code: int
    error_message: str | None


def _check_code(response: _WithError) -> None:
    check(response.error_code, response.error_message or None)
