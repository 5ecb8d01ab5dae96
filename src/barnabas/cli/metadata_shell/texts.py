"""The lines that Apache Kafka's toString methods print for registrations, ACLs and credentials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from barnabas.metadata.cluster import Broker, Controller, Endpoint
from barnabas.metadata.features import METADATA_VERSION, metadata_version_at
from barnabas.metadata.image import Image
from barnabas.metadata.topics import RECOVERED, Partition
from barnabas.protocol.records.metadata import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from barnabas.security.acls import Operation, PatternType, Permission, ResourceType

NO_HIGHEST_LEVEL = 2**15 - 1
_SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


def partition(entry: Partition) -> str:
    recovery = "RECOVERED" if entry.leader_recovery_state == RECOVERED else "RECOVERING"
    return (
        f"PartitionRegistration(replicas={_list(entry.replicas)}, directories={_list(entry.directories)}"
        f", isr={_list(entry.isr)}, removingReplicas={_list(entry.removing_replicas)}"
        f", addingReplicas={_list(entry.adding_replicas)}, elr={_list(entry.elr)}"
        f", lastKnownElr={_list(entry.last_known_elr)}, leader={entry.leader}, leaderRecoveryState={recovery}"
        f", leaderEpoch={entry.leader_epoch}, partitionEpoch={entry.partition_epoch})"
    )


def broker(entry: Broker) -> str:
    return (
        f"BrokerRegistration(id={entry.id}, epoch={entry.epoch}, incarnationId={entry.incarnation_id}"
        f", listeners={_endpoints(entry.endpoints)}, supportedFeatures={_features(entry.features)}"
        f", rack={_optional(entry.rack)}, fenced={_bool(entry.fenced)}"
        f", inControlledShutdown={_bool(entry.in_controlled_shutdown)}"
        f", isMigratingZkBroker={_bool(entry.is_migrating_zk_broker)}"
        f", directories={_list(entry.directories)})"
    )


def controller(entry: Controller) -> str:
    return (
        f"ControllerRegistration(id={entry.id}, incarnationId={entry.incarnation_id}"
        f", zkMigrationReady={_bool(entry.zk_migration_ready)}"
        f", listeners={_endpoints(entry.endpoints)}, supportedFeatures={_features(entry.features)})"
    )


def acl(rule: AccessControlEntryRecord) -> str:
    return (
        f"StandardAcl(resourceType={ResourceType(rule.resource_type).name}"
        f", resourceName={rule.resource_name}, patternType={PatternType(rule.pattern_type).name}"
        f", principal={rule.principal}, host={rule.host}, operation={Operation(rule.operation).name}"
        f", permissionType={Permission(rule.permission_type).name})"
    )


def scram(record: UserScramCredentialRecord) -> str:
    return (
        f"ScramCredentialData(salt={bytes(record.salt).hex()}, storedKey={bytes(record.stored_key).hex()}"
        f", serverKey={bytes(record.server_key).hex()}, iterations={record.iterations})"
    )


def token(record: DelegationTokenRecord) -> str:
    """With Apache Kafka's unbalanced parentheses."""
    return (
        f"DelegationTokenDatatokenId={record.token_id}(owner={record.owner}"
        f"(tokenRequester={record.requester}(renewers={' '.join(record.renewers)}"
        f", issueTimestamp={record.issue_timestamp}, maxTimestamp={record.max_timestamp})"
        f", expiryTimestamp={record.expiration_timestamp}"
    )


def metadata_version(image: Image) -> str:
    level = image.features.get(METADATA_VERSION)
    return _optional(None if level is None else metadata_version_at(level).name)


def provenance(image: Image) -> str:
    return f"offset {image.offset}, epoch {image.epoch}, time {_time(image.timestamp_ms)}"


def _time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with the shortest fraction, as Java prints a ZonedDateTime."""
    seconds, ms = divmod(timestamp_ms, 1000)
    fraction = f".{ms:03}".rstrip("0") if ms else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def _endpoints(endpoints: Iterable[Endpoint]) -> str:
    return _list(
        f"Endpoint(listenerName='{endpoint.name}', securityProtocol="
        f"{_SECURITY_PROTOCOLS.get(endpoint.security_protocol, endpoint.security_protocol)}"
        f", host='{endpoint.host}', port={endpoint.port})"
        for endpoint in sorted(endpoints, key=lambda endpoint: endpoint.name)
    )


def _features(features: Mapping[str, tuple[int, int]]) -> str:
    ranges = (f"{name}: {_levels(*levels)}" for name, levels in sorted(features.items()))
    return f"{{{', '.join(ranges)}}}"


def _levels(lowest: int, highest: int) -> str:
    if lowest == highest:
        return str(lowest)
    return f"{lowest}+" if highest == NO_HIGHEST_LEVEL else f"{lowest}-{highest}"


def _list(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _optional(value: str | None) -> str:
    return "Optional.empty" if value is None else f"Optional[{value}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
