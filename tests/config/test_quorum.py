"""Addresses of the quorum."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError
from barnabas.config.node.quorum import Address, parse_bootstrap_servers, parse_voters


def test_voters() -> None:
    # M-C1
    assert parse_voters(["1@worker1:9093", "2@[::1]:9093"]) == {
        1: Address("worker1", 9093),
        2: Address("::1", 9093),
    }
    assert parse_voters([]) == {}


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("worker1:9093", "Invalid configuration value for controller.quorum.voters"),
        ("x@worker1:9093", "Failed to parse voter ID as an integer from x"),
        ("1@worker1", "Failed to parse host name from entry 1@worker1"),
        ("1@work$er:1", "Failed to parse host name"),
        ("1@worker1:65536", "Failed to parse host port from entry 1@worker1:65536"),
        ("1@worker1:" + "9" * 30, "a port from 0 to 65535"),
    ],
)
def test_voters_that_are_refused(entry: str, why: str) -> None:
    # M-C1
    with pytest.raises(ConfigError) as caught:
        parse_voters([entry])
    assert why in str(caught.value)


def test_bootstrap_servers() -> None:
    assert parse_bootstrap_servers(["a:1", "b:2"]) == (Address("a", 1), Address("b", 2))
    with pytest.raises(ConfigError, match="Each entry should be in the form"):
        parse_bootstrap_servers(["a"])
