"""UpdateFeatures: the cluster settles on other levels (KIP-584, KIP-1022)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.java_order import hash_map_order
from barnabas.controller.decision import NO_FAULT, Context, Decision, Fault
from barnabas.controller.state import MIN_ISR, ControllerState
from barnabas.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES_BY_NAME,
    KRAFT_VERSION,
    METADATA_VERSION,
    supported_features,
)
from barnabas.metadata.image import ConfigResource
from barnabas.metadata.levels import CONTROLLER_REGISTRATION_LEVEL, LEVELS_WITH_NEW_RECORDS
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records.metadata import ConfigRecord, FeatureLevelRecord
from barnabas.protocol.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
# Up to this version the answer has an entry for each feature.
LAST_VERSION_WITH_RESULTS = 1
NOT_SUPPORTED = (0, 0)

Asked = UpdateFeaturesRequest.FeatureUpdateKey


def update_features(state: ControllerState, request: UpdateFeaturesRequest, context: Context) -> Decision:
    """All updates or none."""
    asked = {update.feature: update for update in request.feature_updates}
    proposed = {
        **state.image.features,
        METADATA_VERSION: state.image.metadata_version,
        **{name: update.max_version_level for name, update in asked.items()},
    }
    records: list[Message] = []
    for name in hash_map_order(asked):
        fault = _update(state, asked[name], proposed, records)
        if fault:
            return Decision([], _failed(fault))
    elr = asked.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
    if elr is not None and elr.max_version_level > 0:
        records = [*_elr_safety_records(state), *records]
    reply = UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None)
    if context.version <= LAST_VERSION_WITH_RESULTS:
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        reply.results = [
            result(feature=update.feature, error_code=0, error_message=ErrorCode.NONE.name)
            for update in request.feature_updates
        ]
    return Decision([] if request.validate_only else records, reply)


def _failed(fault: Fault) -> UpdateFeaturesResponse:
    start = "The update failed for all features since the following feature had an error: "
    return UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=fault.code, error_message=f"{start}{fault.message}"
    )


def _update(state: ControllerState, asked: Asked, proposed: dict[str, int], records: list[Message]) -> Fault:
    name, level = asked.feature, asked.max_version_level
    if asked.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return _invalid(asked, "The controller does not support the given upgrade type.")
    current = _current(state, name)
    if level < 0:
        return _invalid(asked, "A feature version cannot be less than 0.")
    reason = _not_supported(state, name, level)
    if reason is not None:
        return _invalid(asked, reason)
    if level < current and asked.upgrade_type == UPGRADE:
        return _invalid(
            asked,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
            " unsafe downgrade.",
        )
    if level > current and asked.upgrade_type != UPGRADE:
        return _invalid(asked, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        fault = _metadata_version_fault(asked, current)
    elif name == KRAFT_VERSION:
        return _kraft_version_fault(asked, current)
    else:
        fault = _dependency_fault(asked, proposed)
    if not fault:
        records.append(FeatureLevelRecord(name=name, feature_level=level))
    return fault


def _current(state: ControllerState, name: str) -> int:
    if name == METADATA_VERSION:
        return state.image.metadata_version
    if name == KRAFT_VERSION:
        return state.options.kraft_version
    return state.image.features.get(name, 0)


def _invalid(asked: Asked, why: str) -> Fault:
    return Fault(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {asked.max_version_level} for feature {asked.feature}. {why}",
    )


def _metadata_version_fault(asked: Asked, current: int) -> Fault:
    level = asked.max_version_level
    lost = [step for step in LEVELS_WITH_NEW_RECORDS if level < step <= current]
    if not lost:
        return NO_FAULT
    if asked.upgrade_type == UNSAFE_DOWNGRADE:
        why = "Unsafe metadata downgrade is not supported in this version."
    else:
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
    return Fault(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid {METADATA_VERSION} {level}. {why}")


def _kraft_version_fault(asked: Asked, current: int) -> Fault:
    """The quorum's own version is kept in its control records; it does not move while nodes run."""
    if asked.max_version_level == current:
        return NO_FAULT
    if asked.upgrade_type != UPGRADE:
        return _invalid(asked, "Can't downgrade the version of this feature.")
    return _invalid(
        asked, "This controller keeps the voters it was formatted with; format a dynamic quorum instead."
    )


def _dependency_fault(asked: Asked, proposed: dict[str, int]) -> Fault:
    feature = FEATURES_BY_NAME.get(asked.feature)
    if feature is None:
        return _invalid(asked, f"Feature {asked.feature} not found.")
    try:
        feature.check(asked.max_version_level, proposed, unstable=True)
    except ValueError as error:
        return _invalid(asked, str(error))
    return NO_FAULT


def _not_supported(state: ControllerState, name: str, level: int) -> str | None:
    """Why some node of the cluster could not follow."""
    node_id = state.options.node_id
    unstable = bool(state.options.static["unstable.feature.versions.enable"])
    local = supported_features(unstable=unstable).get(name, NOT_SUPPORTED)
    nodes = [(f"Local controller {node_id}", local)]
    nodes += [
        (f"Broker {broker.id}", broker.features.get(name, NOT_SUPPORTED))
        for _, broker in sorted(state.image.brokers.items())
    ]
    knows_controllers = state.image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL
    if knows_controllers:
        nodes += [
            (f"Controller {controller.id}", controller.features.get(name, NOT_SUPPORTED))
            for _, controller in sorted(state.image.controllers.items())
            if controller.id != node_id
        ]
    for who, (lowest, highest) in nodes:
        if not lowest <= level <= highest:
            if highest == 0:
                return f"{who} does not support this feature."
            span = str(lowest) if lowest == highest else f"{lowest}-{highest}"
            return f"{who} only supports versions {span}"
    if knows_controllers:
        known = {node_id, *state.image.controllers}
        for controller_id in sorted(state.options.controller_ids - known):
            return f"controller {controller_id} has not registered, and may not support this feature"
    return None


def _elr_safety_records(state: ControllerState) -> list[Message]:
    """Before eligible leader replicas may be, min.insync.replicas must be one number for all brokers."""
    records: list[Message] = []
    kind = ConfigResource.BROKER
    if MIN_ISR not in state.image.configs_of(kind, ""):
        value = str(state.options.static[MIN_ISR])
        records.append(ConfigRecord(resource_type=kind, resource_name="", name=MIN_ISR, value=value))
    for resource_type, name in sorted(state.image.configs):
        if resource_type == kind and name and MIN_ISR in state.image.configs_of(kind, name):
            records.append(ConfigRecord(resource_type=kind, resource_name=name, name=MIN_ISR, value=None))
    return records
