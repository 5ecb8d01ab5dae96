"""AlterClientQuotas and DescribeClientQuotas: quotas of users, clients and IP addresses (KIP-546, KIP-612).

Enforcement belongs in the broker.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.hashing import java_string_hash
from barnabas.base.java_order import hash_map_order, order_by_hash
from barnabas.controller.decision import ApiError, Context, Decision
from barnabas.controller.state import ControllerState
from barnabas.metadata.image import Image, QuotaEntity
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from barnabas.protocol.records.metadata import ClientQuotaRecord
from barnabas.protocol.schema import Message

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = frozenset((USER, CLIENT_ID, IP))
MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2
# Java compares the value, a double, with Long.MAX_VALUE as a double.
LARGEST_LONG = 2**63
# Keys with the maximum of their type and its name; None if a fractional value is allowed.
USER_AND_CLIENT_KEYS: Mapping[str, tuple[int, str] | None] = {
    "producer_byte_rate": (LARGEST_LONG, "a LONG"),
    "consumer_byte_rate": (LARGEST_LONG, "a LONG"),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
IP_KEYS: Mapping[str, tuple[int, str] | None] = {"connection_creation_rate": (2**31 - 1, "an INT")}
SMALLEST_FRACTION = 1e-6
# The capacity of the entity map in Apache Kafka; it determines the order of the parts.
_ENTITY_BUCKETS = 4
# Its maps of entities and of their quotas start with one bucket and grow with their keys, which are put into
# them out of maps of changes, of the usual size.
_FEWEST_BUCKETS = 1
LOCALHOST = "localhost"


def alter_quotas(state: ControllerState, request: AlterClientQuotasRequest, context: Context) -> Decision:
    """Each entity is altered or rejected individually; a duplicate entity is rejected."""
    records: list[Message] = []
    api_errors: dict[QuotaEntity, ApiError] = {}
    for entry in request.entries:
        # If an entity type occurs twice, the last name wins.
        entity = tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))
        if entity in api_errors:
            api_errors[entity] = _invalid(f"Ignoring duplicate entity {_format_entity(entity)}")
            continue
        api_errors[entity] = ApiError()
        try:
            records += _alter(state, entity, entry)
        except KafkaError as error:
            api_errors[entity] = ApiError.of(error)
    reply = AlterClientQuotasResponse(
        throttle_time_ms=0,
        entries=[
            AlterClientQuotasResponse.EntryData(
                error_code=api_error.code,
                error_message=api_error.message,
                entity=[
                    AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=dict(entity)[kind])
                    for kind in hash_map_order(dict(entity), _ENTITY_BUCKETS)
                ],
            )
            for entity, api_error in api_errors.items()
        ],
    )
    return Decision([] if request.validate_only else records, reply)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _refuse(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _format_entity(entity: QuotaEntity) -> str:
    names = {kind: "null" if name is None else name for kind, name in entity}
    return f"ClientQuotaEntity(entries={{{', '.join(f'{kind}={names[kind]}' for kind in names)}}})"


def _alter(
    state: ControllerState, entity: QuotaEntity, entry: AlterClientQuotasRequest.EntryData
) -> list[Message]:
    requested: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in requested:
            # Apache Kafka reports a duplicate key as a duplicate entity.
            raise _refuse(f"Ignoring duplicate entity {_format_entity(entity)}")
        requested[op.key] = None if op.remove else op.value
    keys = _valid_keys(entity)
    current: Mapping[str, float] = state.image.quotas.get(entity, {})
    records: list[Message] = []
    for key in hash_map_order(requested):
        value = requested[key]
        if value is None:
            if key in current:
                records.append(_record(entity, key, 0.0, remove=True))
            continue
        _check_value(keys, key, value)
        if current.get(key) != value:
            records.append(_record(entity, key, value, remove=False))
    return records


def _record(entity: QuotaEntity, key: str, value: float, *, remove: bool) -> ClientQuotaRecord:
    parts = [ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def _valid_keys(entity: QuotaEntity) -> Mapping[str, tuple[int, str] | None]:
    """Returns the quota keys that are valid for this entity."""
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise _refuse("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _refuse(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refuse(f"Empty {kind} not supported")
    if IP not in kinds:
        return USER_AND_CLIENT_KEYS
    if len(kinds) > 1:
        raise _refuse(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = dict(entity)[IP]
    if address is not None and not _is_address(address):
        raise _refuse(f"{address} is not a valid IP or resolvable host.")
    return IP_KEYS


def _is_address(text: str) -> bool:
    """Whether this is a literal address; names other than localhost are not resolved."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == LOCALHOST
    return True


