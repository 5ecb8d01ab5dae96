"""Errors about brokers, the cluster, its configuration and security.

One class per error code; its docstring is the advice shown to users.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.base import (
    AuthenticationError,
    AuthorizationError,
    ClientError,
    InvalidMetadataError,
    RetriableError,
)


class UnknownServerError(ClientError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker failed internally: see its log."""


class RequestTimedOutError(RetriableError, code=ErrorCode.REQUEST_TIMED_OUT):
    """The broker did not finish in time: try again, or allow more time."""


class BrokerNotAvailableError(ClientError, code=ErrorCode.BROKER_NOT_AVAILABLE):
    """The broker is not alive: try another one, or start it."""


class StaleControllerEpochError(ClientError, code=ErrorCode.STALE_CONTROLLER_EPOCH):
    """The controller has changed: try again."""


class NetworkError(InvalidMetadataError, code=ErrorCode.NETWORK_EXCEPTION):
    """The connection broke before the response arrived: the request may have been executed all the same."""


class NotControllerError(RetriableError, code=ErrorCode.NOT_CONTROLLER):
    """The controller has moved: fresh metadata names it."""


class TopicAuthorizationFailedError(AuthorizationError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """Ask for an ACL on the topic, or use another principal."""


class GroupAuthorizationFailedError(AuthorizationError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """Ask for an ACL on the group, or use another principal."""


class ClusterAuthorizationFailedError(AuthorizationError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """Ask for an ACL on the cluster, or use another principal."""


class TransactionalIdAuthorizationFailedError(
    AuthorizationError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
):
    """Ask for an ACL on the transactional id, or use another principal."""


class DelegationTokenAuthorizationFailedError(
    AuthorizationError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
):
    """Ask for an ACL on delegation tokens, or use another principal."""


class UnsupportedSaslMechanismError(AuthenticationError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """Choose a `sasl.mechanism` that the listener has enabled."""


class IllegalSaslStateError(AuthenticationError, code=ErrorCode.ILLEGAL_SASL_STATE):
    """Check `security.protocol`: the listener expects another one."""


class SaslAuthenticationFailedError(AuthenticationError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """Check user and password (`sasl.jaas.config`)."""


class SecurityDisabledError(ClientError, code=ErrorCode.SECURITY_DISABLED):
    """Configure an authorizer on the brokers (`authorizer.class.name`)."""


class UnsupportedVersionError(ClientError, code=ErrorCode.UNSUPPORTED_VERSION):
    """The broker is too old or too new for this: update the older of the two."""


class InvalidConfigError(ClientError, code=ErrorCode.INVALID_CONFIG):
    """Correct the option."""


class InvalidRequestError(ClientError, code=ErrorCode.INVALID_REQUEST):
    """The request makes no sense to the broker: check the arguments."""


class PolicyViolationError(ClientError, code=ErrorCode.POLICY_VIOLATION):
    """The cluster's policy forbids it: change what the message names."""


class OperationNotAttemptedError(ClientError, code=ErrorCode.OPERATION_NOT_ATTEMPTED):
    """Another part of the same request failed: correct that one and send the request again."""


class ListenerNotFoundError(InvalidMetadataError, code=ErrorCode.LISTENER_NOT_FOUND):
    """The leader has no listener of this name: configure the same listeners on every broker."""


class StaleBrokerEpochError(ClientError, code=ErrorCode.STALE_BROKER_EPOCH):
    """The broker has registered again: try again."""


class DelegationTokenAuthDisabledError(ClientError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
    """Set `delegation.token.secret.key` on the brokers."""


class DelegationTokenNotFoundError(ClientError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
    """Check the token: the cluster does not know it."""


class DelegationTokenOwnerMismatchError(ClientError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
    """Only the owner and the renewers of a token may change it."""


class DelegationTokenRequestNotAllowedError(ClientError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED):
    """Authenticate with SASL or with a TLS certificate, not with a token."""


class DelegationTokenExpiredError(ClientError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED):
    """Create a new token."""


class InvalidPrincipalTypeError(ClientError, code=ErrorCode.INVALID_PRINCIPAL_TYPE):
    """Use principals of the type User."""


class ResourceNotFoundError(ClientError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """Check the name: there is no such resource."""


class DuplicateResourceError(ClientError, code=ErrorCode.DUPLICATE_RESOURCE):
    """Name each resource once."""


class UnacceptableCredentialError(ClientError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL):
    """Choose a password that is not empty and a number of iterations that is allowed."""


class InconsistentVoterSetError(ClientError, code=ErrorCode.INCONSISTENT_VOTER_SET):
    """The controllers disagree about the voters: compare their configurations."""


class InvalidUpdateVersionError(ClientError, code=ErrorCode.INVALID_UPDATE_VERSION):
    """The state has changed in the meantime: read it again, then try again."""


class FeatureUpdateFailedError(ClientError, code=ErrorCode.FEATURE_UPDATE_FAILED):
    """The cluster cannot change the feature now: see the controller's log."""


class PrincipalDeserializationFailureError(ClientError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE):
    """The brokers' `principal.builder.class` differs: configure the same one on all of them."""


class SnapshotNotFoundError(ClientError, code=ErrorCode.SNAPSHOT_NOT_FOUND):
    """The snapshot was deleted: request the newest one."""


class PositionOutOfRangeError(ClientError, code=ErrorCode.POSITION_OUT_OF_RANGE):
    """Request a position within the snapshot."""


class DuplicateBrokerRegistrationError(ClientError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION):
    """Another broker runs with the same `node.id`: stop it, or choose another id."""


class BrokerIdNotRegisteredError(ClientError, code=ErrorCode.BROKER_ID_NOT_REGISTERED):
    """Check the broker's id: the cluster does not know it."""


class InconsistentClusterIdError(ClientError, code=ErrorCode.INCONSISTENT_CLUSTER_ID):
    """This broker belongs to another cluster: check the address."""


class IneligibleReplicaError(ClientError, code=ErrorCode.INELIGIBLE_REPLICA):
    """A replica is fenced or shutting down and cannot join the ISR yet: try again."""


class NewLeaderElectedError(ClientError, code=ErrorCode.NEW_LEADER_ELECTED):
    """The change was made, and the partition has a new leader."""


class MismatchedEndpointTypeError(ClientError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE):
    """Use `bootstrap.servers` for brokers and `bootstrap.controllers` for controllers."""


class UnsupportedEndpointTypeError(ClientError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE):
    """Request brokers or controllers."""


class UnknownControllerIdError(ClientError, code=ErrorCode.UNKNOWN_CONTROLLER_ID):
    """Check the controller's id: the cluster does not know it."""


class UnknownSubscriptionIdError(ClientError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID):
    """Request the telemetry subscription again."""


class TelemetryTooLargeError(ClientError, code=ErrorCode.TELEMETRY_TOO_LARGE):
    """Push fewer metrics at a time."""


class InvalidRegistrationError(ClientError, code=ErrorCode.INVALID_REGISTRATION):
    """Correct the broker's configuration: its listeners or directories are not acceptable."""


class InvalidVoterKeyError(ClientError, code=ErrorCode.INVALID_VOTER_KEY):
    """The voter's directory id does not match: check its `meta.properties`."""


class DuplicateVoterError(ClientError, code=ErrorCode.DUPLICATE_VOTER):
    """The controller is a voter already: there is nothing to do."""


class VoterNotFoundError(ClientError, code=ErrorCode.VOTER_NOT_FOUND):
    """Check id and directory id: there is no such voter."""


class RebootstrapRequiredError(ClientError, code=ErrorCode.REBOOTSTRAP_REQUIRED):
    """The client's metadata is too old: it starts over from its bootstrap servers."""
