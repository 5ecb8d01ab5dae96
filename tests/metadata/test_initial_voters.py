"""The initial voters of a dynamic quorum, parsed from the command line."""

from __future__ import annotations

import pytest

from barnabas.base.ids import Uuid
from barnabas.metadata.initial_voters import InitialVoter, parse_voters

A = "JEXY6aqzQY-32P5TStzaFg"
B = "MvDxzVmcRsaTz33bUuRU6A"


def test_voters_are_sorted_by_id() -> None:
    assert parse_voters(f" 1@example.com:8083:{B},0@[::1]:8082:{A},") == (
        InitialVoter(0, "::1", 8082, Uuid.parse(A)),
        InitialVoter(1, "example.com", 8083, Uuid.parse(B)),
    )


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("", "No voters given."),
        (f"localhost:8082:{A}", "No @ found in dynamic voter string."),
        (f"@localhost:8082:{A}", "Invalid @ at beginning of dynamic voter string."),
        (f"x@localhost:8082:{A}", "Failed to parse node id in dynamic voter string."),
        (f"9999999999@localhost:8082:{A}", "Failed to parse node id in dynamic voter string."),
        (f"-1@localhost:8082:{A}", "Invalid negative node id -1 in dynamic voter string."),
        ("1@", "No hostname found after node id."),
        ("1@localhost", "No colon following hostname could be found."),
        (f"1@[::1:8082:{A}", "Hostname began with left bracket, but no right bracket was found."),
        (f"1@[::1]8082:{A}", "Port section must start with a colon."),
        ("1@localhost:8082", "No colon following port could be found."),
        (f"1@localhost:x:{A}", "Failed to parse port in dynamic voter string."),
        (f"1@localhost:70000:{A}", "Invalid port 70000 in dynamic voter string."),
        ("1@localhost:8082:nope", "Failed to parse directory ID in dynamic voter string."),
        (f"1@a:1:{A},1@b:2:{B}", "Node id 1 was specified more than once."),
    ],
)
def test_error_messages_match_apache_kafka(text: str, refusal: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_voters(text)
    assert str(refused.value) == refusal
