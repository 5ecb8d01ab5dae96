"""AlterUserScramCredentials: what proves a user's password is stored (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.base.errors import ErrorCode
from barnabas.controller.decision import NO_FAULT, Context, Decision, Fault
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
    """A user may be named once in a request; each is taken or refused by itself."""
    deletions: dict[str, Deletion] = {}
    upsertions: dict[str, Upsertion] = {}
    faults: dict[str, Fault] = {}
    twice = Fault(
        ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    )
    for deletion in request.deletions:
        if deletion.name in faults:
            continue
        fault = twice if deletions.pop(deletion.name, None) else _deletion_fault(state, deletion)
        if fault:
            faults[deletion.name] = fault
        else:
            deletions[deletion.name] = deletion
    for upsertion in request.upsertions:
        name = upsertion.name
        if name in faults:
            continue
        before = deletions.pop(name, None) or upsertions.pop(name, None)
        fault = twice if before else _upsertion_fault(state, upsertion)
        if fault:
            faults[name] = fault
        else:
            upsertions[name] = upsertion
    records: list[Message] = [
        RemoveUserScramCredentialRecord(name=one.name, mechanism=one.mechanism) for one in deletions.values()
    ]
    records += [_record(one) for one in upsertions.values()]
    results = [
        *_results((name, NO_FAULT) for name in (*deletions, *upsertions)),
        *_results(faults.items()),
    ]
    return Decision(records, AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results))


def _results(faults: Iterable[tuple[str, Fault]]) -> list[AlterUserScramCredentialsResponse.Result]:
    return [
        AlterUserScramCredentialsResponse.Result(
            user=name, error_code=fault.code, error_message=fault.message
        )
        for name, fault in faults
    ]


def _record(asked: Upsertion) -> UserScramCredentialRecord:
    mechanism = ScramMechanism(asked.mechanism)
    kept = credential(
        asked.name, mechanism, bytes(asked.salted_password), bytes(asked.salt), asked.iterations
    )
    return UserScramCredentialRecord(
        name=kept.name,
        mechanism=mechanism,
        salt=kept.salt,
        stored_key=kept.stored_key,
        server_key=kept.server_key,
        iterations=kept.iterations,
    )


def _deletion_fault(state: ControllerState, asked: Deletion) -> Fault:
    fault = _common_fault(state, asked.name, asked.mechanism)
    if not fault and (asked.mechanism, asked.name) not in state.image.scram:
        return Fault(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return fault


def _upsertion_fault(state: ControllerState, asked: Upsertion) -> Fault:
    fault = _common_fault(state, asked.name, asked.mechanism)
    if fault:
        return fault
    if asked.iterations < MIN_ITERATIONS:
        return Fault(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > MAX_ITERATIONS:
        return Fault(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    return NO_FAULT


def _common_fault(state: ControllerState, name: str, mechanism: int) -> Fault:
    if state.image.metadata_version < SCRAM_LEVEL:
        return Fault(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not name:
        return Fault(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in frozenset(ScramMechanism):
        return Fault(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return NO_FAULT
