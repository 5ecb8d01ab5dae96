"""The upgrade of kraft.version from 0 to 1 (KIP-853)."""

from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.raft.messages import UpgradeKraftVersion
from barnabas.raft.rpc import UpdateVoterRequest, VoterChangeResponse
from barnabas.raft.voters import Voter
from tests.raft.leader_lab import LeaderLab, described

NOT_ALL = "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"


def _report(lab: LeaderLab, voter: Voter) -> ErrorCode:
    response = lab.request(UpdateVoterRequest(lab.node.epoch, voter))
    assert isinstance(response, VoterChangeResponse)
    return response.error


def test_voters_report_themselves_and_move_into_the_log() -> None:
    lab = LeaderLab()
    for node_id in (2, 3):
        assert _report(lab, described(node_id)) is ErrorCode.NONE
    assert lab.node.upgrade_error(1) is None
    end, high_watermark = lab.node.end_offset, lab.node.high_watermark
    lab.request(UpgradeKraftVersion(lab.node.epoch, 1))
    # One batch, with the version and the voters, as Apache Kafka writes it.
    assert (lab.node.end_offset, lab.node.kraft_version) == (end + 2, 1)
    assert list(lab.node.voters) == [described(node_id) for node_id in (1, 2, 3)]
    assert lab.node.high_watermark == high_watermark, "it is not committed yet"
    lab.commit(2)
    assert lab.node.high_watermark == end + 2
    lab.request(UpgradeKraftVersion(lab.node.epoch, 1))
    assert lab.node.end_offset == end + 2, "it is upgraded already"


def test_a_voter_that_has_not_reported_itself_may_be_of_an_older_release() -> None:
    lab = LeaderLab()
    assert lab.node.upgrade_error(1) == NOT_ALL
    assert _report(lab, described(2)) is ErrorCode.NONE
    assert lab.node.upgrade_error(1) == NOT_ALL
    assert _report(lab, described(3, highest=0)) is ErrorCode.NONE
    assert lab.node.upgrade_error(1) == NOT_ALL, "voter 3 supports 0 only"
    assert _report(lab, described(3)) is ErrorCode.NONE
    assert lab.node.upgrade_error(1) is None


def test_levels_that_do_not_exist() -> None:
    lab = LeaderLab()
    assert lab.node.upgrade_error(0) is None, "the present level"
    expected = "Invalid upgrade of kraft.version from version KRAFT_VERSION_0 to KRAFT_VERSION_2"
    assert lab.node.upgrade_error(2) == expected
    dynamic = LeaderLab(kraft_version=1)
    assert dynamic.node.upgrade_error(1) is None
    assert "is a downgrade" in (dynamic.node.upgrade_error(0) or "")


def test_an_upgrade_of_an_earlier_epoch_does_nothing() -> None:
    lab = LeaderLab()
    for node_id in (2, 3):
        _report(lab, described(node_id))
    lab.request(UpgradeKraftVersion(lab.node.epoch - 1, 1))
    assert lab.node.kraft_version == 0


@pytest.mark.parametrize(
    ("voter", "code"),
    [
        (described(4), ErrorCode.VOTER_NOT_FOUND),
        (Voter(2, ZERO_UUID, described(2).endpoints), ErrorCode.INVALID_REQUEST),
        (Voter(2, described(2).directory_id), ErrorCode.INVALID_REQUEST),
        (Voter(2, described(2).directory_id, described(2).endpoints, 1, 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_reports_that_are_of_no_use(voter: Voter, code: ErrorCode) -> None:
    lab = LeaderLab()
    assert _report(lab, voter) is code
    assert not lab.leader.reported
