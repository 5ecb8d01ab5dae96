"""The table of APIs against Apache Kafka's own."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api, api_named, apis
from barnabas.protocol.primitives import ProtocolError

ZOOKEEPER_MODE = {4, 5, 6, 7}
# A broker announces these only when it has a receiver for client metrics (KIP-714).
TELEMETRY = {71, 72}
# Of a later release: version 1 of AddRaftVoter is announced to controllers alone.
LATEST_SINCE = {80: 1}


@pytest.fixture(scope="module")
def recorded(data: Path) -> Any:
    return json.loads((data / "protocol" / "api-keys.json").read_text("utf-8"))


def test_as_apache_kafka_4_1_has_it(recorded: Any) -> None:
    assert {row["key"] for row in recorded["4.1.0"]} == set(apis())
    for row in recorded["4.1.0"]:
        known = api(row["key"])
        assert known.name == row["name"]
        assert known.cluster_action == row["cluster_action"]
        assert known.forwarded == row["forwardable"]
        if known.key in ZOOKEEPER_MODE:
            continue
        latest = LATEST_SINCE.get(known.key, row["latest"])
        assert (known.versions.lowest, known.versions.highest) == (row["oldest"], latest)
        assert known.stable == row["latest_stable"]
        assert set(known.listeners) - {"zkBroker"} == set(row["listeners"])


def test_as_apache_kafka_3_9_has_it(recorded: Any) -> None:
    for row in recorded["3.9.1"]:
        known = api(row["key"])
        assert ("zkBroker" in known.listeners) == ("zk_broker" in row["listeners"]), row["name"]
        if known.key in ZOOKEEPER_MODE:
            assert (known.versions.lowest, known.versions.highest) == (row["oldest"], row["latest"])
            assert [name.replace("zkBroker", "zk_broker") for name in known.listeners] == sorted(
                row["listeners"]
            )


@pytest.mark.parametrize("kafka", ["3.9.1", "4.1.0"])
def test_header_versions(recorded: Any, kafka: str) -> None:
    checked = 0
    for row in recorded[kafka]:
        known = api(row["key"])
        for version, expected in row["header_versions"].items():
            if int(version) in known.versions:
                headers = (
                    known.request_header_version(int(version)),
                    known.response_header_version(int(version)),
                )
                assert list(headers) == expected, (row["name"], version)
                checked += 1
    assert checked > 280


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_announced_as_by_apache_kafka_4_1(data: Path, listener: str) -> None:
    responses = json.loads((data / "protocol" / "api-versions.json").read_text("utf-8"))
    recorded = {key: (low, high) for key, low, high in responses[f"kraft-4.1.0-{listener}"]["v3"]["api_keys"]}
    hidden = ZOOKEEPER_MODE | TELEMETRY
    ours = {}
    for known in apis().values():
        versions = known.announced()
        if listener in known.listeners and versions.lowest <= versions.highest and known.key not in hidden:
            ours[known.key] = (versions.lowest, versions.highest)
    assert ours == recorded


def test_unstable_versions_are_announced_only_on_request() -> None:
    assert str(api_named("OffsetCommit").announced()) == "2-9"
    assert str(api_named("OffsetCommit").announced(unstable=True)) == "2-10"
    streams = api_named("StreamsGroupHeartbeat")
    assert streams.announced().highest < streams.announced().lowest
    assert str(streams.announced(unstable=True)) == "0"


def test_classes_are_found() -> None:
    for known in apis().values():
        for cls, suffix in ((known.request, "Request"), (known.response, "Response")):
            assert cls.__name__ == known.name + suffix
            assert cls.schema.key == known.key
            assert cls.schema.versions == known.versions


def test_unknown_apis_are_rejected() -> None:
    for attempt in (partial(api, 93), partial(api, -1), partial(api_named, "Nope")):
        with pytest.raises(ProtocolError) as caught:
            attempt()
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
