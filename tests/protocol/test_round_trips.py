"""Every message in every version round-trips through its bytes and its JSON."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from barnabas.protocol.json_form import from_json, to_json
from barnabas.protocol.schema import Message

from .catalogue import instances, messages, versions

# Few examples of each of the thousand pairs of message and version; the profile `long` takes more.
assert hypothesis.settings.default is not None
EXAMPLES = hypothesis.settings.default.max_examples // 6
SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)


def check_round_trip(cls: type[Message], version: int) -> None:
    @SETTINGS
    @hypothesis.given(instances(cls.schema, version), st.binary(max_size=5))
    def check(message: Any, before: bytes) -> None:
        encoded = message.encode(version)
        assert cls.decode(encoded, version) == message
        shifted, end = cls.decode_from(memoryview(before + encoded), len(before), version)
        assert shifted == message
        assert end == len(before) + len(encoded)
        assert shifted.encode(version) == encoded
        assert from_json(cls, to_json(message, version), version) == message

    check()


@pytest.mark.parametrize("cls", messages(), ids=lambda cls: cls.__name__)
def test_messages_round_trip(cls: type[Message]) -> None:  # M-C3
    for version in versions(cls):
        check_round_trip(cls, version)
