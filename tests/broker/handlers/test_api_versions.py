"""ApiVersions, byte for byte where Apache Kafka's own bytes were recorded."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.handlers import api_versions
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.routes import Route
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.apis import api
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.records.metadata import FeatureLevelRecord
from tests.broker.worlds.front_world import CLOSED, FakeBroker, Front, call_of
from tests.frames import write_response

NAMED = ApiVersionsRequest(client_software_name="oracle", client_software_version="1")


@pytest.fixture(scope="module")
def recorded(data: Path) -> Any:
    return json.loads((data / "protocol" / "api-versions.json").read_text("utf-8"))


def image_at(offset: int, features: dict[str, int]) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for name, level in features.items():
        delta.replay(FeatureLevelRecord(name=name, feature_level=level))
    delta.at(offset, 1, 0)
    return delta.image


def routes_like(recorded: Any) -> list[Route]:
    """Routes for all APIs that Apache Kafka announced, including unsupported ones."""
    metrics = Metrics()
    keys = [key for key, _, _ in recorded["v3"]["api_keys"]]
    return [Route(api(key), metrics.requests(api(key)), unstable=False) for key in keys]


@pytest.mark.parametrize("role", ["broker", "controller"])
@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.trap
def test_the_response_is_apache_kafkas_byte_for_byte(recorded: Any, role: str, version: int) -> None:
    """Trap 2: compact arrays and tagged fields in ApiVersions v3."""
    recording = recorded[f"kraft-4.1.0-{role}"]
    golden = bytes.fromhex(recording[f"v{version}"]["hex"])
    features = {
        "metadata.version": 27,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "group.version": 1,
    }
    # The epoch is the metadata offset at that time, in a tagged field of eight bytes.
    position = golden.index(b"\x01\x08\0\0\0\0\0") + 2
    offset = struct.unpack_from(">q", golden, position)[0]
    answer = api_versions.answer(
        routes_like(recording),
        FakeBroker().supported_features,
        features,
        epoch=offset,
        all_features=version >= 4,
    )
    assert write_response(answer, version, 7)[4:] == golden


@pytest.mark.trap
def test_an_unknown_version_gets_a_version_0_response(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 1: the header stays version 0, an unsupported version is answered in v0 with error 35 and the list."""
    with Front(monkeypatch) as front:
        for listener, role in (("PLAINTEXT", "broker"), ("CONTROLLER", "controller")):
            wire = front.connect(listener)
            body = struct.pack(">hhih", 18, 99, 7, 6) + b"oracle" + b"\0" + b"\x07oracle\x021\0"
            wire.send(struct.pack(">i", len(body)) + body)
            assert wire.frame().hex() == recorded[f"kraft-4.1.0-{role}"]["v99"]["hex"]
            body = struct.pack(">hhih", 18, -1, 99, 6) + b"oracle"
            wire.send(struct.pack(">i", len(body)) + body)
            assert wire.frame().hex() == "00000063002300000001001200000004"


@pytest.mark.parametrize("version", range(5))
@pytest.mark.trap
def test_the_response_header_has_no_tagged_fields_in_any_version(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Trap 1: one extra byte made librdkafka try a 34 GB malloc."""
    with Front(monkeypatch) as front:
        wire = front.connect()
        from barnabas.protocol.frame import write_request

        wire.send(write_request(NAMED, version, 7, "test"))
        frame = wire.frame()
        assert frame[:6] == struct.pack(">ih", 7, 0)
        assert ApiVersionsResponse.decode(frame[4:], version).error_code == 0


SHARE_GROUPS = {76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92}
NOT_ANNOUNCED: dict[str, set[int]] = {"broker": SHARE_GROUPS, "controller": set()}
# AddRaftVoter 1 of Apache Kafka 4.2, which its controllers need to join the voters by themselves.
NEWER: dict[str, dict[int, tuple[int, int]]] = {"broker": {}, "controller": {80: (0, 1)}}


def test_announced_versions_are_apache_kafkas(recorded: Any) -> None:
    for listener, role in (("PLAINTEXT", "broker"), ("CONTROLLER", "controller")):
        theirs = {key: (low, high) for key, low, high in recorded[f"kraft-4.1.0-{role}"]["v4"]["api_keys"]}
        theirs |= NEWER[role]
        answer = api_versions.handle(FakeBroker(), NAMED, call_of(18, 4, listener=listener))  # type: ignore[arg-type]
        ours = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
        assert {key: theirs.get(key) for key in ours} == ours
        assert list(ours) == sorted(ours)
        assert theirs.keys() - ours.keys() == NOT_ANNOUNCED[role], "exactly the supported APIs are announced"


@pytest.mark.trap
def test_idempotence_is_announced() -> None:
    """Trap 3: idempotence is on by default in 3.x clients, so InitProducerId is there from the first release."""
    answer = api_versions.handle(FakeBroker(), NAMED, call_of(18, 4))  # type: ignore[arg-type]
    assert 22 in {one.api_key for one in answer.api_keys}


@pytest.mark.trap
def test_clients_that_pin_versions_need_no_api_versions_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 4: clients that pin versions instead of negotiating."""
    from barnabas.protocol.messages.metadata import MetadataRequest

    with Front(monkeypatch) as front:
        for version in (0, 1, 5, 13):
            topics = [MetadataRequest.Topic(name="pinned")]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
            assert front.connect().ask(request, version).topics[0].name == "pinned"


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1-")])
def test_a_client_must_name_itself_sensibly_from_version_3_on(name: str, version: str) -> None:
    odd = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    broker: Any = FakeBroker()
    assert api_versions.handle(broker, odd, call_of(18, 3)).error_code == 42
    assert api_versions.handle(broker, odd, call_of(18, 2)).error_code == 0


def test_features_of_the_cluster_are_announced() -> None:
    broker: Any = FakeBroker()
    broker.metadata.commit(
        FeatureLevelRecord(name="metadata.version", feature_level=21),
        FeatureLevelRecord(name="group.version", feature_level=1),
    )
    broker.metadata.kraft_version = 1
    answer = api_versions.handle(broker, NAMED, call_of(18, 4))
    finalized = [(one.name, one.max_version_level) for one in answer.finalized_features]
    assert finalized == [("group.version", 1), ("kraft.version", 1), ("metadata.version", 21)]
    assert answer.finalized_features_epoch == broker.image.offset


def test_an_api_that_is_not_announced_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        for listener in ("PLAINTEXT", "CONTROLLER"):
            answer = front.ask(NAMED, 4, listener=listener)
            announced = {one.api_key for one in answer.api_keys}
            for key in sorted(set(range(93)) - announced):
                wire = front.connect(listener)
                body = struct.pack(">hhih", key, 0, 7, -1) + bytes(20)
                wire.send(struct.pack(">i", len(body)) + body)
                assert wire.frame() == CLOSED, key
