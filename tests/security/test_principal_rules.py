"""Mapping rules of KIP-371, with the examples of Apache Kafka's documentation."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError
from barnabas.security.principal_rules import PrincipalRules

DOCUMENTED = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    r"DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=Acme,CN=Some.One", "some.one"),
        ("O=Acme", "O=Acme"),
    ],
)
def test_the_documented_rules(name: str, user: str) -> None:
    assert PrincipalRules(DOCUMENTED).user(name) == user


@pytest.mark.parametrize("text", ["", "DEFAULT", " DEFAULT "])
def test_without_a_rule_the_name_is_the_user(text: str) -> None:
    assert PrincipalRules(text).user("CN=a,O=b") == "CN=a,O=b"


def test_a_name_that_no_rule_matches_is_nobody() -> None:
    with pytest.raises(ValueError, match="No rules apply to O=Acme"):
        PrincipalRules("RULE:^CN=(.*)$/$1/U").user("O=Acme")
    assert PrincipalRules("RULE:^CN=(.*)$/$1/U").user("CN=alice") == "ALICE"


@pytest.mark.parametrize(
    "text", ["RULE:a", "RULE:a/b", "RULE:a/b/X", "default", "RULE:(/x/", "RULE:a/$1/", "RULE:a/b/ RULE:c/d/"]
)
def test_wrong_rules_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(text)
