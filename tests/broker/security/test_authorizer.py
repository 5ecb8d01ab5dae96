"""The StandardAuthorizer: ACLs of image and deltas, the cache, the log of denials, the configuration."""

from __future__ import annotations

import inspect
import logging
import re
import sys
from functools import partial
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role, routes_for
from barnabas.broker.security.authorizer import AllowEverything, Operation, Resource
from barnabas.broker.security.standard_authorizer import (
    MAX_CACHED_NAME,
    MAX_LOGGED_PER_MINUTE,
    StandardAuthorizer,
    authorizer_for,
)
from barnabas.config.errors import ConfigError
from barnabas.config.option import Mode
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.apis import api_named
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.network.network import Address
from barnabas.security import acl_evaluation
from barnabas.security.acls import Permission
from tests.broker.worlds.front_world import Front, node_of
from tests.security.test_acl_evaluation import rule

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
FETCH = 1


def context(principal: str = "User:bob", host: str = "127.0.0.1") -> RequestContext:
    return RequestContext(
        FETCH, 12, 1, "c", principal=principal, listener="PLAINTEXT", peer=Address(host, 5), received_ns=0
    )


def changed(image: Image, *records: Message) -> Delta:
    delta = Delta(image)
    for record in records:
        delta.replay(record)
    return delta


def reads(authorizer: StandardAuthorizer, name: str, connection: RequestContext | None = None) -> bool:
    return authorizer.allows(connection or context(), Operation.READ, Resource.TOPIC, name)


def test_rules_come_from_the_image_and_its_deltas() -> None:
    first, second = rule("a"), rule("b")
    authorizer = StandardAuthorizer()
    started = changed(EMPTY_IMAGE, first).image
    authorizer.load(started)
    assert (reads(authorizer, "a"), reads(authorizer, "b")) == (True, False)
    delta = changed(started, second, RemoveAccessControlEntryRecord(id=first.id))
    authorizer.apply(delta)
    assert (reads(authorizer, "a"), reads(authorizer, "b")) == (False, True)
    assert list(authorizer.acls()) == [second]
    authorizer.load(EMPTY_IMAGE)
    assert not reads(authorizer, "b")


def test_unrelated_deltas_keep_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    authorizer = StandardAuthorizer()
    authorizer.load(changed(EMPTY_IMAGE, rule("a")).image)
    assert reads(authorizer, "a")
    monkeypatch.setattr(authorizer, "_evaluate", lambda *_: pytest.fail("it was evaluated again"))
    authorizer.apply(Delta(EMPTY_IMAGE))
    assert reads(authorizer, "a")


def test_hosts_are_matched_in_acl_format() -> None:
    authorizer = StandardAuthorizer()
    authorizer.load(changed(EMPTY_IMAGE, rule("a", host="0:0:0:0:0:0:0:1")).image)
    assert reads(authorizer, "a", context(host="::1"))
    assert not reads(authorizer, "a", context(host="127.0.0.1"))


def test_operations_that_are_allowed_as_bits() -> None:
    authorizer = StandardAuthorizer(["User:root"])
    denied = rule("a", Operation.WRITE, Permission.DENY)
    authorizer.load(changed(EMPTY_IMAGE, rule("a", Operation.ALL), denied).image)
    everything = AllowEverything().authorized_operations(context(), Resource.TOPIC, "a")
    assert authorizer.authorized_operations(context("User:root"), Resource.TOPIC, "a") == everything
    without_write = everything & ~(1 << Operation.WRITE)
    assert authorizer.authorized_operations(context(), Resource.TOPIC, "a") == without_write
    assert authorizer.authorized_operations(context("User:eve"), Resource.TOPIC, "a") == 0
    assert authorizer.allows_any(context(), Operation.READ, Resource.TOPIC)
    assert not authorizer.allows_any(context("User:eve"), Operation.READ, Resource.TOPIC)


