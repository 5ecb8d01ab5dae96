"""The table of APIs against what Apache Kafka says of itself."""

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
# A broker announces these only when it has somewhere to put clients' metrics (KIP-714).
TELEMETRY = {71, 72}


@pytest.fixture(scope="module")
def recorded(data: Path) -> Any:
    return json.loads((data / "protocol" / "api-keys.json").read_text("utf-8"))


def test_as_apache_kafka_4_1_has_it(recorded: Any) -> None:
    assert {row["key"] for row in recorded["4.1.0"]} == set(apis())
    for row in recorded["4.1.0"]:
        found = api(row["key"])
        assert found.name == row["name"]
        assert found.cluster_action == row["cluster_action"]
        assert found.forwarded == row["forwardable"]
        if found.key in ZOOKEEPER_MODE:
            continue
        assert (found.versions.lowest, found.versions.highest) == (row["oldest"], row["latest"])
        assert found.stable == row["latest_stable"]
        assert set(found.listeners) - {"zkBroker"} == set(row["listeners"])


def test_as_apache_kafka_3_9_has_it(recorded: Any) -> None:
    for row in recorded["3.9.1"]:
        found = api(row["key"])
        assert ("zkBroker" in found.listeners) == ("zk_broker" in row["listeners"]), row["name"]
        if found.key in ZOOKEEPER_MODE:
            assert (found.versions.lowest, found.versions.highest) == (row["oldest"], row["latest"])
            assert [name.replace("zkBroker", "zk_broker") for name in found.listeners] == sorted(
                row["listeners"]
            )


@pytest.mark.parametrize("kafka", ["3.9.1", "4.1.0"])
def test_header_versions(recorded: Any, kafka: str) -> None:
    checked = 0
    for row in recorded[kafka]:
        found = api(row["key"])
        for version, expected in row["header_versions"].items():
            if int(version) in found.versions:
                headers = (
                    found.request_header_version(int(version)),
                    found.response_header_version(int(version)),
                )
                assert list(headers) == expected, (row["name"], version)
                checked += 1
    assert checked > 280


@pytest.mark.parametrize("listener", ["broker", "controller"])
def test_announced_as_by_apache_kafka_4_1(data: Path, listener: str) -> None:
    answers = json.loads((data / "protocol" / "api-versions.json").read_text("utf-8"))
    recorded = {key: (low, high) for key, low, high in answers[f"kraft-4.1.0-{listener}"]["v3"]["api_keys"]}
    hidden = ZOOKEEPER_MODE | TELEMETRY
    ours = {}
    for found in apis().values():
        versions = found.announced()
        if listener in found.listeners and versions.lowest <= versions.highest and found.key not in hidden:
            ours[found.key] = (versions.lowest, versions.highest)
    assert ours == recorded


def test_unstable_versions_are_announced_only_when_asked_for() -> None:
    assert str(api_named("OffsetCommit").announced()) == "2-9"
    assert str(api_named("OffsetCommit").announced(unstable=True)) == "2-10"
    streams = api_named("StreamsGroupHeartbeat")
    assert streams.announced().highest < streams.announced().lowest
    assert str(streams.announced(unstable=True)) == "0"


def test_classes_are_found() -> None:
    for found in apis().values():
        for cls, suffix in ((found.request, "Request"), (found.response, "Response")):
            assert cls.__name__ == found.name + suffix
            assert cls.schema.key == found.key
            assert cls.schema.versions == found.versions


def test_unknown_apis_are_refused() -> None:
    for attempt in (partial(api, 93), partial(api, -1), partial(api_named, "Nope")):
        with pytest.raises(ProtocolError) as caught:
            attempt()
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
