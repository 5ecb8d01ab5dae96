"""The authorizer that judges by the rules of the cluster: Apache Kafka's StandardAuthorizer (KIP-801).

What lives here: its options, the rules as the image and its deltas give them, verdicts remembered, and the
line about a refusal.  What may not: how a verdict comes about (security/rules).

The same question comes with every produce and fetch, so verdicts are kept until a rule changes.
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
from barnabas.security.acls import PatternType, Permission, host_in_rules
from barnabas.security.rules import AclRules, Verdict, Who

logger = logging.getLogger(__name__)

SUPER_USERS = "super.users"
ALLOW_IF_NO_RULE = "allow.everyone.if.no.acl.found"
# Verdicts that are remembered, and the characters of the names in them; at the limit all are forgotten and
# found anew.  Longer names than any topic has are not remembered at all.
MAX_VERDICTS = 100_000
MAX_VERDICT_CHARACTERS = 8_000_000
LONGEST_REMEMBERED = 1_000
# Refusals that are logged in a minute; of the others one line tells the number.
MAX_TOLD_A_MINUTE = 100
_MINUTE_NS = 60_000_000_000

# Principal, host, operation, kind of resource, name; no name where any resource will do.
_Question = tuple[str, str, int, int, str | None]


class StandardAuthorizer:
    """Super users may do everything, others what rules allow and none denies."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_rule: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_rule = allow_if_no_rule
        self._rules = self._no_rules()
        self._verdicts: dict[_Question, bool] = {}
        # Refusals that are in the log; the same one again is not told again before rules change.
        self._told: set[_Question] = set()
        self._remembered_characters = 0
        # The minute in which refusals are counted, and how many there were.
        self._minute = 0
        self._refused_in_minute = 0

    def _no_rules(self) -> AclRules:
        return AclRules(self._super_users, allow_if_no_rule=self._allow_if_no_rule)

    # The rules ----------------------------------------------------------------------------------------------

    def rules(self) -> Iterable[AccessControlEntryRecord]:
        return self._rules.records()

    def load(self, image: Image) -> None:
        self._rules = self._no_rules()
        for record in image.acls.values():
            self._rules.add(record)
        self._forget()

    def apply(self, delta: Delta) -> None:
        for rule_id in delta.acls:
            record = delta.image.acls.get(rule_id)
            if record is None:
                self._rules.remove(rule_id)
            else:
                self._rules.add(record)
        if delta.acls:
            self._forget()

    def _forget(self) -> None:
        self._verdicts.clear()
        self._told.clear()
        self._remembered_characters = 0

    # The questions ------------------------------------------------------------------------------------------

    def may_call(self, context: RequestContext, api: Api) -> bool:
        """Rules are about resources: which a request is for is known when it is read."""
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
        question = (context.principal, context.peer.host, operation, resource, name)
        allowed = self._verdicts.get(question)
        if allowed is None:
            allowed = self._remember(question, self._judge(context, operation, resource, name).allowed)
        if not allowed and not quiet and question not in self._told:
            self._refused(question, context, operation, resource, name)
        return allowed

    def _refused(
        self,
        question: _Question,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
    ) -> None:
        """Log it, unless very many were just logged: names are made more quickly than read."""
        minute = context.received_ns // _MINUTE_NS
        if minute != self._minute:
            if self._refused_in_minute > MAX_TOLD_A_MINUTE:
                more = self._refused_in_minute - MAX_TOLD_A_MINUTE
                logger.info("%d more operations were denied within a minute", more)
            self._minute, self._refused_in_minute = minute, 0
        self._refused_in_minute += 1
        if self._refused_in_minute <= MAX_TOLD_A_MINUTE:
            if question in self._verdicts:
                self._told.add(question)
            self._tell(context, operation, resource, name)

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        question = (context.principal, context.peer.host, operation, resource, None)
        allowed = self._verdicts.get(question)
        if allowed is None:
            allowed = self._remember(question, self._rules.judge_any(_who(context), operation, resource))
        return allowed

    def authorized_operations(self, context: RequestContext, resource: Resource, name: str) -> int:
        return sum(
            1 << operation
            for operation in KNOWN_OPERATIONS[resource]
            if self.allows(context, operation, resource, name, quiet=True)
        )

    def _judge(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> Verdict:
        return self._rules.judge(_who(context), operation, resource, name)

    def _remember(self, question: _Question, allowed: bool) -> bool:
        size = len(question[0]) + len(question[4] or "")
        if size > LONGEST_REMEMBERED:
            return allowed
        if len(self._verdicts) >= MAX_VERDICTS or self._remembered_characters + size > MAX_VERDICT_CHARACTERS:
            self._forget()
        self._remembered_characters += size
        self._verdicts[question] = allowed
        return allowed

    def _tell(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> None:
        """As Apache Kafka words it, so that whoever reads its logs finds the same."""
        verdict = self._judge(context, operation, resource, name)
        logger.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:LITERAL:%s"
            " for request = %s based on rule %s",
            shown(context.principal),
            operation.name,
            _who(context).host,
            resource.name.title().replace("_", ""),
            shown(name),
            api(context.api_key).name,
            verdict.why if verdict.rule is None else _shown(verdict.rule),
        )


def _who(context: RequestContext) -> Who:
    return Who(context.principal, host_in_rules(context.peer.host))


def _shown(rule: AccessControlEntryRecord) -> str:
    return (
        f"{Permission(rule.permission_type).name} {Operation(rule.operation).name} to {shown(rule.principal)}"
        f" from {shown(rule.host)} on {PatternType(rule.pattern_type).name} {shown(rule.resource_name)}"
    )


# Options ----------------------------------------------------------------------------------------------------


def authorizer_for(settings: Settings) -> Authorizer:
    """The authorizer that a node's file asks for; there is one, others are refused with the file."""
    if not settings[AUTHORIZER]:
        for name in (SUPER_USERS, ALLOW_IF_NO_RULE):
            if name in settings.given:
                logger.warning(
                    "%s is set, but %s is not: no rule is looked at, and everybody may do everything",
                    name,
                    AUTHORIZER,
                )
        return AllowEverything()
    allow = str(settings.given.get(ALLOW_IF_NO_RULE, "")).strip().lower() == "true"
    return StandardAuthorizer(read_super_users(settings), allow_if_no_rule=allow)


def read_super_users(settings: Settings) -> list[str]:
    """Principals, separated by semicolons because certificates' names have commas."""
    users = [user.strip() for user in str(settings.given.get(SUPER_USERS, "")).split(";")]
    for user in users:
        kind, colon, _ = user.partition(":")
        if user and not (kind and colon):
            raise ConfigError(
                f"expected a string in format principalType:principalName but got {user} in {SUPER_USERS}"
            )
    return [user for user in users if user]
