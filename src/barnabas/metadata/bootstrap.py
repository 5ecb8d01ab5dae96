"""Initial cluster metadata: feature levels, the first records, and the files that contain them.

Contains the choice of levels when a node is formatted, and the bytes of `bootstrap.checkpoint` and of the
first snapshot of a dynamic quorum (KIP-853), in the layout of Apache Kafka's snapshots.  Snapshots of a
running quorum belong in `raft.snapshot`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from barnabas.batch.build import build
from barnabas.batch.control import ControlType, control_key
from barnabas.batch.records import Record
from barnabas.metadata.features import (
    FEATURES,
    FEATURES_BY_NAME,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    LATEST_STABLE_METADATA_VERSION,
    METADATA_VERSION,
    SCRAM_METADATA_VERSION,
    MetadataVersion,
    metadata_version_at,
)
from barnabas.metadata.initial_voters import InitialVoter
from barnabas.metadata.scram import ScramCredential
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.records.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.metadata import FeatureLevelRecord, UserScramCredentialRecord
from barnabas.protocol.schema import Message

BOOTSTRAP_FILE = "bootstrap.checkpoint"
METADATA_FOLDER = "__cluster_metadata-0"
# A snapshot is named by its end offset and epoch; no log precedes the first one of a dynamic quorum.
FIRST_SNAPSHOT_FILE = "00000000000000000000-0000000000.checkpoint"
FIRST_EPOCH = 0
# The maximum size of a batch of metadata records, in files and in the log.
MAX_BATCH_BYTES = 8 * 1024 * 1024

_QUORUM_FLAGS = "--standalone, --initial-controllers, or --no-initial-controllers"


def choose_levels(
    chosen: Mapping[str, int], release: MetadataVersion | None, *, dynamic_quorum: bool, unstable: bool
) -> tuple[MetadataVersion, dict[str, int]]:
    """Returns metadata.version and the level of every feature; raises ValueError with Apache Kafka's message.

    `chosen` are the levels requested by name; `release` provides the defaults for the others.
    """
    version = _choose_version(chosen, release, unstable)
    for name in chosen:
        if name != METADATA_VERSION and name not in FEATURES_BY_NAME:
            known = ", ".join(sorted(FEATURES_BY_NAME))
            raise ValueError(f"Unsupported feature: {name}. Supported features are: {known}")
    levels = {feature.name: feature.default_level(version) for feature in FEATURES} | dict(chosen)
    levels[METADATA_VERSION] = version.level
    levels[KRAFT_VERSION] = _choose_kraft_version(chosen.get(KRAFT_VERSION), dynamic_quorum)
    for name in sorted(FEATURES_BY_NAME):
        FEATURES_BY_NAME[name].check(levels[name], levels, unstable=unstable)
    return version, levels


def _choose_version(
    chosen: Mapping[str, int], release: MetadataVersion | None, unstable: bool
) -> MetadataVersion:
    if METADATA_VERSION in chosen:
        if release is not None:
            raise ValueError(
                f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity."
            )
        release = metadata_version_at(chosen[METADATA_VERSION])
    if release is None:
        return LATEST_METADATA_VERSION if unstable else LATEST_STABLE_METADATA_VERSION
    if not (release.stable or unstable):
        raise ValueError(f"{METADATA_VERSION} {release} is not yet stable.")
    return release


def _choose_kraft_version(requested: int | None, dynamic_quorum: bool) -> int:
    """kraft.version is 1 exactly when the quorum is dynamic."""
    if requested is None:
        return 1 if dynamic_quorum else 0
    prefix = f"Cannot set {KRAFT_VERSION} to {requested}"
    if requested == 0 and dynamic_quorum:
        raise ValueError(
            f"{prefix} if one of the flags {_QUORUM_FLAGS} is used. For dynamic controllers support, "
            f"try removing the --feature flag for {KRAFT_VERSION}."
        )
    if requested != 0 and not dynamic_quorum:
        raise ValueError(
            f"{prefix} unless one of the flags {_QUORUM_FLAGS} is used. For dynamic controllers support, "
            f"try using one of {_QUORUM_FLAGS}."
        )
    return requested


def first_records(
    version: MetadataVersion, levels: Mapping[str, int], credentials: Sequence[ScramCredential] = ()
) -> list[Message]:
    """The records that the first active controller appends."""
    if credentials and version.level < SCRAM_METADATA_VERSION.level:
        raise ValueError(f"SCRAM is only supported in {METADATA_VERSION} {SCRAM_METADATA_VERSION} or later.")
    records: list[Message] = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=version.level)]
    # kraft.version is stored by the quorum itself, in control records.
    names = sorted(name for name in levels if name not in (METADATA_VERSION, KRAFT_VERSION))
    records += [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names if levels[name]]
    records += [
        UserScramCredentialRecord(
            name=credential.name,
            mechanism=credential.mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
        for credential in credentials
    ]
    return records


def bootstrap_checkpoint(records: Iterable[Message], now_ms: int) -> bytes:
    """The content of `bootstrap.checkpoint`."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=0)
    content = _control_batch(0, now_ms, [(ControlType.SNAPSHOT_HEADER, header)])
    offset = 1
    for values in _split(write_metadata_record(record, 0) for record in records):
        content += build(
            [Record(offset + number, now_ms, None, value) for number, value in enumerate(values)],
            leader_epoch=FIRST_EPOCH,
        )
        offset += len(values)
    return bytes(content + _footer(offset, now_ms))


def voters_checkpoint(
    voters: Sequence[InitialVoter], listener_name: str, kraft_version: int, now_ms: int
) -> bytes:
    """The content of the first snapshot of a dynamic quorum: the voters, but no metadata."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=now_ms)
    start = [
        (ControlType.SNAPSHOT_HEADER, header),
        (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=kraft_version)),
        (ControlType.KRAFT_VOTERS, voters_record(voters, listener_name)),
    ]
    return bytes(_control_batch(0, now_ms, start) + _footer(len(start), now_ms))


def voters_record(voters: Sequence[InitialVoter], listener_name: str) -> VotersRecord:
    """The voters as stored in the quorum's log.  Listener names are in upper case there."""
    supported = VotersRecord.KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    return VotersRecord(
        version=0,
        voters=[
            VotersRecord.Voter(
                voter_id=voter.node_id,
                voter_directory_id=voter.directory_id,
                endpoints=[
                    VotersRecord.Endpoint(name=listener_name.upper(), host=voter.host, port=voter.port)
                ],
                kraft_version_feature=supported,
            )
            for voter in voters
        ],
    )


def _split(values: Iterable[bytes]) -> Iterable[list[bytes]]:
    """Split the values into batches."""
    run: list[bytes] = []
    size = 0
    for value in values:
        if run and size + len(value) > MAX_BATCH_BYTES // 2:
            yield run
            run, size = [], 0
        run.append(value)
        size += len(value)
    if run:
        yield run


def _control_batch(offset: int, now_ms: int, messages: Sequence[tuple[ControlType, Message]]) -> bytearray:
    return build(
        [
            Record(offset + number, now_ms, control_key(kind), message.encode(0))
            for number, (kind, message) in enumerate(messages)
        ],
        leader_epoch=FIRST_EPOCH,
        control=True,
    )


def _footer(offset: int, now_ms: int) -> bytearray:
    return _control_batch(offset, now_ms, [(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0))])
