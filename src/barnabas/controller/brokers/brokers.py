"""Brokers: registration, heartbeats, fencing and leaving (KIP-631, KIP-841, KIP-858, KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.brokers.heartbeats import BrokerState
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.elections import updates_after
from barnabas.controller.state import RESERVED_DIRECTORIES, ControllerState
from barnabas.metadata.cluster import Broker
from barnabas.metadata.features import KRAFT_VERSION, METADATA_VERSION
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from barnabas.protocol.records.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from barnabas.protocol.schema import Message

FENCE, UNFENCE = 1, -1
SHUTTING_DOWN = 1
# From this version on a registration tells the epoch of a broker that stopped cleanly.
PREVIOUS_EPOCH_VERSION = 3

# Registration


def register_broker(state: ControllerState, request: BrokerRegistrationRequest, context: Context) -> Decision:
    """BrokerRegistration: a new incarnation gets a new epoch, and what the old one led is sorted out."""
    if request.cluster_id != state.options.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.options.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    existing = state.image.brokers.get(request.broker_id)
    _check_incarnation(state, request, existing, context.now_ns)
    if state.directories_supported:
        _check_directories(state, request)
    features = _checked_features(state, request)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    records: list[Message] = []
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=context.next_offset,
        end_points=_endpoints(request),
        features=features,
        rack=request.rack,
        log_dirs=list(request.log_dirs) if state.directories_supported else [],
    )
    if is_new:
        records += _after_shutdown(state, request, existing, context.version)
    elif existing is not None:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.broker_epoch = existing.epoch
    records.append(record)
    reply = BrokerRegistrationResponse(throttle_time_ms=0, error_code=0, broker_epoch=record.broker_epoch)
    return Decision(records, reply, atomic=False)


def _check_incarnation(
    state: ControllerState, request: BrokerRegistrationRequest, existing: Broker | None, now_ns: int
) -> None:
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and state.heartbeats.has_session(existing.id, existing.epoch, now_ns)
    ):
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this"
            " should self-resolve once the heartbeat manager expires the broker's session.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers."
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    named = [Uuid(directory) for directory in request.log_dirs]
    if not named:
        raise _invalid("No directories specified in request")
    if not RESERVED_DIRECTORIES.isdisjoint(named):
        raise _invalid("Reserved directory ID in request")
    if len(set(named)) != len(named):
        raise _invalid("Duplicate directory ID in request")
    for _, other in sorted(state.image.brokers.items()):
        for directory in named:
            if other.id != request.broker_id and directory in other.directories:
                raise _invalid(f"Broker {other.id} is already registered with directory {directory}")


def _invalid(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, why)


def _checked_features(
    state: ControllerState, request: BrokerRegistrationRequest
) -> list[RegisterBrokerRecord.BrokerFeature]:
    """A broker must support what the cluster has settled on."""
    finalized = {**state.image.features, KRAFT_VERSION: state.options.kraft_version}
    named = {feature.name for feature in request.features}
    features = []
    for feature in request.features:
        lowest, highest = feature.min_supported_version, feature.max_supported_version
        _check_feature(feature.name, finalized.get(feature.name, 0), lowest, highest)
        features.append(
            RegisterBrokerRecord.BrokerFeature(
                name=feature.name, min_supported_version=lowest, max_supported_version=highest
            )
        )
    if METADATA_VERSION not in named:
        raise _invalid(f"Request features do not contain '{METADATA_VERSION}'")
    for name in sorted(finalized.keys() - named):
        _check_feature(name, finalized[name], 0, 0)
    return features


def _check_feature(name: str, finalized: int, lowest: int, highest: int) -> None:
    if not lowest <= finalized <= highest:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {finalized} of {name}."
            f" The broker wants a version between {lowest} and {highest}, inclusive.",
        )


def _endpoints(request: BrokerRegistrationRequest) -> list[RegisterBrokerRecord.BrokerEndpoint]:
    return [
        RegisterBrokerRecord.BrokerEndpoint(
            name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
        )
        for one in request.listeners
    ]


def _after_shutdown(
    state: ControllerState, request: BrokerRegistrationRequest, existing: Broker | None, version: int
) -> list[Message]:
    """What the incarnation before left behind: unless it stopped cleanly it may have lost records."""
    broker_id = request.broker_id
    clean = (
        version >= PREVIOUS_EPOCH_VERSION
        and existing is not None
        and existing.epoch == request.previous_broker_epoch
    )
    if state.elr_enabled and not clean:
        return [
            *updates_after(state, state.in_isr(broker_id), unclean=broker_id),
            *updates_after(state, state.in_elr(broker_id), unclean=broker_id),
        ]
    return updates_after(state, state.in_isr(broker_id), leaving=broker_id)


# Heartbeats


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest, context: Context) -> Decision:
    """BrokerHeartbeat: renews the lease, and fences, unfences or lets go as the broker asks."""
    broker_id = request.broker_id
    state.heartbeats.heard_of(broker_id, request.broker_epoch, context.now_ns)
    registered_at = state.registered_at.get(broker_id)
    if registered_at is None:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Receive a heartbeat from broker {broker_id} before registration",
        )
    broker = state.check_broker_epoch(broker_id, request.broker_epoch)
    caught_up = request.current_metadata_offset >= registered_at
    current, following = state.heartbeats.next_state(
        broker_id,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        caught_up=caught_up,
        leads=request.want_shut_down and state.leads_any(broker_id),
    )
    records = [] if current is following else _transition(state, broker, following)
    if state.directories_supported:
        records += _directories_offline(state, broker, [Uuid(one) for one in request.offline_log_dirs])

    def accepted(last_offset: int) -> None:
        leases = state.heartbeats
        leases.touch(broker_id, fenced=following.is_fenced, metadata_offset=request.current_metadata_offset)
        if following is BrokerState.CONTROLLED_SHUTDOWN:
            leases.start_shutdown(broker_id, last_offset)

    reply = BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0,
        is_caught_up=caught_up,
        is_fenced=following.is_fenced,
        should_shut_down=following is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, reply, accepted, atomic=False)


def _transition(state: ControllerState, broker: Broker, following: BrokerState) -> list[Message]:
    if following is BrokerState.UNFENCED:
        return [
            _change(broker, fenced=UNFENCE),
            *updates_after(state, state.leaderless(), arriving=broker.id),
        ]
    if following is BrokerState.CONTROLLED_SHUTDOWN:
        records: list[Message] = []
        if not broker.in_controlled_shutdown:
            records.append(_change(broker, in_controlled_shutdown=SHUTTING_DOWN))
        return records + updates_after(state, state.in_isr(broker.id), leaving=broker.id)
    return fence(state, broker)


def fence(state: ControllerState, broker: Broker) -> list[Message]:
    """It leads no more and leaves every ISR."""
    return [
        *updates_after(state, state.in_isr(broker.id), leaving=broker.id),
        _change(broker, fenced=FENCE),
    ]


def _change(
    broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0, log_dirs: Sequence[Uuid] = ()
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=list(log_dirs),
    )


def _directories_offline(state: ControllerState, broker: Broker, offline: list[Uuid]) -> list[Message]:
    """Replicas in a directory that failed neither lead nor count as in sync (KIP-858)."""
    lost = [directory for directory in broker.directories if directory in offline]
    if not lost:
        return []
    records: list[Message] = []
    for directory in lost:
        there = [found for found in state.partitions() if directory in found[2].directories]
        records += updates_after(state, there, leaving=broker.id)
    online = [directory for directory in broker.directories if directory not in offline]
    return [*records, _change(broker, log_dirs=online)]


def fence_one_stale(state: ControllerState, now_ns: int) -> list[Message]:
    """A broker whose session is over, if there is one; the caller asks again with these applied if so."""
    for broker_id in state.heartbeats.expired(now_ns):
        broker = state.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            return fence(state, broker)
    return []


# Leaving for good


def unregister_broker(state: ControllerState, request: UnregisterBrokerRequest, context: Context) -> Decision:
    """UnregisterBroker: forget it; what it held stays with the other replicas."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = [
        *updates_after(state, state.in_isr(broker.id), leaving=broker.id),
        *updates_after(state, state.in_elr(broker.id), leaving=broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    reply = UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)
    return Decision(records, reply, atomic=False)
