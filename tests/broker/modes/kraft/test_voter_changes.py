"""AddRaftVoter and RemoveRaftVoter at the leader of a quorum of one (KIP-853).

The messages are those of Apache Kafka 4.1.0, recorded from a cluster of two controllers.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from barnabas.protocol.records.control import KRaftVersionRecord, VotersRecord
from barnabas.testing.simulation.metadata_node import CLUSTER_ID, DIRECTORY_ID
from tests.broker.worlds.kraft_world import KraftWorld

OTHER = Uuid.from_words(2, 4711)
OTHER_KEY = f"ReplicaKey(id=2, directoryId={OTHER})"
VOTERS = f"[ReplicaKey(id=1, directoryId={DIRECTORY_ID})]"


def _add(
    voter_id: int = 2,
    directory_id: Uuid = OTHER,
    listeners: tuple[str, ...] = ("CONTROLLER",),
    cluster_id: str | None = None,
) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=1000,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[
            AddRaftVoterRequest.Listener(name=name, host="localhost", port=9093 + number)
            for number, name in enumerate(listeners)
        ],
    )


def _remove(
    voter_id: int = 2, directory_id: Uuid = OTHER, cluster_id: str | None = None
) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id)


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (
            _add(cluster_id="xyz"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "xyz" doesn\'t match the cluster id "{CLUSTER_ID}"',
        ),
        (
            _remove(cluster_id="xyz"),
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "xyz" doesn\'t match the cluster id "{CLUSTER_ID}"',
        ),
        (
            _add(directory_id=ZERO_UUID),
            ErrorCode.INVALID_REQUEST,
            "Add voter request didn't include a valid voter",
        ),
        (_add(voter_id=-1), ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"),
        (
            _remove(directory_id=ZERO_UUID),
            ErrorCode.INVALID_REQUEST,
            "Remove voter request didn't include a valid voter",
        ),
        (
            _add(listeners=("OTHER", "B")),
            ErrorCode.INVALID_REQUEST,
            (
                "Add voter request didn't include the endpoint (Endpoints(endpoints={ListenerName(OTHER)=localhost/"
                "<unresolved>:9093, ListenerName(B)=localhost/<unresolved>:9094})) for the default listener"
                " ListenerName(CONTROLLER)"
            ),
        ),
        (
            _add(listeners=()),
            ErrorCode.INVALID_REQUEST,
            (
                "Add voter request didn't include the endpoint (Endpoints(endpoints={})) for the default listener"
                " ListenerName(CONTROLLER)"
            ),
        ),
        (
            _add(voter_id=1),
            ErrorCode.DUPLICATE_VOTER,
            (
                f"The voter id for ReplicaKey(id=1, directoryId={OTHER}) is already part of the set of voters"
                f" {VOTERS}."
            ),
        ),
        (
            _add(cluster_id=CLUSTER_ID),
            ErrorCode.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE",
        ),
        (
            _remove(cluster_id=CLUSTER_ID),
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {OTHER_KEY} from the set of voters {VOTERS}",
        ),
        (
            _remove(1, DIRECTORY_ID),
            ErrorCode.VOTER_NOT_FOUND,
            (
                f"Cannot remove voter ReplicaKey(id=1, directoryId={DIRECTORY_ID}) from the set of voters"
                f" {VOTERS}"
            ),
        ),
    ],
)
def test_changes_that_are_refused(request_: Any, code: ErrorCode, message: str) -> None:
    kraft = KraftWorld(dynamic=True)
    kind = AddRaftVoterResponse if isinstance(request_, AddRaftVoterRequest) else RemoveRaftVoterResponse
    heard = kraft.send(request_)
    kraft.run(3_000)
    (response,) = heard
    assert isinstance(response, kind)
    assert (response.error_code, response.error_message) == (code, message)


def test_static_voters_do_not_change() -> None:
    kraft = KraftWorld()
    text = "Cluster doesn't support {} voter because the kraft.version feature is 0"
    added: Any = kraft.ask(_add(), AddRaftVoterResponse)
    assert (added.error_code, added.error_message) == (35, text.format("adding"))
    removed: Any = kraft.ask(_remove(), RemoveRaftVoterResponse)
    assert (removed.error_code, removed.error_message) == (35, text.format("removing"))


def test_a_node_that_does_not_lead_says_nothing() -> None:
    kraft = KraftWorld({"controller.quorum.voters": "1@localhost:1,2@localhost:2,3@localhost:3"})
    responses: list[Any] = []
    kraft.enter(lambda: kraft.metadata.ask_quorum(_add(), 0).then(responses.append, responses.append))
    kraft.run(10)
    (response,) = responses
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "")


# UpdateFeatures of kraft.version


def _update(level: int, kind: int = 1, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="kraft.version", max_version_level=level, upgrade_type=kind
    )
    return UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update], validate_only=validate_only)


def test_a_static_quorum_becomes_a_dynamic_one_while_it_runs() -> None:
    kraft = KraftWorld()
    before = len(kraft.log())
    assert kraft.ask(_update(1, validate_only=True), UpdateFeaturesResponse).error_code == 0
    assert (kraft.metadata.kraft_version, len(kraft.log())) == (0, before)
    assert kraft.ask(_update(1), UpdateFeaturesResponse).error_code == 0
    assert kraft.metadata.kraft_version == 1
    control, no_op = kraft.log()[before:]
    from barnabas.batch.control import read_quorum_message

    kinds = [type(read_quorum_message(record)) for record in control.records()]
    assert kinds == [KRaftVersionRecord, VotersRecord]
    assert (no_op.is_control, no_op.record_count) == (False, 1)
    kraft.stop()
    kraft.restart()
    assert kraft.metadata.kraft_version == 1, "although the configuration still names the voters"
    down: Any = kraft.ask(_update(0, 2), UpdateFeaturesResponse)
    assert down.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update"
        " version 0 for feature kraft.version. Can't downgrade the version of this feature."
    )
    assert kraft.ask(_update(1), UpdateFeaturesResponse).error_code == 0, "the present level"
    refused = kraft.ask(_remove(1, DIRECTORY_ID), RemoveRaftVoterResponse)
    assert refused.error_code == ErrorCode.VOTER_NOT_FOUND, "changes are possible now"
