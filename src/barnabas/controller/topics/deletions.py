"""DeleteTopics, by name and by id (KIP-516)."""

from __future__ import annotations

from collections import Counter

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.controller.decision import NO_ERROR, ApiError, Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.controller.topics.topics import mutation_quota
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.records.metadata import RemoveTopicRecord
from barnabas.protocol.schema import Message

Result = DeleteTopicsResponse.DeletableTopicResult
# Before this version, disabled deletion was reported as an invalid request.
DISABLED_ERROR_VERSION = 3
# From this version on a client knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
STRICT_QUOTA_VERSION = 5


def delete_topics(state: ControllerState, request: DeleteTopicsRequest, context: Context) -> Decision:
    """DeleteTopics: each topic may be specified once, by name or by id."""
    if not state.settings["delete.topic.enable"]:
        if context.version < DISABLED_ERROR_VERSION:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
    results: list[Result] = []
    names = Counter(request.topic_names)
    ids: Counter[Uuid] = Counter()
    for topic in request.topics:
        topic_id = Uuid(topic.topic_id)
        if topic.name is not None and topic_id != ZERO_UUID:
            results.append(
                _refused(topic.name, topic_id, "You may not specify both topic name and topic id.")
            )
        elif topic.name is not None:
            names[topic.name] += 1
        elif topic_id != ZERO_UUID:
            ids[topic_id] += 1
        else:
            results.append(_refused(None, ZERO_UUID, "Neither topic name nor id were specified."))
    chosen = _choose(state, names, ids, results)
    quota = mutation_quota(state, context, STRICT_QUOTA_VERSION, validate_only=False)
    records: list[Message] = []
    for topic_id, name in chosen.items():
        api_error = NO_ERROR
        try:
            quota.record(len(state.image.topics[topic_id].partitions))
            records.append(RemoveTopicRecord(topic_id=topic_id))
        except KafkaError as error:
            api_error = ApiError.of(error)
        results.append(_result(name, topic_id, api_error))
    return Decision(records, DeleteTopicsResponse(throttle_time_ms=quota.throttle_ms, responses=results))


def _choose(
    state: ControllerState, names: Counter[str], ids: Counter[Uuid], results: list[Result]
) -> dict[Uuid, str]:
    """Returns the topics to delete, by id; adds an error to the results for the others."""
    results += [_refused(name, ZERO_UUID, "Duplicate topic name.") for name, n in names.items() if n > 1]
    results += [_refused(None, topic_id, "Duplicate topic id.") for topic_id, n in ids.items() if n > 1]
    duplicates = {topic_id for topic_id, count in ids.items() if count > 1}
    chosen: dict[Uuid, str] = {}
    for topic_id, count in ids.items():
        if count == 1:
            topic = state.image.topics.get(topic_id)
            if topic is None:
                results.append(_result(None, topic_id, ApiError.default_for(ErrorCode.UNKNOWN_TOPIC_ID)))
            else:
                chosen[topic_id] = topic.name
    for name, count in names.items():
        if count > 1:
            continue
        known_id = state.image.topic_ids.get(name)
        if known_id is None:
            results.append(
                _result(name, ZERO_UUID, ApiError.default_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            )
        elif known_id in duplicates or known_id in chosen:
            duplicates.add(known_id)
            chosen.pop(known_id, None)
            results.append(
                _refused(name, known_id, "The provided topic name maps to an ID that was already supplied.")
            )
        else:
            chosen[known_id] = name
    return chosen


def _refused(name: str | None, topic_id: Uuid, message: str) -> Result:
    return _result(name, topic_id, ApiError(ErrorCode.INVALID_REQUEST, message))


def _result(name: str | None, topic_id: Uuid, api_error: ApiError) -> Result:
    return Result(name=name, topic_id=topic_id, error_code=api_error.code, error_message=api_error.message)
