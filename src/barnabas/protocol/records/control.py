"""Values of control records: leadership, snapshots, voters, transaction markers.

Written by tools/generate_messages.py: change that, not this file.
"""

from __future__ import annotations

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.schema import Message, field, int16, int32, int64, string, uint16, uuid


class EndTxnMarker(Message, versions=(0, 0)):
    """The end of a transaction in a partition; the key says whether it committed."""

    coordinator_epoch: int32


class KRaftVersionRecord(Message, versions=(0, 0), flexible=0):
    """The kraft.version of the quorum."""

    version: int16
    kraft_version: int16 = field(name="kRaftVersion")


class LeaderChangeMessage(Message, versions=(0, 1), flexible=0):
    """A new leader of the quorum and who voted for it."""

    class Voter(Message):
        voter_id: int32
        voter_directory_id: uuid = field("1+", default=ZERO_UUID)

    version: int16
    leader_id: int32
    voters: list[Voter]
    granting_voters: list[Voter]


class SnapshotFooterRecord(Message, versions=(0, 0), flexible=0):
    """The last record of a snapshot."""

    version: int16


class SnapshotHeaderRecord(Message, versions=(0, 0), flexible=0):
    """The first record of a snapshot, with the timestamp of its last record."""

    version: int16
    last_contained_log_timestamp: int64


class VotersRecord(Message, versions=(0, 0), flexible=0):
    """The voters of the quorum with their directories and endpoints."""

    class Endpoint(Message):
        name: string
        host: string
        port: uint16

    class KRaftVersionFeature(Message):
        min_supported_version: int16
        max_supported_version: int16

    class Voter(Message):
        voter_id: int32
        voter_directory_id: uuid
        endpoints: list[VotersRecord.Endpoint]
        kraft_version_feature: VotersRecord.KRaftVersionFeature = field(name="kRaftVersionFeature")

    version: int16
    voters: list[Voter]
