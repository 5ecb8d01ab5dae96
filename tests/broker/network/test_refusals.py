"""The response to a request that failed as a whole, for every API and version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.dispatch import refusal
from barnabas.broker.network.routes import Role, Route, routes_for
from barnabas.config.option import Mode
from barnabas.protocol.apis import api
from barnabas.protocol.json_form import to_json
from barnabas.protocol.schema import Field, Schema
from tests.broker.worlds.front_world import node_of

CODE = ErrorCode.UNKNOWN_SERVER_ERROR
ELEMENTS = 2
# As Apache Kafka has it: its error is that of the elections, unless the request itself is refused.
FINE_AS_A_WHOLE = "ElectLeaders"
# Its response has an error only since version 3, and no element for a directory that was not looked at.
WITHOUT_ERROR = ("DescribeLogDirs", 3)
ERROR_FIELDS = {"errorCode", "partitionErrorCode"}
# How a client finds the result of an element of its request.
IDENTITIES = ("name", "topic", "topicName", "topicId", "groupId", "resourceName", "transactionalId")
NO_TOPIC_ID = str(Uuid())


def all_routes() -> dict[str, Route]:
    routes: dict[str, Route] = {}
    for role in Role:
        for route in routes_for(Mode.KRAFT, role, node_of().settings, Metrics()).values():
            routes[route.api.name] = route
    return routes


ROUTES = all_routes()


def filled(schema: Schema, version: int, number: int = 1) -> Any:
    """A message in which every field is set, and every array has two elements that differ."""
    made = schema.new()
    for field in schema.fields:
        if version in field.versions:
            items = [item_of(field, version, each + 1) for each in range(ELEMENTS)]
            setattr(made, field.attribute, items if field.is_array else item_of(field, version, number))
    return made


def item_of(field: Field, version: int, number: int) -> Any:
    if field.struct is not None:
        return filled(field.struct.schema, version, number)
    texts = {"string": f"text-{number}", "bytes": b"bytes", "record_data": b"records"}
    others = {"bool": True, "float64": 1.5, "uuid": Uuid(bytes([number]) * 16)}
    return {**texts, **others}.get(field.kind, number)


def error_codes(tree: Any) -> Iterator[int]:
    """All error codes at any depth."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name in ERROR_FIELDS:
                yield value
            else:
                yield from error_codes(value)
    elif isinstance(tree, list):
        for element in tree:
            yield from error_codes(element)


def expected_count(schema: Schema, version: int) -> int:
    """One error for the response, or else one for each of the innermost elements that have one."""
    fields = [field for field in schema.fields if version in field.versions]
    if any(field.attribute in ("error_code", "partition_error_code") for field in fields):
        return 1
    return sum(ELEMENTS * expected_count(field.struct.schema, version) for field in fields if field.struct)


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_refusal_reports_the_error_for_all_that_was_requested(name: str) -> None:
    route = ROUTES[name]
    known = api(route.api.key)
    for version in range(route.lowest, route.highest + 1):
        request = filled(known.request.schema, version)
        response: Any = refusal(route, request, CODE, "why")
        assert known.response.decode(response.encode(version), version).encode(version)
        codes = list(error_codes(to_json(response, version)))
        if name == FINE_AS_A_WHOLE and version > 0:
            assert codes.pop(0) == ErrorCode.NONE
            assert len(codes) == ELEMENTS**2
        if (name, version) < WITHOUT_ERROR and name == WITHOUT_ERROR[0]:
            assert codes == []
            continue
        assert set(codes) == {CODE}
        assert len(codes) >= expected_count(known.response.schema, version), version
        assert getattr(response, "throttle_time_ms", 0) == 0


def first_elements(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The elements of the first array of the request that has any."""
    arrays = [value for value in request.values() if isinstance(value, list) and isinstance(value[0], dict)]
    return arrays[0] if arrays else []


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_a_refusal_names_what_was_requested(name: str) -> None:
    """A client finds its topics and groups in the response by their names or ids, in the order it asked."""
    route = ROUTES[name]
    known = api(route.api.key)
    for version in range(route.lowest, route.highest + 1):
        request = to_json(filled(known.request.schema, version), version)
        response: Any = refusal(route, filled(known.request.schema, version), CODE, "why")
        for field, elements in to_json(response, version).items():
            if not isinstance(elements, list) or not elements or not isinstance(elements[0], dict):
                continue
            # Or those of each element, if the request nests them in what the response does not name.
            assert len(elements) in (ELEMENTS, ELEMENTS**2), field
            for key in IDENTITIES:
                requested = [each[key] for each in first_elements(request) if key in each]
                if key in elements[0] and requested and elements[0][key] != NO_TOPIC_ID:
                    assert [each[key] for each in elements] == requested[:ELEMENTS], (version, field, key)
