"""Apache Kafka's StandardAuthorizer (KIP-801): authorizes by the ACLs of the cluster.

Contains its options, the ACLs of image and deltas, a cache of results, and the log of denials.  The
evaluation of ACLs belongs in security/acl_evaluation.py.

Every produce and fetch is authorized, so results are cached until an ACL changes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.base.log_text import shown
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.security.authorizer import (
    KNOWN_OPERATIONS,
    AllowEverything,
    Authorizer,
    Operation,
    Resource,
)
from barnabas.config.errors import ConfigError
from barnabas.config.node.security import AUTHORIZER
from barnabas.config.settings import Settings
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.apis import Api, api
from barnabas.protocol.records.metadata import AccessControlEntryRecord
from barnabas.security.acl_evaluation import AclIndex, AuthorizationResult, Requester
from barnabas.security.acls import PatternType, Permission, acl_host

logger = logging.getLogger(__name__)

SUPER_USERS = "super.users"
ALLOW_IF_NO_ACL = "allow.everyone.if.no.acl.found"
# Cached results, and the characters of their names; at the limit the cache is cleared.  Names longer than any
# topic's are not cached.
MAX_CACHED_RESULTS = 100_000
MAX_CACHED_CHARACTERS = 8_000_000
MAX_CACHED_NAME = 1_000
# Denials that are logged per minute; the others are counted in one line.
MAX_LOGGED_PER_MINUTE = 100
_MINUTE_NS = 60_000_000_000

# Principal, host, operation, resource type, name; no name if any resource is meant.
_Query = tuple[str, str, int, int, str | None]


class StandardAuthorizer:
    """Super users may do everything; others what ACLs allow and none denies."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._acls = self._empty_acls()
        self._results: dict[_Query, bool] = {}
        # Denials that were logged; the same denial is not logged again before ACLs change.
        self._logged: set[_Query] = set()
        self._cached_characters = 0
        # The current minute and its number of denials.
        self._minute = 0
        self._denied_in_minute = 0

    def _empty_acls(self) -> AclIndex:
        return AclIndex(self._super_users, allow_if_no_acl=self._allow_if_no_acl)

    # ACLs ---------------------------------------------------------------------------------------------------

    def acls(self) -> Iterable[AccessControlEntryRecord]:
        return self._acls.records()

    def load(self, image: Image) -> None:
        self._acls = self._empty_acls()
        for record in image.acls.values():
            self._acls.add(record)
        self._clear_cache()

    def apply(self, delta: Delta) -> None:
        for acl_id in delta.acls:
            record = delta.image.acls.get(acl_id)
            if record is None:
                self._acls.remove(acl_id)
            else:
                self._acls.add(record)
        if delta.acls:
            self._clear_cache()

    def _clear_cache(self) -> None:
        self._results.clear()
        self._logged.clear()
        self._cached_characters = 0

    # Authorization ------------------------------------------------------------------------------------------

    def may_call(self, context: RequestContext, api: Api) -> bool:
        """ACLs are about resources, which are known only after the request is decoded."""
        return True

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        query = (context.principal, context.peer.host, operation, resource, name)
        allowed = self._results.get(query)
        if allowed is None:
            allowed = self._cache(query, self._evaluate(context, operation, resource, name).allowed)
        if not allowed and not quiet and query not in self._logged:
            self._denied(query, context, operation, resource, name)
        return allowed

    def _denied(
        self,
        query: _Query,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
    ) -> None:
        """Logs the denial, unless the limit of this minute is reached."""
        minute = context.received_ns // _MINUTE_NS
        if minute != self._minute:
            if self._denied_in_minute > MAX_LOGGED_PER_MINUTE:
                suppressed = self._denied_in_minute - MAX_LOGGED_PER_MINUTE
                logger.info("%d more operations were denied within a minute", suppressed)
            self._minute, self._denied_in_minute = minute, 0
        self._denied_in_minute += 1
        if self._denied_in_minute <= MAX_LOGGED_PER_MINUTE:
            if query in self._results:
                self._logged.add(query)
            self._log_denial(context, operation, resource, name)

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        query = (context.principal, context.peer.host, operation, resource, None)
        allowed = self._results.get(query)
        if allowed is None:
            allowed = self._cache(query, self._acls.authorize_any(_requester(context), operation, resource))
        return allowed

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        return sum(
            1 << operation
            for operation in KNOWN_OPERATIONS[resource]
            if self.allows(context, operation, resource, name, quiet=True)
        )

    def _evaluate(
        self, context: RequestContext, operation: Operation, resource: Resource, name: str
    ) -> AuthorizationResult:
        return self._acls.authorize(_requester(context), operation, resource, name)

    def _cache(self, query: _Query, allowed: bool) -> bool:
        size = len(query[0]) + len(query[4] or "")
        if size > MAX_CACHED_NAME:
            return allowed
        if len(self._results) >= MAX_CACHED_RESULTS or self._cached_characters + size > MAX_CACHED_CHARACTERS:
            self._clear_cache()
        self._cached_characters += size
        self._results[query] = allowed
        return allowed

    def _log_denial(
        self, context: RequestContext, operation: Operation, resource: Resource, name: str
    ) -> None:
        """Logs a denial in Apache Kafka's format."""
        result = self._evaluate(context, operation, resource, name)
        logger.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s"
            " for request = %s based on rule %s",
            shown(context.principal),
            operation.name,
            _requester(context).host,
            resource.name.title().replace("_", ""),
            shown(name),
            api(context.api_key).name,
            result.reason if result.acl is None else _shown(result.acl),
        )


def _requester(context: RequestContext) -> Requester:
    return Requester(context.principal, acl_host(context.peer.host))


def _shown(acl: AccessControlEntryRecord) -> str:
    return (
        f"{Permission(acl.permission_type).name} {Operation(acl.operation).name} to {shown(acl.principal)}"
        f" from {shown(acl.host)} on {PatternType(acl.pattern_type).name} {shown(acl.resource_name)}"
    )


# Options ----------------------------------------------------------------------------------------------------


def authorizer_for(settings: Settings) -> Authorizer:
    """Returns the configured authorizer; the configuration accepts only one class."""
    if not settings[AUTHORIZER]:
        for name in (SUPER_USERS, ALLOW_IF_NO_ACL):
            if name in settings.given:
                logger.warning(
                    "%s is set, but %s is not: ACLs are ignored, and every principal may do everything",
                    name,
                    AUTHORIZER,
                )
        return AllowEverything()
    allow = str(settings.given.get(ALLOW_IF_NO_ACL, "")).strip().lower() == "true"
    return StandardAuthorizer(read_super_users(settings), allow_if_no_acl=allow)


def read_super_users(settings: Settings) -> list[str]:
    """Reads principals separated by semicolons, as distinguished names contain commas."""
    users = [user.strip() for user in str(settings.given.get(SUPER_USERS, "")).split(";")]
    for user in users:
        kind, colon, _ = user.partition(":")
        if user and not (kind and colon):
            raise ConfigError(
                f"expected a string in format principalType:principalName but got {user} in {SUPER_USERS}"
            )
    return [user for user in users if user]
