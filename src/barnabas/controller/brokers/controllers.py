"""ControllerRegistration: a controller announces its listeners and supported features (KIP-919)."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.metadata.levels import CONTROLLER_REGISTRATION_LEVEL
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from barnabas.protocol.records.metadata import RegisterControllerRecord


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest, context: Context
) -> Decision:
    if state.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    reply = ControllerRegistrationResponse(throttle_time_ms=0, error_code=0, error_message="")
    return Decision([record], reply)