def test_a_denial_is_logged_once_until_acls_change(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    authorizer = StandardAuthorizer()
    secret = rule("secret", Operation.READ, Permission.DENY)
    authorizer.load(changed(EMPTY_IMAGE, secret).image)
    authorizer.allows(context(), Operation.READ, Resource.TOPIC, "secret", quiet=True)
    assert caplog.messages == []
    assert not any(reads(authorizer, "secret") for _ in range(3))
    line = (
        "Principal = User:bob is Denied operation = READ from host = 127.0.0.1 on resource ="
        " Topic:LITERAL:secret for request = Fetch based on rule DENY READ to User:bob from * on LITERAL secret"
    )
    assert caplog.messages == [line]
    authorizer.apply(changed(EMPTY_IMAGE, rule("other")))
    assert not reads(authorizer, "secret")
    assert len(caplog.messages) == 2


def test_verdicts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.security.standard_authorizer.MAX_CACHED_RESULTS", 10)
    authorizer = StandardAuthorizer()
    for number in range(100):
        assert not reads(authorizer, f"topic-{number}")
    assert len(authorizer._results) <= 10
    assert len(authorizer._logged) <= 10


def test_of_ten_thousand_acls_only_those_for_a_name_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[AccessControlEntryRecord] = []
    concerns = acl_evaluation._applies
    monkeypatch.setattr(
        acl_evaluation, "_applies", lambda one, *rest: looked_at.append(one) or concerns(one, *rest)
    )
    authorizer = StandardAuthorizer()
    many = [rule(f"topic-{number}", prefixed=number % 2 == 0) for number in range(10_000)]
    authorizer.load(changed(EMPTY_IMAGE, *many).image)
    assert reads(authorizer, "topic-9998-x")
    assert not reads(authorizer, "topic-9999-x")
    assert [one.resource_name for one in looked_at] == ["topic-9998"]


@pytest.mark.parametrize(
    ("given", "super_user", "everyone"),
    [
        ({}, False, False),
        ({"super.users": "User:admin; User:CN=a,O=b ;"}, True, False),
        ({"allow.everyone.if.no.acl.found": " TRUE "}, True, True),
        ({"allow.everyone.if.no.acl.found": "yes"}, False, False),
    ],
)
def test_the_authorizer_follows_the_configuration(
    given: dict[str, str], super_user: bool, everyone: bool
) -> None:
    node = node_of(**{"authorizer.class.name": STANDARD, **given})
    assert node.warnings == ()
    authorizer = authorizer_for(node.settings)
    assert isinstance(authorizer, StandardAuthorizer)
    assert reads(authorizer, "t", context("User:admin")) is super_user
    assert reads(authorizer, "t", context("User:CN=a,O=b")) is super_user
    assert reads(authorizer, "t") is everyone


def test_no_authorizer_and_a_bad_super_user() -> None:
    assert isinstance(authorizer_for(node_of().settings), AllowEverything)
    with pytest.raises(ConfigError, match="format principalType:principalName but got admin"):
        authorizer_for(node_of(**{"authorizer.class.name": STANDARD, "super.users": "admin"}).settings)


def test_a_broker_follows_rules_as_they_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
    secret = rule("secret", principal="User:alice")
    asked = MetadataRequest(topics=[MetadataRequest.Topic(name="secret")], allow_auto_topic_creation=False)
    with Front(monkeypatch, **options) as front:

        def code() -> int:
            answered: int = front.ask(asked, 4).topics[0].error_code
            return answered

        assert code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        front.metadata.commit(secret)
        assert code() == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the existence of a topic is not revealed"
        front.metadata.commit(RemoveAccessControlEntryRecord(id=secret.id))
        assert code() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# How a handler authorizes: directly, or through a shared helper.
ASKING = re.compile(r"authorizer\.|authorize\w*\(|check_cluster\(|check_member_request\(|return serve\(")
# Open to all: clients authenticate with them, and delegation tokens are refused to all.
FOR_EVERYBODY = {
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "RenewDelegationToken",
    "ExpireDelegationToken",
}


@pytest.mark.parametrize("role", [Role.CLIENT, Role.CONTROLLER])
def test_every_api_is_authorized(role: Role) -> None:
    """An API without a check is open to all; `make verify` compares the checks with Apache Kafka's."""
    without = set()
    for route in routes_for(Mode.KRAFT, role, node_of().settings, Metrics()).values():
        handle = route.handle.func if isinstance(route.handle, partial) else route.handle
        if not ASKING.search(inspect.getsource(sys.modules[handle.__module__])):
            without.add(route.api.name)
    assert without == {name for name in FOR_EVERYBODY if api_named(name).key in routes_of(role)}


def routes_of(role: Role) -> set[int]:
    return set(routes_for(Mode.KRAFT, role, node_of().settings, Metrics()))


# Bounds ----------------------------------------------------------------------------------------------------


def characters(authorizer: StandardAuthorizer) -> int:
    return sum(len(name or "") for *_, name in authorizer._results)


def test_cached_denials_are_bounded_in_bytes() -> None:
    """F7: 15,000 denied names of 32 kB took 500 MB: the cache was bounded in entries, not bytes."""
    authorizer = StandardAuthorizer()
    for number in range(2_000):
        name = f"{number:05}" + "x" * 32_000
        assert not authorizer.allows(context(), Operation.READ, Resource.TOPIC, name)
    assert characters(authorizer) <= MAX_CACHED_NAME
    assert len(authorizer._logged) <= MAX_LOGGED_PER_MINUTE


def test_shorter_names_are_weighed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.broker.security.standard_authorizer.MAX_CACHED_CHARACTERS", 10_000)
    authorizer = StandardAuthorizer()
    for number in range(1_000):
        assert not authorizer.allows(context(), Operation.READ, Resource.TOPIC, f"{number:05}" + "x" * 200)
        assert characters(authorizer) <= 10_000
    assert characters(authorizer), "they are cached"


def test_a_denied_name_takes_one_short_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """F7: the log grew with the names, and a name with a newline forged a line."""
    caplog.set_level(logging.INFO)
    authorizer = StandardAuthorizer()
    name = "x\n2026-01-01 00:00:00,000 INFO barnabas.broker.server: node 1 has stopped" + "y" * 30_000
    assert not authorizer.allows(context(), Operation.READ, Resource.TOPIC, name)
    (line,) = caplog.messages
    assert "\n" not in line
    assert "x\\n2026-01-01" in line
    assert len(line) < 1_000


def test_denials_are_logged_up_to_a_limit_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    authorizer = StandardAuthorizer()
    asking = context()
    for number in range(MAX_LOGGED_PER_MINUTE + 50):
        assert not authorizer.allows(asking, Operation.READ, Resource.TOPIC, f"t{number}")
    assert len(caplog.messages) == MAX_LOGGED_PER_MINUTE
    asking.received_ns += 60_000_000_000
    assert not authorizer.allows(asking, Operation.READ, Resource.TOPIC, "later")
    assert caplog.messages[MAX_LOGGED_PER_MINUTE] == "50 more operations were denied within a minute"
    assert ":later for request" in caplog.messages[-1]


def test_super_users_without_an_authorizer_draw_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = node_of(super_users="User:admin").settings
    assert isinstance(authorizer_for(settings), AllowEverything)
    assert any("super.users is set, but authorizer.class.name is not" in line for line in caplog.messages)
