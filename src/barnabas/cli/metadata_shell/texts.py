"""The lines by which Apache Kafka shows what is registered: its words, its brackets, its order."""

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


def partition(one: Partition) -> str:
    recovery = "RECOVERED" if one.leader_recovery_state == RECOVERED else "RECOVERING"
    return (
        f"PartitionRegistration(replicas={_list(one.replicas)}, directories={_list(one.directories)}"
        f", isr={_list(one.isr)}, removingReplicas={_list(one.removing_replicas)}"
        f", addingReplicas={_list(one.adding_replicas)}, elr={_list(one.elr)}"
        f", lastKnownElr={_list(one.last_known_elr)}, leader={one.leader}, leaderRecoveryState={recovery}"
        f", leaderEpoch={one.leader_epoch}, partitionEpoch={one.partition_epoch})"
    )


def broker(one: Broker) -> str:
    return (
        f"BrokerRegistration(id={one.id}, epoch={one.epoch}, incarnationId={one.incarnation_id}"
        f", listeners={_endpoints(one.endpoints)}, supportedFeatures={_features(one.features)}"
        f", rack={_optional(one.rack)}, fenced={_bool(one.fenced)}"
        f", inControlledShutdown={_bool(one.in_controlled_shutdown)}"
        f", isMigratingZkBroker={_bool(one.is_migrating_zk_broker)}, directories={_list(one.directories)})"
    )


def controller(one: Controller) -> str:
    return (
        f"ControllerRegistration(id={one.id}, incarnationId={one.incarnation_id}"
        f", zkMigrationReady={_bool(one.zk_migration_ready)}"
        f", listeners={_endpoints(one.endpoints)}, supportedFeatures={_features(one.features)})"
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
    """Apache Kafka's own parentheses, which do not match."""
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
    """ISO in UTC with no more of the fraction than there is, as Java writes a ZonedDateTime."""
    seconds, ms = divmod(timestamp_ms, 1000)
    fraction = f".{ms:03}".rstrip("0") if ms else ""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z[UTC]"


def _endpoints(found: Iterable[Endpoint]) -> str:
    return _list(
        f"Endpoint(listenerName='{one.name}', securityProtocol="
        f"{_SECURITY_PROTOCOLS.get(one.security_protocol, one.security_protocol)}"
        f", host='{one.host}', port={one.port})"
        for one in sorted(found, key=lambda one: one.name)
    )


def _features(found: Mapping[str, tuple[int, int]]) -> str:
    ranges = (f"{name}: {_levels(*levels)}" for name, levels in sorted(found.items()))
    return f"{{{', '.join(ranges)}}}"


def _levels(lowest: int, highest: int) -> str:
    if lowest == highest:
        return str(lowest)
    return f"{lowest}+" if highest == NO_HIGHEST_LEVEL else f"{lowest}-{highest}"


def _list(found: Iterable[object]) -> str:
    return f"[{', '.join(map(str, found))}]"


def _optional(value: str | None) -> str:
    return "Optional.empty" if value is None else f"Optional[{value}]"


def _bool(value: bool) -> str:
    return "true" if value else "false"
