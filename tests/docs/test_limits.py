"""docs/reference/limits.md: every number on the page is the one in the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.base import log_text
from barnabas.batch import check
from barnabas.broker.coordinators import topic_results
from barnabas.broker.handlers import metadata
from barnabas.broker.metadata import image_waits
from barnabas.broker.metrics import http_page
from barnabas.broker.network import dispatch, listener, request_steps, socket_options
from barnabas.broker.security import standard_authorizer
from barnabas.controller import decision
from barnabas.protocol import decoder
from barnabas.runtime.network.network import NetworkLimits
from barnabas.runtime.tls import wire

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
MIB = 1024 * 1024

# The start of a row, and the numbers in its second column.
LIMITS: dict[str, list[str]] = {
    "elements in all arrays": [f"{decoder.MAX_ELEMENTS:,}"],
    "the time in which a connection to a SASL listener logs in": [
        f"{listener.LOGIN_TIMEOUT_MS // 1000} s",
        f"the handshake {wire.HANDSHAKE_TIMEOUT_MS // 1000} s",
    ],
    "messages of TLS without data": [f"{wire.MAX_BARREN_BYTES // 1024} KiB"],
    "large incoming requests": [f"{socket_options.MAX_RECEIVING_BYTES // MIB} MiB"],
    "a response, without its records": [f"{dispatch.MAX_RESPONSE_BYTES // MIB} MiB"],
    "responses that clients do not read": [
        f"{socket_options.MAX_ALL_QUEUED_BYTES // MIB} MiB",
        f"{NetworkLimits().max_queued_bytes // MIB} MiB for one connection",
    ],
    "the time that a request occupies": [f"{request_steps.SLICE_NS // 1_000_000} ms"],
    "a batch when it is decompressed": [f"{check.CLIENT_DECOMPRESSED_LIMIT // MIB} MiB"],
    "topics, partitions or options": [f"{decision.MAX_RECORDS_PER_BATCH:,} records"],
    "topics that one Metadata request creates": [f"{metadata.MAX_AUTO_CREATED}"],
    "offsets that one request commits": [f"{topic_results.MAX_PARTITIONS:,}"],
    "a name from a client in a log line": [f"{log_text.LONGEST_SHOWN} characters"],
    "denials of the authorizer": [f"{standard_authorizer.MAX_LOGGED_PER_MINUTE} per minute"],
    "responses about topics that wait": [f"{image_waits.MAX_WAITING:,}"],
    "cached decisions of the authorizer": [
        f"{standard_authorizer.MAX_CACHED_RESULTS:,}",
        f"{standard_authorizer.MAX_CACHED_CHARACTERS // 1_000_000} million characters",
        f"names over {standard_authorizer.MAX_CACHED_NAME:,} characters",
    ],
    "connections to the metrics page": [
        f"{http_page.MAX_CONNECTIONS}, each for {http_page.DEADLINE_MS // 1000} s",
        f"{http_page.MAX_HEADER_BYTES // 1024} KiB per request",
    ],
}


def rows() -> dict[str, str]:
    """The limits by resource."""
    cells = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return {row[1].strip(): row[2].strip() for row in cells if row[1].strip() != "resource"}


@pytest.mark.parametrize("start", LIMITS)
def test_a_limit_is_as_documented(start: str) -> None:
    (limit,) = (limit for resource, limit in rows().items() if resource.startswith(start))
    position = 0
    for number in LIMITS[start]:
        found = limit.find(number, position)
        assert found >= 0, f"{limit!r} does not say {number!r}"
        assert not limit[:found].endswith((",", "0", "1")), "a part of another number"
        position = found + len(number)


def test_every_row_is_held() -> None:
    """The first row is an option with its default, which the reference of options holds."""
    others = [row for row in rows() if not any(row.startswith(start) for start in LIMITS)]
    assert others == ["a request"]
