"""DescribeUserScramCredentials (key 50, version 0): the SCRAM mechanisms of users, without secrets (KIP-554).

* No users, or null, means all of them.  A user who is named more than once is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.network.request_context import RequestContext, specific_message
from barnabas.broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from barnabas.metadata.image import Image
from barnabas.metadata.scram import ScramMechanism
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.server import Broker

KEY = 50
_Result = DescribeUserScramCredentialsResponse.Result
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request: "
_MISSING = "Attempt to describe a user credential that does not exist: "


def handle(
    broker: Broker, request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.users:
        requested = Counter(user.name for user in request.users)
    else:
        requested = Counter({name for _, name in broker.image.scram})
    results = [_result(broker.image, name, count) for name, count in requested.items()]
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=0, error_message="", results=results
    )


def refuse(
    request: DescribeUserScramCredentialsRequest, code: ErrorCode, message: str
) -> DescribeUserScramCredentialsResponse:
    """Every user gets the error; as in Apache Kafka, the results have no user names."""
    text = specific_message(code, message)
    results = [_refused("", code, text) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0, error_code=code, error_message=text, results=results
    )


def _result(image: Image, name: str, count: int) -> _Result:
    if count > 1:
        return _refused(name, ErrorCode.DUPLICATE_RESOURCE, _TWICE + name)
    credentials = [
        image.scram[(mechanism, name)] for mechanism in ScramMechanism if (mechanism, name) in image.scram
    ]
    if not credentials:
        return _refused(name, ErrorCode.RESOURCE_NOT_FOUND, _MISSING + name)
    infos = [
        DescribeUserScramCredentialsResponse.CredentialInfo(
            mechanism=credential.mechanism, iterations=credential.iterations
        )
        for credential in credentials
    ]
    return _Result(user=name, error_code=0, error_message="", credential_infos=infos)


def _refused(name: str, code: ErrorCode, message: str | None) -> _Result:
    return _Result(user=name, error_code=code, error_message=message, credential_infos=[])
