"""The admin client, one module an area; this package exports what its calls take and return."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.cluster_calls import (
        ClusterDescription,
        Endpoint,
        Features,
        FeatureUpdate,
        QuorumInfo,
        QuorumReplica,
        UpgradeType,
    )
    from barnabas.client.admin.configs import (
        AlterConfig,
        AlterOperation,
        ConfigEntry,
        ConfigResource,
        ConfigResourceType,
        ConfigSynonym,
        ConfigType,
    )
    from barnabas.client.admin.groups.group_model import (
        GroupDescription,
        GroupListing,
        GroupListings,
        GroupMember,
        ShareGroupOffset,
        StreamsGroupDescription,
        StreamsMember,
        StreamsSubtopology,
        StreamsTasks,
    )
    from barnabas.client.admin.groups.groups import MemberToRemove
    from barnabas.client.admin.log_dirs import LogDirDescription, ReplicaInLogDir, ReplicaLogDir
    from barnabas.client.admin.reassignments import ElectionType, Reassignment
    from barnabas.client.admin.records import IsolationLevel, ListedOffset, OffsetSpec, ProducerState
    from barnabas.client.admin.security.acls import AclBinding, AclBindingFilter
    from barnabas.client.admin.security.quotas import (
        QuotaAlteration,
        QuotaFilter,
        QuotaMatch,
        quota_entity,
    )
    from barnabas.client.admin.security.scram import ScramCredentialInfo, ScramDeletion, ScramUpsertion
    from barnabas.client.admin.security.tokens import DelegationToken, Principal
    from barnabas.client.admin.topics import (
        CreatedTopic,
        NewTopic,
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from barnabas.client.admin.transactions import (
        AbortTransactionSpec,
        FencedProducer,
        TransactionDescription,
        TransactionListing,
    )
    from barnabas.client.outcomes import Outcomes
    from barnabas.config.layers import ConfigSource
    from barnabas.metadata.scram import ScramMechanism
    from barnabas.security.acls import Operation, PatternType, Permission, ResourceType

__all__ = [
    "AbortTransactionSpec",
    "AclBinding",
    "AclBindingFilter",
    "Admin",
    "AlterConfig",
    "AlterOperation",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "Endpoint",
    "FeatureUpdate",
    "Features",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupListings",
    "GroupMember",
    "IsolationLevel",
    "ListedOffset",
    "LogDirDescription",
    "MemberToRemove",
    "NewTopic",
    "OffsetSpec",
    "Operation",
    "Outcomes",
    "PartitionDescription",
    "PatternType",
    "Permission",
    "Principal",
    "ProducerState",
    "QuorumInfo",
    "QuorumReplica",
    "QuotaAlteration",
    "QuotaFilter",
    "QuotaMatch",
    "Reassignment",
    "ReplicaInLogDir",
    "ReplicaLogDir",
    "ResourceType",
    "ScramCredentialInfo",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareGroupOffset",
    "StreamsGroupDescription",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTasks",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
    "quota_entity",
]

_MODULES = {
    "Admin": "client.admin.admin",
    "ClusterDescription": "client.admin.cluster_calls",
    "Endpoint": "client.admin.cluster_calls",
    "FeatureUpdate": "client.admin.cluster_calls",
    "Features": "client.admin.cluster_calls",
    "QuorumInfo": "client.admin.cluster_calls",
    "QuorumReplica": "client.admin.cluster_calls",
    "UpgradeType": "client.admin.cluster_calls",
    "AlterConfig": "client.admin.configs",
    "AlterOperation": "client.admin.configs",
    "ConfigEntry": "client.admin.configs",
    "ConfigResource": "client.admin.configs",
    "ConfigResourceType": "client.admin.configs",
    "ConfigSource": "config.layers",
    "ConfigSynonym": "client.admin.configs",
    "ConfigType": "client.admin.configs",
    "GroupDescription": "client.admin.groups.group_model",
    "GroupListing": "client.admin.groups.group_model",
    "GroupListings": "client.admin.groups.group_model",
    "GroupMember": "client.admin.groups.group_model",
    "ShareGroupOffset": "client.admin.groups.group_model",
    "StreamsGroupDescription": "client.admin.groups.group_model",
    "StreamsMember": "client.admin.groups.group_model",
    "StreamsSubtopology": "client.admin.groups.group_model",
    "StreamsTasks": "client.admin.groups.group_model",
    "MemberToRemove": "client.admin.groups.groups",
    "LogDirDescription": "client.admin.log_dirs",
    "ReplicaInLogDir": "client.admin.log_dirs",
    "ReplicaLogDir": "client.admin.log_dirs",
    "ElectionType": "client.admin.reassignments",
    "Reassignment": "client.admin.reassignments",
    "IsolationLevel": "client.admin.records",
    "ListedOffset": "client.admin.records",
    "OffsetSpec": "client.admin.records",
    "ProducerState": "client.admin.records",
    "AclBinding": "client.admin.security.acls",
    "AclBindingFilter": "client.admin.security.acls",
    "QuotaAlteration": "client.admin.security.quotas",
    "QuotaFilter": "client.admin.security.quotas",
    "QuotaMatch": "client.admin.security.quotas",
    "quota_entity": "client.admin.security.quotas",
    "ScramCredentialInfo": "client.admin.security.scram",
    "ScramDeletion": "client.admin.security.scram",
    "ScramMechanism": "metadata.scram",
    "ScramUpsertion": "client.admin.security.scram",
    "DelegationToken": "client.admin.security.tokens",
    "Principal": "client.admin.security.tokens",
    "CreatedTopic": "client.admin.topics",
    "NewTopic": "client.admin.topics",
    "PartitionDescription": "client.admin.topics",
    "TopicDescription": "client.admin.topics",
    "TopicListing": "client.admin.topics",
    "AbortTransactionSpec": "client.admin.transactions",
    "FencedProducer": "client.admin.transactions",
    "TransactionDescription": "client.admin.transactions",
    "TransactionListing": "client.admin.transactions",
    "Operation": "security.acls",
    "PatternType": "security.acls",
    "Permission": "security.acls",
    "ResourceType": "security.acls",
    "Outcomes": "client.outcomes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"barnabas.client.admin has no {name}")
    return getattr(import_module(f"barnabas.{_MODULES[name]}"), name)
