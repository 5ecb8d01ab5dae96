"""UpdateFeatures: every node of the cluster must support a level; and a controller that is loaded from an image."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.controller.quorum_view import FixedQuorum, QuorumView
from barnabas.metadata.image import ConfigResource
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.messages.create_topics import CreateTopicsResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records.metadata import ConfigRecord, NoOpRecord, RegisterControllerRecord
from barnabas.testing.simulation.metadata_node import NODE_ID, creation, registration
from tests.controller.lab import Lab

FEATURE = "group.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2
MIN_ISR = "min.insync.replicas"


def update(lab: Lab, level: int) -> tuple[int, str | None]:
    """The error of changing the feature to this level."""
    kind = SAFE_DOWNGRADE if level < lab.image.features.get(FEATURE, 0) else UPGRADE
    key = UpdateFeaturesRequest.FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=kind)
    response = lab.send(
        UpdateFeaturesRequest(feature_updates=[key], validate_only=False), UpdateFeaturesResponse, 2
    )
    return response.error_code, response.error_message


def controller(lab: Lab, controller_id: int, **levels: tuple[int, int]) -> None:
    """Another controller registers with these supported levels."""
    features = [
        RegisterControllerRecord.ControllerFeature(
            name=name.replace("_", "."), min_supported_version=lowest, max_supported_version=highest
        )
        for name, (lowest, highest) in levels.items()
    ]
    lab.append(
        [
            RegisterControllerRecord(
                controller_id=controller_id,
                incarnation_id=Uuid.from_words(9, controller_id),
                zk_migration_ready=False,
                end_points=[],
                features=features,
            )
        ]
    )


@pytest.fixture
def lab() -> Lab:
    """A cluster in which the feature is off."""
    return _without_feature()


def _without_feature(quorum: QuorumView | None = None) -> Lab:
    lab = Lab(quorum=quorum)
    lab.join()
    assert update(lab, 0) == (ErrorCode.NONE, None)
    assert FEATURE not in lab.image.features
    return lab


def test_a_level_that_all_nodes_support_is_set(lab: Lab) -> None:
    controller(lab, 7, group_version=(0, 1))
    controller(lab, 8, group_version=(1, 3))
    assert update(lab, 1) == (ErrorCode.NONE, None)
    assert lab.image.features[FEATURE] == 1


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({}, "Controller 8 does not support this feature."),
        ({"group_version": (2, 3)}, "Controller 8 only supports versions 2-3"),
        ({"group_version": (2, 2)}, "Controller 8 only supports versions 2"),
    ],
)
def test_a_level_that_another_controller_does_not_support_is_refused(
    lab: Lab, levels: dict[str, tuple[int, int]], message: str
) -> None:
    controller(lab, 7, group_version=(0, 1))
    controller(lab, 8, **levels)
    code, text = update(lab, 1)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert text is not None
    assert text.endswith(message)
    assert FEATURE not in lab.image.features


def test_what_this_controller_registered_about_itself_does_not_count(lab: Lab) -> None:
    """It knows what it supports now; the record may be of an older release."""
    controller(lab, NODE_ID)
    assert update(lab, 1) == (ErrorCode.NONE, None)


def test_a_controller_loads_the_image_that_another_one_made() -> None:
    first = Lab()
    first.join()
    first.send(creation("t"), CreateTopicsResponse)
    second = Lab()
    second.controller.state.load(first.image)
    assert second.image is first.image
    assert set(second.image.topic_ids) == {"t"}


def test_a_level_that_one_of_several_brokers_does_not_support_is_refused(lab: Lab) -> None:
    for broker_id, highest in ((2, 1), (3, 0)):
        request = registration(broker_id=broker_id)
        for feature in request.features:
            if feature.name == FEATURE:
                feature.max_supported_version = highest
        lab.send(request, BrokerRegistrationResponse)
    _, text = update(lab, 1)
    assert text is not None
    assert text.endswith("Broker 3 does not support this feature.")


# Controllers that are gone for ever (KAFKA-20395)


def test_a_controller_that_left_the_quorum_does_not_count() -> None:
    """Its registration stays in the metadata: no record removes it."""
    # cluster.md 22
    lab = _without_feature(FixedQuorum(left=frozenset({8})))
    controller(lab, 8)
    assert update(lab, 1) == (ErrorCode.NONE, None)


def test_a_voter_that_does_not_fetch_can_be_removed() -> None:
    # cluster.md 22
    lab = _without_feature(FixedQuorum(silent=frozenset({8})))
    hint = " It does not fetch the metadata log; if it is gone for good, remove it from the voters."
    controller(lab, 8)
    assert (update(lab, 1)[1] or "").endswith(f"Controller 8 does not support this feature.{hint}")
    controller(lab, 8, group_version=(2, 3))
    assert (update(lab, 1)[1] or "").endswith(f"Controller 8 only supports versions 2-3.{hint}")


def test_a_voter_of_the_configuration_that_has_not_registered() -> None:
    for left, message in (
        (set(), "controller 9 has not registered, and may not support this feature"),
        ({9}, ""),
    ):
        quorum = FixedQuorum(left=frozenset(left))
        lab = Lab(quorum=quorum, controller_ids=frozenset({NODE_ID, 9}))
        lab.join()
        _, text = update(lab, 0)
        assert (text or "").endswith(message)
        assert bool(text) == bool(message)


# kraft.version (KIP-853)


def kraft_version(lab: Lab, level: int, kind: int = UPGRADE) -> tuple[int, str | None]:
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="kraft.version", max_version_level=level, upgrade_type=kind
    )
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=False)
    response = lab.send(request, UpdateFeaturesResponse, 2)
    return response.error_code, response.error_message


def test_the_quorum_is_upgraded_by_its_leader() -> None:
    lab = Lab()
    lab.join()
    assert kraft_version(lab, 1) == (ErrorCode.NONE, None)
    assert isinstance(lab.written[-1], NoOpRecord), "the response waits for its commit"
    assert lab.upgraded == [1]
    assert "kraft.version" not in lab.image.features, "control records have it, not the metadata"


def test_the_quorum_refuses_an_upgrade() -> None:
    lab = Lab(quorum=FixedQuorum(error="not all"))
    prefix = "The update failed for all features since the following feature had an error: "
    assert kraft_version(lab, 1) == (ErrorCode.INVALID_UPDATE_VERSION, f"{prefix}not all")
    assert lab.upgraded == []


def test_kraft_version_cannot_be_downgraded() -> None:
    lab = Lab(quorum=FixedQuorum(kraft_version=1))
    code, text = kraft_version(lab, 0, SAFE_DOWNGRADE)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert (text or "").endswith("feature kraft.version. Can't downgrade the version of this feature.")
    assert kraft_version(lab, 1, SAFE_DOWNGRADE) == (ErrorCode.NONE, None), "the present level"


def test_a_broker_must_support_the_level_of_the_quorum() -> None:
    lab = Lab(quorum=FixedQuorum(kraft_version=1))
    request = registration()
    request.features = [feature for feature in request.features if feature.name != "kraft.version"]
    with pytest.raises(KafkaError, match=r"finalized version 1 of kraft\.version"):
        lab.send(request, BrokerRegistrationResponse)


@pytest.mark.parametrize(
    ("feature", "level", "kind", "expected"),
    [
        (FEATURE, 1, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        (FEATURE, 1, 0, "The controller does not support the given upgrade type."),
        (FEATURE, -1, SAFE_DOWNGRADE, "A feature version cannot be less than 0."),
        ("metadata.version", 7, UPGRADE, "Can't downgrade the version of this feature without setting"),
        ("nothing", 1, UPGRADE, "does not support this feature."),
    ],
)
def test_an_impossible_update_is_refused_with_its_reason(
    feature: str, level: int, kind: int, expected: str
) -> None:
    lab = _without_feature()
    before = len(lab.written)
    key = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=False)
    response = lab.send(request, UpdateFeaturesResponse, 2)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert response.error_message is not None
    assert expected in response.error_message
    assert len(lab.written) == before


@pytest.mark.parametrize("has_default", [True, False])
def test_eligible_leader_replicas_need_one_min_isr_for_all_brokers(has_default: bool) -> None:
    """KIP-966: the value of the cluster is set, and those of brokers are removed."""
    options: dict[str, Any] = {"min.insync.replicas": 3}
    lab = Lab("4.0", **options)
    lab.join()
    broker, topic = ConfigResource.BROKER, ConfigResource.TOPIC
    given = [(broker, "1", "2"), (broker, "9", "4"), (topic, "t", "5"), *([(broker, "", "7")] * has_default)]
    lab.append(
        [
            ConfigRecord(resource_type=kind, resource_name=name, name=MIN_ISR, value=value)
            for kind, name, value in given
        ]
    )
    key = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="eligible.leader.replicas.version", max_version_level=1, upgrade_type=UPGRADE
    )
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=False)
    assert lab.send(request, UpdateFeaturesResponse, 2).error_code == 0
    assert lab.image.features["eligible.leader.replicas.version"] == 1
    configs = lab.image.configs_of
    assert configs(broker, "")[MIN_ISR] == ("7" if has_default else "3")
    assert MIN_ISR not in configs(broker, "1")
    assert MIN_ISR not in configs(broker, "9")
    assert configs(topic, "t")[MIN_ISR] == "5"
