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
    """Each user is altered or rejected as a whole.

    A user may occur once in a request; in ZooKeeper mode, each credential of a user may.
    """
    by_mechanism = state.options.policy.alters_mechanisms_together
    deletions: dict[tuple[str, int], Deletion] = {}
    upsertions: dict[tuple[str, int], Upsertion] = {}
    api_errors: dict[str, ApiError] = {}
    duplicate = ApiError(
        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    )
    for deletion in request.deletions:
        key = (deletion.name, deletion.mechanism if by_mechanism else 0)
        api_error = duplicate if key in deletions else _deletion_error(state, deletion)
        deletions[key] = deletion
        if api_error:
            api_errors.setdefault(deletion.name, api_error)
    for upsertion in request.upsertions:
        key = (upsertion.name, upsertion.mechanism if by_mechanism else 0)
        is_twice = key in deletions or key in upsertions
        api_error = duplicate if is_twice else _upsertion_error(state, upsertion)
        upsertions[key] = upsertion
        if api_error:
            api_errors.setdefault(upsertion.name, api_error)
    records: list[Message] = [
        RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
        for change in deletions.values()
        if change.name not in api_errors
    ]
    records += [_record(change) for change in upsertions.values() if change.name not in api_errors]
    altered = dict.fromkeys(name for name, _ in (*deletions, *upsertions) if name not in api_errors)
    results = [*_results((name, NO_ERROR) for name in altered), *_results(api_errors.items())]
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