def _check_value(keys: Mapping[str, tuple[int, str] | None], key: str, value: float) -> None:
    if key not in keys:
        raise _refuse(f"Invalid configuration key {key}")
    if value <= 0.0:
        raise _refuse(f"Quota {key} must be greater than 0")
    bounds = keys[key]
    if bounds is not None:
        largest, type_name = bounds
        if value > largest:
            raise _refuse(f"Proposed value for {key} is too large for {type_name}.")
        if value % 1.0 > SMALLEST_FRACTION:
            raise _refuse(f"{key} cannot be a fractional value.")


# Describing


def describe_quotas(image: Image, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas: served from the image, without the controller."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in request.components:
        _add_component(component, exact, specified)
    named = exact.keys() | specified
    if IP in named and len(named) > 1:
        raise _refuse(
            "Invalid entity filter component combination. IP filter component should not be used with user or"
            " clientId filter component."
        )
    entries = [
        DescribeClientQuotasResponse.EntryData(
            entity=[
                DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                for kind, name in entity
            ],
            values=[
                DescribeClientQuotasResponse.ValueData(key=key, value=value)
                for key, value in _quotas_in_order(image.quotas[entity])
            ],
        )
        for entity in _entities_in_order(image)
        if _matches(dict(entity), exact, specified, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message="", entries=entries)


def _quotas_in_order(quotas: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(key, quotas[key]) for key in hash_map_order(hash_map_order(quotas), _FEWEST_BUCKETS)]


def _entities_in_order(image: Image) -> list[QuotaEntity]:
    changed = order_by_hash(sorted(image.quotas, key=repr), _entity_hash)
    return order_by_hash(changed, _entity_hash, _FEWEST_BUCKETS)


def _entity_hash(entity: QuotaEntity) -> int:
    """`hashCode()` of Apache Kafka's `ClientQuotaEntity`."""
    return 31 + sum(java_string_hash(kind) ^ java_string_hash(name or "") for kind, name in entity)


def _add_component(
    component: DescribeClientQuotasRequest.ComponentData, exact: dict[str, str | None], specified: set[str]
) -> None:
    kind = component.entity_type
    if not kind:
        raise _refuse("Invalid empty entity type.")
    if kind in exact or kind in specified:
        raise _refuse(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    match_type = component.match_type
    if match_type == MATCH_EXACT:
        if component.match is None:
            raise _refuse("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        exact[kind] = component.match
    elif match_type in (MATCH_DEFAULT, MATCH_SPECIFIED):
        if component.match is not None:
            name = "DEFAULT" if match_type == MATCH_DEFAULT else "SPECIFIED"
            raise _refuse(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
        if match_type == MATCH_DEFAULT:
            exact[kind] = None
        else:
            specified.add(kind)
    else:
        raise _refuse(f"Unknown match type {match_type}")


def _matches(
    entity: Mapping[str, str | None], exact: Mapping[str, str | None], specified: set[str], *, strict: bool
) -> bool:
    if strict and len(entity) != len(exact) + len(specified):
        return False
    return specified <= entity.keys() and all(
        kind in entity and entity[kind] == name for kind, name in exact.items()
    )
