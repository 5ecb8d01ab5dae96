"""AlterUserScramCredentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.errors import ErrorCode
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.metadata.levels import SCRAM_LEVEL
from barnabas.metadata.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism, credential
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from barnabas.protocol.records.metadata import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from barnabas.protocol.schema import Message

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def alter_scram_credentials(
    state: ControllerState, request: AlterUserScramCredentialsRequest, context: Context
) -> Decision:
    """A user may occur once in a request; each one is altered or rejected individually."""
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    api_errors: dict[str, ApiError] = {}
    duplicate = ApiError(
        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    )
    for deletion in request.deletions:
        if deletion.name in api_errors:
            continue
        api_error = duplicate if deletions.pop(deletion.name, None) else _deletion_error(state, deletion)
        if api_error:
            api_errors[deletion.name] = api_error
        else:
            deletions[deletion.name] = deletion
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in api_errors:
            continue
        before = deletions.pop(name, None) or upsertions.pop(name, None)
        api_error = duplicate if before else _upsertion_error(state, upsertion)
        if api_error:
            api_errors[name] = api_error
        else:
            upsertions[name] = upsertion
    records: list[Message] = [
        RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
        for change in deletions.values()
    ]
    records += [_record(change) for change in upsertions.values()]
    results = [
        *_results((name, NO_ERROR) for name in (*deletions, *upsertions)),
        *_results(api_errors.items()),
    ]
    return Decision(records, AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results))


def _results(api_errors: Iterable[tuple[str, ApiError]]) -> list[AlterUserScramCredentialsResponse.Result]:
    return [
        AlterUserScramCredentialsResponse.Result(
            user=name, error_code=api_error.code, error_message=api_error.message
        )
        for name, api_error in api_errors
    ]


def _record(upsertion: Upsertion) -> UserScramCredentialRecord:
    mechanism = ScramMechanism(upsertion.mechanism)
    stored = credential(
        upsertion.name,
        mechanism,
        bytes(upsertion.salted_password),
        bytes(upsertion.salt),
        upsertion.iterations,
    )
    return UserScramCredentialRecord(
        name=stored.name,
        mechanism=mechanism,
        salt=stored.salt,
        stored_key=stored.stored_key,
        server_key=stored.server_key,
        iterations=stored.iterations,
    )


def _deletion_error(state: ControllerState, deletion: Deletion) -> ApiError:
    api_error = _common_error(state, deletion.name, deletion.mechanism)
    if not api_error and (deletion.mechanism, deletion.name) not in state.image.scram:
        return ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return api_error


def _upsertion_error(state: ControllerState, upsertion: Upsertion) -> ApiError:
    api_error = _common_error(state, upsertion.name, upsertion.mechanism)
    if api_error:
        return api_error
    if upsertion.iterations < MIN_ITERATIONS:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return NO_ERROR


def _common_error(state: ControllerState, name: str, mechanism: int) -> ApiError:
    if state.image.metadata_version < SCRAM_LEVEL:
        return ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in frozenset(ScramMechanism):
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return NO_ERROR
