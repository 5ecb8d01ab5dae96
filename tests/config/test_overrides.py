"""`--override key=value`."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError
from barnabas.config.node.overrides import parse_overrides


def test_overrides() -> None:
    # M-J1
    arguments = ["a=1", "b=x=y", "c=", "a=2"]
    assert parse_overrides(arguments) == {"a": "2", "b": "x=y", "c": ""}


@pytest.mark.parametrize("argument", ["", "=1", " =1", "d"])
def test_an_override_needs_a_key_and_a_value(argument: str) -> None:
    with pytest.raises(ConfigError, match="--override key=value"):
        parse_overrides([argument])
