"""UpdateFeatures: the cluster finalizes other feature levels (KIP-584, KIP-1022)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.java_order import hash_map_order
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.state import MIN_ISR, ControllerState
from barnabas.metadata.cluster import Controller
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
from barnabas.protocol.records.metadata import ConfigRecord, FeatureLevelRecord, NoOpRecord
from barnabas.protocol.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
# Up to this version the response has an entry for each feature.
LAST_VERSION_WITH_RESULTS = 1
NOT_SUPPORTED = (0, 0)

FeatureUpdate = UpdateFeaturesRequest.FeatureUpdateKey


def update_features(state: ControllerState, request: UpdateFeaturesRequest, context: Context) -> Decision:
    """Applies all updates or none."""
    update = {update.feature: update for update in request.feature_updates}
    proposed = {
        **state.image.features,
        METADATA_VERSION: state.image.metadata_version,
        **{name: update.max_version_level for name, update in update.items()},
    }
    records: list[Message] = []
    for name in hash_map_order(update):
        api_error = _update(state, update[name], proposed, records)
        if api_error:
            return Decision([], _failed(api_error))
    elr = update.get(ELIGIBLE_LEADER_REPLICAS_VERSION)
    if elr is not None and elr.max_version_level > 0:
        records = [*_elr_safety_records(state), *records]
    reply = UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None)
    if context.version <= LAST_VERSION_WITH_RESULTS:
        result = UpdateFeaturesResponse.UpdatableFeatureResult
        reply.results = [
            result(feature=update.feature, error_code=0, error_message=ErrorCode.NONE.name)
            for update in request.feature_updates
        ]
    if request.validate_only:
        return Decision([], reply)
    quorum = update.get(KRAFT_VERSION)
    upgraded = None if quorum is None else quorum.max_version_level
    return Decision(records, reply, kraft_version=upgraded)


def _failed(api_error: ApiError) -> UpdateFeaturesResponse:
    prefix = "The update failed for all features since the following feature had an error: "
    return UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=api_error.code, error_message=f"{prefix}{api_error.message}"
    )


def _update(
    state: ControllerState, update: FeatureUpdate, proposed: dict[str, int], records: list[Message]
) -> ApiError:
    name, level = update.feature, update.max_version_level
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return _invalid(update, "The controller does not support the given upgrade type.")
    current = _current(state, name)
    if level < 0:
        return _invalid(update, "A feature version cannot be less than 0.")
    reason = _not_supported(state, name, level)
    if reason is not None:
        return _invalid(update, reason)
    if level < current and update.upgrade_type == UPGRADE:
        return _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
            " unsafe downgrade.",
        )
    if level > current and update.upgrade_type != UPGRADE:
        return _invalid(update, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        api_error = _metadata_version_error(update, current)
    elif name == KRAFT_VERSION:
        return _kraft_version_error(state, update, current, records)
    else:
        api_error = _dependency_error(update, proposed)
    if not api_error:
        records.append(FeatureLevelRecord(name=name, feature_level=level))
    return api_error


def _current(state: ControllerState, name: str) -> int:
    if name == METADATA_VERSION:
        return state.image.metadata_version
    if name == KRAFT_VERSION:
        return state.options.quorum.kraft_version
    return state.image.features.get(name, 0)


def _invalid(update: FeatureUpdate, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _metadata_version_error(update: FeatureUpdate, current: int) -> ApiError:
    level = update.max_version_level
    lost = [step for step in LEVELS_WITH_NEW_RECORDS if level < step <= current]
    if not lost:
        return NO_ERROR
    if update.upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    return ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid {METADATA_VERSION} {level}. {reason}")


def _kraft_version_error(
    state: ControllerState, update: FeatureUpdate, current: int, records: list[Message]
) -> ApiError:
    """kraft.version is stored in control records of the quorum, which its leader appends (KIP-853)."""
    level = update.max_version_level
    if update.upgrade_type != UPGRADE:
        reason = "Can't downgrade the version of this feature."
        return NO_ERROR if level == current else _invalid(update, reason)
    error = state.options.quorum.upgrade_error(level)
    if error is not None:
        return ApiError(ErrorCode.INVALID_UPDATE_VERSION, error)
    # The response waits for the commit of this record, and so of the control records before it.
    records.append(NoOpRecord())
    return NO_ERROR


def _dependency_error(update: FeatureUpdate, proposed: dict[str, int]) -> ApiError:
    feature = FEATURES_BY_NAME.get(update.feature)
    if feature is None:
        return _invalid(update, f"Feature {update.feature} not found.")
    try:
        feature.check(update.max_version_level, proposed, unstable=True)
    except ValueError as error:
        return _invalid(update, str(error))
    return NO_ERROR


def _not_supported(state: ControllerState, name: str, level: int) -> str | None:
    """Returns why a node of the cluster does not support the level; None if all nodes do."""
    node_id = state.options.node_id
    unstable = bool(state.options.static["unstable.feature.versions.enable"])
    local = supported_features(unstable=unstable).get(name, NOT_SUPPORTED)
    nodes = [(f"Local controller {node_id}", local)]
    nodes += [
        (f"Broker {broker.id}", broker.features.get(name, NOT_SUPPORTED))
        for _, broker in sorted(state.image.brokers.items())
    ]
    knows_controllers = state.image.metadata_version >= CONTROLLER_REGISTRATION_LEVEL
    controllers = _other_controllers(state) if knows_controllers else []
    nodes += [
        (f"Controller {controller.id}", controller.features.get(name, NOT_SUPPORTED))
        for controller in controllers
    ]
    for node, (lowest, highest) in nodes:
        if not lowest <= level <= highest:
            hint = _removal_hint(state, controllers, node)
            if highest == 0:
                return f"{node} does not support this feature.{hint}"
            span = str(lowest) if lowest == highest else f"{lowest}-{highest}"
            return f"{node} only supports versions {span}{'.' if hint else ''}{hint}"
    if knows_controllers:
        known = {node_id, *state.image.controllers}
        for controller_id in sorted(state.options.controller_ids - known):
            if not state.options.quorum.has_left(controller_id):
                return f"controller {controller_id} has not registered, and may not support this feature"
    return None


def _other_controllers(state: ControllerState) -> list[Controller]:
    """The registered controllers that take part: a registration outlives its controller (KAFKA-20395)."""
    return [
        controller
        for _, controller in sorted(state.image.controllers.items())
        if controller.id != state.options.node_id and not state.options.quorum.has_left(controller.id)
    ]


def _removal_hint(state: ControllerState, controllers: list[Controller], node: str) -> str:
    """How to continue without a controller that will not come back."""
    for controller in controllers:
        if node == f"Controller {controller.id}" and state.options.quorum.is_silent(controller.id):
            return " It does not fetch the metadata log; if it is gone for good, remove it from the voters."
    return ""


def _elr_safety_records(state: ControllerState) -> list[Message]:
    """To enable eligible leader replicas, min.insync.replicas must have one value for all brokers."""
    records: list[Message] = []
    kind = ConfigResource.BROKER
    if MIN_ISR not in state.image.configs_of(kind, ""):
        value = str(state.options.static[MIN_ISR])
        records.append(ConfigRecord(resource_type=kind, resource_name="", name=MIN_ISR, value=value))
    for resource_type, name in sorted(state.image.configs):
        if resource_type == kind and name and MIN_ISR in state.image.configs_of(kind, name):
            records.append(ConfigRecord(resource_type=kind, resource_name=name, name=MIN_ISR, value=None))
    return records
