"""What a broker decides itself in ZooKeeper mode: options, quotas, SCRAM credentials and ACLs.

The decision is the controller's of KRaft mode, on this broker's image; its records become the znodes of the
entities that they change.  The image gets what the znode has now first, so that nothing is lost which another
broker has just written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.modes.zookeeper.acl_store import AclStore
from barnabas.broker.modes.zookeeper.controller.zookeeper_controller import ZOOKEEPER_POLICY
from barnabas.broker.modes.zookeeper.entities import (
    USERS,
    Entity,
    apply_records,
    entity_of_quota,
    entity_of_record,
    entity_of_resource,
    records_of,
)
from barnabas.broker.modes.zookeeper.entity_store import EntityStore
from barnabas.broker.modes.zookeeper.znodes.json_data import MalformedZnodeError
from barnabas.broker.network.request_steps import Steps
from barnabas.config.node.node import Node
from barnabas.controller.decision import Context, Decision
from barnabas.controller.machine import Controller
from barnabas.controller.state import ControllerOptions
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource, Image
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from barnabas.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from barnabas.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.create_acls import CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsRequest
from barnabas.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.random import Random
from barnabas.runtime.zookeeper.client import ZooKeeperCode, ZooKeeperError

EntityRequest: TypeAlias = (
    AlterConfigsRequest
    | IncrementalAlterConfigsRequest
    | AlterClientQuotasRequest
    | AlterUserScramCredentialsRequest
)
LOCAL_REQUESTS = (
    AlterConfigsRequest,
    IncrementalAlterConfigsRequest,
    AlterClientQuotasRequest,
    CreateAclsRequest,
    DeleteAclsRequest,
)
INVALID_VALUE = "Invalid value "
_NO_SUCH_RESOURCES = (ConfigResource.GROUP, ConfigResource.CLIENT_METRICS)


class AdminRequests:
    """Carries out these requests on one broker."""

    def __init__(
        self,
        node: Callable[[], Node],
        image: Callable[[], Image],
        entities: EntityStore,
        acls: AclStore,
        random: Random,
    ) -> None:
        self._node = node
        self._image = image
        self._entities = entities
        self._acls = acls
        self._random = random

    def carry_out(self, request: Message, version: int, principal: str) -> Steps[Message]:
        """Returns the response when everything is written; raises if it cannot be."""
        try:
            if isinstance(request, CreateAclsRequest | DeleteAclsRequest):
                decision = self._decide(self._image(), request, version, principal)
                yield from self._acls.write(decision.records)
                return decision.reply
            assert isinstance(
                request,
                AlterConfigsRequest
                | IncrementalAlterConfigsRequest
                | AlterClientQuotasRequest
                | AlterUserScramCredentialsRequest,
            )
            return (yield from self._alter_entities(request, version, principal))
        except ZooKeeperError as error:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if error.code in (ZooKeeperCode.CONNECTION_LOSS, ZooKeeperCode.SESSION_EXPIRED):
                code = ErrorCode.REQUEST_TIMED_OUT
            raise KafkaError(code, f"ZooKeeper did not take the change: {error}") from error
        except MalformedZnodeError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{error}; it is left alone") from error

    def _alter_entities(self, request: EntityRequest, version: int, principal: str) -> Steps[Message]:
        _refuse_resources(request)
        options: dict[Entity, dict[str, str]] = {}
        delta = Delta(self._image())
        for entity in dict.fromkeys(_entities_of(request)):
            options[entity] = yield from self._entities.options_of(entity)
            for record in list(records_of(delta.image, entity, options[entity])):
                delta.replay(record)
        decision = self._decide(delta.image, request, version, principal)
        changes: dict[Entity, list[Message]] = {}
        for record in decision.records:
            entity_of = entity_of_record(record)
            if entity_of is not None:
                changes.setdefault(entity_of, []).append(record)
        for entity, records in changes.items():
            yield from self._entities.write(entity, apply_records(options.get(entity, {}), records))
        if isinstance(decision.reply, AlterConfigsResponse | IncrementalAlterConfigsResponse):
            _name_resources(decision.reply)
        return decision.reply

    def _decide(self, image: Image, request: Message, version: int, principal: str) -> Decision:
        node = self._node()
        options = ControllerOptions(node.node_id, "", node.settings, policy=ZOOKEEPER_POLICY)
        controller = Controller(options, self._random)
        controller.state.load(image)
        context = Context(now_ns=0, next_offset=image.offset + 1, version=version, principal=principal)
        return controller.decide(request, context)


def _name_resources(reply: AlterConfigsResponse | IncrementalAlterConfigsResponse) -> None:
    """In this mode the message about an invalid value says of which resource."""
    for each in reply.responses:
        said = each.error_message or ""
        if each.error_code == ErrorCode.INVALID_CONFIG and said.startswith(INVALID_VALUE):
            kind = ConfigResource(each.resource_type).name
            resource = f"ConfigResource(type={kind}, name='{each.resource_name}')"
            each.error_message = f"Invalid config value for resource {resource}: {said}"


def _refuse_resources(request: EntityRequest) -> None:
    """ZooKeeper mode has no options of groups and no subscriptions to clients' metrics."""
    if isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        for resource in request.resources:
            if resource.resource_type in _NO_SUCH_RESOURCES:
                kind = ConfigResource(resource.resource_type).name
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"a cluster on ZooKeeper has no options of type {kind}"
                )


def _entities_of(request: EntityRequest) -> Iterable[Entity]:
    match request:
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
            for resource in request.resources:
                if resource.resource_type in (ConfigResource.TOPIC, ConfigResource.BROKER):
                    yield entity_of_resource(resource.resource_type, resource.resource_name)
        case AlterClientQuotasRequest():
            for entry in request.entries:
                parts = {part.entity_type: part.entity_name for part in entry.entity}
                if parts and parts.keys() <= {"user", "client-id", "ip"}:
                    yield entity_of_quota(tuple(sorted(parts.items())))
        case AlterUserScramCredentialsRequest():
            names = [change.name for change in request.deletions]
            for name in (*names, *(change.name for change in request.upsertions)):
                if name:
                    yield Entity(USERS, name)
