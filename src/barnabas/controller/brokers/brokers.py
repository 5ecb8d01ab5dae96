"""Brokers: registration, heartbeats, fencing and unregistration (KIP-631, KIP-841, KIP-858, KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.brokers.heartbeats import BrokerState
from barnabas.controller.decision import Context, Decision
from barnabas.controller.replication.elections import MAX_CHANGES_AT_ONCE, leader_and_isr_updates
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
# From this version on, a registration contains the epoch of a broker that shut down cleanly.
PREVIOUS_EPOCH_VERSION = 3

# Registration


def register_broker(state: ControllerState, request: BrokerRegistrationRequest, context: Context) -> Decision:
    """BrokerRegistration: a new incarnation gets a new epoch; the partitions of the old one are updated."""
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
        records += _handle_shutdown(state, request, existing, context.version)
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


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REGISTRATION, message)


def _checked_features(
    state: ControllerState, request: BrokerRegistrationRequest
) -> list[RegisterBrokerRecord.BrokerFeature]:
    """A broker must support the finalized feature levels."""
    finalized = {**state.image.features, KRAFT_VERSION: state.options.quorum.kraft_version}
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
            name=listener.name,
            host=listener.host,
            port=listener.port,
            security_protocol=listener.security_protocol,
        )
        for listener in request.listeners
    ]


def _handle_shutdown(
    state: ControllerState, request: BrokerRegistrationRequest, existing: Broker | None, version: int
) -> list[Message]:
    """Update the partitions of the previous incarnation; after an unclean shutdown it may lack records."""
    broker_id = request.broker_id
    clean = (
        version >= PREVIOUS_EPOCH_VERSION
        and existing is not None
        and existing.epoch == request.previous_broker_epoch
    )
    if state.elr_enabled and not clean:
        return [
            *leader_and_isr_updates(state, state.in_isr(broker_id), broker_with_unclean_shutdown=broker_id),
            *leader_and_isr_updates(state, state.in_elr(broker_id), broker_with_unclean_shutdown=broker_id),
        ]
    return leader_and_isr_updates(state, state.in_isr(broker_id), broker_to_remove=broker_id)


# Heartbeats


def heartbeat(state: ControllerState, request: BrokerHeartbeatRequest, context: Context) -> Decision:
    """BrokerHeartbeat: renews the lease, and fences, unfences or shuts down the broker as it requests."""
    broker_id = request.broker_id
    state.heartbeats.record_contact(broker_id, request.broker_epoch, context.now_ns)
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
        leads=lambda: state.leads_any(broker_id),
    )
    records = [] if current is following else _state_change_records(state, broker, following)
    if state.directories_supported:
        records += _handle_offline_directories(
            state, broker, [Uuid(directory) for directory in request.offline_log_dirs]
        )

    def accepted(last_offset: int) -> None:
        leases = state.heartbeats
        leases.touch(broker_id, fenced=following.is_fenced, metadata_offset=request.current_metadata_offset)
        if following is BrokerState.CONTROLLED_SHUTDOWN:
            leases.start_shutdown(broker_id, last_offset, leads=state.leads_any(broker_id))
        elif following is BrokerState.SHUTDOWN_NOW:
            leases.end_session(broker_id)

    reply = BrokerHeartbeatResponse(
        throttle_time_ms=0,
        error_code=0,
        is_caught_up=caught_up,
        is_fenced=following.is_fenced,
        should_shut_down=following is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, reply, accepted, atomic=False)


def _state_change_records(state: ControllerState, broker: Broker, following: BrokerState) -> list[Message]:
    if following is BrokerState.UNFENCED:
        return [
            _change(broker, fenced=UNFENCE),
            *leader_and_isr_updates(state, state.leaderless(), broker_to_add=broker.id),
        ]
    if following is BrokerState.CONTROLLED_SHUTDOWN:
        records: list[Message] = []
        if not broker.in_controlled_shutdown:
            records.append(_change(broker, in_controlled_shutdown=SHUTTING_DOWN))
        return records + _move_partitions(state, broker)
    return fence(state, broker)


def _move_partitions(state: ControllerState, broker: Broker) -> list[Message]:
    """The next batch of partitions that this broker leaves."""
    return leader_and_isr_updates(
        state, state.in_isr(broker.id), broker_to_remove=broker.id, at_most=MAX_CHANGES_AT_ONCE
    )


def continue_shutdowns(state: ControllerState) -> list[Message]:
    """Move a batch of partitions of a broker in controlled shutdown; call again until nothing is returned."""
    for _, broker in sorted(state.image.brokers.items()):
        if broker.in_controlled_shutdown and not broker.fenced:
            records = _move_partitions(state, broker)
            if records:
                return records
    return []


def fence(state: ControllerState, broker: Broker) -> list[Message]:
    """The broker loses its leaderships and leaves every ISR."""
    return [
        *leader_and_isr_updates(state, state.in_isr(broker.id), broker_to_remove=broker.id),
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


def _handle_offline_directories(state: ControllerState, broker: Broker, offline: list[Uuid]) -> list[Message]:
    """Replicas in a failed directory can neither lead nor be in sync (KIP-858)."""
    failed = [directory for directory in broker.directories if directory in offline]
    if not failed:
        return []
    records: list[Message] = []
    for directory in failed:
        affected = state.in_directory(directory)
        records += leader_and_isr_updates(state, affected, broker_to_remove=broker.id)
    online = [directory for directory in broker.directories if directory not in offline]
    return [*records, _change(broker, log_dirs=online)]


def maybe_fence_stale_broker(state: ControllerState, now_ns: int) -> list[Message]:
    """Fence a broker with an expired session, if any; call again after applying the records.

    One with many partitions leaves them in batches before it is fenced.
    """
    for broker_id in state.heartbeats.expired(now_ns):
        broker = state.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            records = _move_partitions(state, broker)
            if len(records) < MAX_CHANGES_AT_ONCE:
                records.append(_change(broker, fenced=FENCE))
            return records
    return []


# Unregistration


def unregister_broker(state: ControllerState, request: UnregisterBrokerRequest, context: Context) -> Decision:
    """UnregisterBroker: remove the registration; the other replicas keep the data."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = [
        *leader_and_isr_updates(state, state.in_isr(broker.id), broker_to_remove=broker.id),
        *leader_and_isr_updates(state, state.in_elr(broker.id), broker_to_remove=broker.id),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    reply = UnregisterBrokerResponse(throttle_time_ms=0, error_code=0, error_message=None)
    return Decision(records, reply, atomic=False)
