"""Our declarations against the message definitions inside Apache Kafka's jars, field by field.

4.1.0 must not differ at all: name, order, type, versions, nullability, tag, default, ignorable; AddRaftVoter is
that of 4.3.1.  3.9.1 is
compared from 4.1.0's lowest versions up, by what is on the wire.  What differs there is listed here, and the
lists are exact: an entry that is no longer needed fails too.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.apis import apis
from barnabas.protocol.schema import Field, Message, Schema
from tests.verify.formats.codec_messages import OURS, PACKAGE, ZOOKEEPER_MODE
from tools.generate_messages import FROM_4_3, generate

Definition = dict[str, Any]

# Message of 3.9.1 -> its name since.
RENAMED_MESSAGES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
# (message, name in 3.9.1) -> name since.
RENAMED_FIELDS = {
    ("VoteRequest", "candidateEpoch"): "replicaEpoch",
    ("VoteRequest", "candidateId"): "replicaId",
    ("VoteRequest", "candidateDirectoryId"): "replicaDirectoryId",
    ("ListConfigResourcesResponse", "clientMetricsResources"): "configResources",
    ("ListConfigResourcesResponse", "name"): "resourceName",
}
# Tagged fields that came without a new version, which tags allow: an older reader skips them.
LATER_TAGGED_FIELDS = {
    ("ConsumerGroupMetadataValue", "metadataHash"),
    ("OffsetCommitValue", "topicId"),
    ("RemoteLogSegmentMetadataRecord", "txnIndexEmpty"),
    ("RemoteLogSegmentMetadataSnapshotRecord", "txnIndexEmpty"),
    ("TransactionLogValue", "previousProducerId"),
    ("TransactionLogValue", "nextProducerId"),
    ("TransactionLogValue", "nextProducerEpoch"),
    ("TransactionLogValue", "clientTransactionVersion"),
}
# Share groups were an early access in 3.9.1: two messages changed within version 0, others begin anew at 1, and
# two records are gone.
CHANGED_IN_EARLY_ACCESS = {("ReadShareGroupStateSummaryResponse", 0), ("ShareGroupMetadataValue", 0)}
GONE = {"ShareGroupPartitionMetadataKey", "ShareGroupPartitionMetadataValue"}
# 3.9.1 wrote the type of a coordinator's key as the version of its definition; the bytes are the same.
KEY_TYPES = {
    "OffsetCommitKey": 1,
    "GroupMetadataKey": 2,
    "ConsumerGroupMetadataKey": 3,
    "ConsumerGroupPartitionMetadataKey": 4,
    "ConsumerGroupMemberMetadataKey": 5,
    "ConsumerGroupTargetAssignmentMetadataKey": 6,
    "ConsumerGroupTargetAssignmentMemberKey": 7,
    "ConsumerGroupCurrentMemberAssignmentKey": 8,
    "ShareGroupMemberMetadataKey": 10,
    "ShareGroupMetadataKey": 11,
    "TransactionLogKey": 0,
}
MESSAGES_THAT_START_LOWER_IN_3_9 = 49


class Line(NamedTuple):
    """One field in one version; `parts` are the fields of a struct."""

    name: str
    kind: str
    is_array: bool
    present: bool
    nullable: bool
    tag: int | None
    default: Any
    ignorable: bool
    compact: bool
    parts: tuple[Line, ...]

    @property
    def wire(self) -> tuple[Any, ...]:
        """What other software can see of it."""
        parts = tuple(part.wire for part in self.parts if part.present)
        return (self.kind, self.is_array, self.nullable, self.tag, self.compact, parts)


def load(libs: Path) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for jar in sorted(libs.glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".json") and ("message/" in name or "common/metadata/" in name):
                    lines = archive.read(name).decode().splitlines()
                    definition = json.loads(
                        "\n".join(line for line in lines if not line.lstrip().startswith("//"))
                    )
                    assert definition["name"] not in found
                    found[definition["name"]] = definition
    return found


def in_versions(text: str | None, version: int) -> bool:
    if text is None or text == "none":
        return False
    lowest, plus, _ = text.partition("+")
    if plus:
        return version >= int(lowest)
    first, _, last = text.partition("-")
    return int(first) <= version <= int(last or first)


def valid_versions(definition: Definition) -> range:
    if definition["validVersions"] == "none":
        return range(0)
    first, _, last = definition["validVersions"].partition("-")
    return range(int(first), int(last or first) + 1)


def their_default(known: Definition) -> Any:
    """As Apache Kafka's generator reads it."""
    kind, said = known["type"], known.get("default")
    said = "" if said is None else str(said)
    if said == "null" or kind == "records":
        return None
    if kind.startswith("[]"):
        return []
    if kind[0].isupper():
        return "struct"
    if kind == "bool":
        return said.lower() == "true"
    if kind in ("string", "bytes"):
        return said if kind == "string" else said.encode()
    if kind == "uuid":
        assert said == ""
        return ZERO_UUID
    return float(said or 0) if kind == "float64" else int(said or "0", 0)


def their_lines(
    fields: list[Definition], common: dict[str, Any], version: int, reached: bool
) -> tuple[Line, ...]:
    lines = []
    for known in fields:
        kind = known["type"].removeprefix("[]")
        present = reached and in_versions(known.get("versions", known.get("taggedVersions")), version)
        parts: tuple[Line, ...] = ()
        if kind[0].isupper():
            parts = their_lines(known.get("fields") or common[kind], common, version, present)
        tagged = present and in_versions(known.get("taggedVersions"), version)
        lines.append(
            Line(
                name=known["name"][0].lower() + known["name"][1:],
                kind="struct" if parts else kind,
                is_array=known["type"].startswith("[]"),
                present=present,
                nullable=present and in_versions(known.get("nullableVersions"), version),
                tag=int(known["tag"]) if tagged else None,
                default=their_default(known),
                ignorable=bool(known.get("ignorable")),
                compact=known.get("flexibleVersions") != "none",
                parts=parts,
            )
        )
    return tuple(lines)


def theirs(definition: Definition, version: int) -> tuple[Line, ...]:
    common = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    return their_lines(definition["fields"], common, version, True)


def our_line(known: Field, version: int, reached: bool) -> Line:
    present = reached and version in known.versions
    kind = "records" if known.kind == "record_data" else known.kind
    default = known.default
    if known.is_array and default is not None:
        default = []
    elif known.struct is not None and default is not None:
        default = "struct"
    return Line(
        name=known.name,
        kind=kind,
        is_array=known.is_array,
        present=present,
        nullable=present and version in known.nullable,
        tag=known.tag if present else None,
        default=default,
        ignorable=known.ignorable,
        compact=known.compact,
        parts=() if known.struct is None else our_lines(known.struct.schema, version, present),
    )


def our_lines(schema: Schema, version: int, reached: bool = True) -> tuple[Line, ...]:
    return tuple(our_line(known, version, reached) for known in schema.fields)


def always_present(schema: Schema, name: str) -> bool:
    """Whether a field is in every version; then `ignorable` has no meaning and is not declared."""
    return any(known.name == name and str(known.versions) == "0+" for known in schema.fields)


def without_idle_ignorable(lines: tuple[Line, ...], schema: Schema) -> tuple[Line, ...]:
    """Ignorable only where a version lacks the field: elsewhere it says nothing."""
    structs = {known.name: known.struct for known in schema.fields}
    settled = []
    for line in lines:
        struct = structs.get(line.name)
        parts = line.parts if struct is None else without_idle_ignorable(line.parts, struct.schema)
        idle = always_present(schema, line.name)
        settled.append(line._replace(ignorable=line.ignorable and not idle, parts=parts))
    return tuple(settled)


@pytest.fixture(scope="module")
def newer(kafka_libs: Callable[[str], Path]) -> dict[str, Definition]:
    return load(kafka_libs("4.1.0"))


@pytest.fixture(scope="module")
def newest(kafka_libs: Callable[[str], Path]) -> dict[str, Definition]:
    return load(kafka_libs("4.3.1"))


@pytest.fixture(scope="module")
def older(kafka_libs: Callable[[str], Path]) -> dict[str, Definition]:
    return load(kafka_libs("3.9.1"))


def differences(cls: type[Message], definition: Definition) -> list[str]:
    """Every way in which a declaration is not the definition, in the versions the definition has."""
    found = []
    schema = cls.schema
    if schema.key != definition.get("apiKey"):
        found.append(f"key {schema.key}, not {definition.get('apiKey')}")
    for version in valid_versions(definition):
        if version not in schema.versions:
            found.append(f"no version {version}")
        if (version in schema.flexible) != in_versions(definition.get("flexibleVersions"), version):
            found.append(f"version {version}: flexible on one side only")
        expected = without_idle_ignorable(theirs(definition, version), schema)
        for mine, other in zip(our_lines(schema, version), expected, strict=False):
            if mine != other:
                found.append(f"version {version}: {mine} is not {other}")
        if len(schema.fields) != len(expected):
            found.append(f"version {version}: {len(schema.fields)} fields, not {len(expected)}")
    return found


def test_every_message_of_4_1_is_declared_and_no_other(newer: dict[str, Definition]) -> None:
    assert set(OURS) == set(newer)
    assert len(newer) == 279


@pytest.mark.parametrize("name", sorted(set(OURS) - ZOOKEEPER_MODE - FROM_4_3 - {"RequestHeader"}))
def test_declared_as_in_4_1(name: str, newer: dict[str, Definition]) -> None:
    assert differences(OURS[name], newer[name]) == []
    lowest, highest = OURS[name].schema.versions.lowest, OURS[name].schema.versions.highest
    assert range(lowest, highest + 1) == valid_versions(newer[name])


@pytest.mark.parametrize("name", sorted(FROM_4_3))
def test_declared_as_in_4_3(name: str, newest: dict[str, Definition]) -> None:
    assert differences(OURS[name], newest[name]) == []
    lowest, highest = OURS[name].schema.versions.lowest, OURS[name].schema.versions.highest
    assert range(lowest, highest + 1) == valid_versions(newest[name])


@pytest.mark.parametrize("name", sorted(ZOOKEEPER_MODE | {"RequestHeader"}))
def test_declared_as_in_3_9(name: str, older: dict[str, Definition]) -> None:
    """The APIs of ZooKeeper mode, and the request header, whose version 0 one of them needs."""
    assert differences(OURS[name], older[name]) == []
    lowest, highest = OURS[name].schema.versions.lowest, OURS[name].schema.versions.highest
    assert range(lowest, highest + 1) == valid_versions(older[name])


def test_the_request_header_of_4_1_is_the_same_but_for_ignorable(newer: dict[str, Definition]) -> None:
    definition = newer["RequestHeader"]
    definition["fields"][3]["ignorable"] = True
    assert differences(OURS["RequestHeader"], definition) == []


class Comparison:
    """3.9.1 against our declarations, collecting every exception that was made use of."""

    def __init__(self) -> None:
        self.renamed: set[tuple[str, str]] = set()
        self.later: set[tuple[str, str]] = set()
        self.faults: list[str] = []

    def lines(self, message: str, ours: tuple[Line, ...], theirs: tuple[Line, ...], where: str) -> None:
        present = [line for line in ours if line.present]
        other = [line for line in theirs if line.present]
        known = {RENAMED_FIELDS.get((message, line.name), line.name) for line in other}
        for line in list(present):
            if (
                (message, line.name) in LATER_TAGGED_FIELDS
                and line.name not in known
                and line.tag is not None
            ):
                self.later.add((message, line.name))
                present.remove(line)
        if len(present) != len(other):
            self.faults.append(f"{where}: {len(present)} fields, not {len(other)}")
            return
        for mine, old in zip(present, other, strict=True):
            self.line(message, mine, old, f"{where} {mine.name}")

    def line(self, message: str, mine: Line, old: Line, where: str) -> None:
        if mine.name != old.name:
            if RENAMED_FIELDS.get((message, old.name)) == mine.name:
                self.renamed.add((message, old.name))
            else:
                self.faults.append(f"{where}: was {old.name}")
        if mine.wire[:-1] != old.wire[:-1] or mine.default != old.default:
            self.faults.append(f"{where}: {mine} was {old}")
        self.lines(message, mine.parts, old.parts, where)


def compare_with_3_9(older: dict[str, Definition]) -> Comparison:
    comparison = Comparison()
    for old_name, definition in older.items():
        name = RENAMED_MESSAGES.get(old_name, old_name)
        if name in GONE:
            continue
        schema = OURS[name].schema
        for version in valid_versions(definition):
            ours = 0 if name in KEY_TYPES else version
            if ours not in schema.versions or (name, version) in CHANGED_IN_EARLY_ACCESS:
                continue
            if (ours in schema.flexible) != in_versions(definition.get("flexibleVersions"), version):
                comparison.faults.append(f"{name} {version}: flexible on one side only")
            comparison.lines(name, our_lines(schema, ours), theirs(definition, version), f"{name} {version}")
    return comparison


def test_3_9_has_the_same_bytes_but_for_what_is_listed(older: dict[str, Definition]) -> None:
    comparison = compare_with_3_9(older)
    assert comparison.faults == []
    assert comparison.renamed == set(RENAMED_FIELDS)
    assert comparison.later == LATER_TAGGED_FIELDS


def test_the_listed_exceptions_of_3_9_are_needed(older: dict[str, Definition]) -> None:
    assert {name for name in older if name not in OURS} == GONE | set(RENAMED_MESSAGES)
    for name, version in CHANGED_IN_EARLY_ACCESS:
        comparison = Comparison()
        mine, old = our_lines(OURS[name].schema, version), theirs(older[name], version)
        comparison.lines(name, mine, old, name)
        assert comparison.faults
    for name, kind in KEY_TYPES.items():
        assert OURS[name].schema.key == kind
        assert max(valid_versions(older[name])) == kind


def test_which_messages_start_lower_in_3_9(
    older: dict[str, Definition], newer: dict[str, Definition]
) -> None:
    lower = [
        name
        for name in set(older) & set(newer)
        if valid_versions(newer[name]) and min(valid_versions(older[name])) < min(valid_versions(newer[name]))
    ]
    assert len(lower) == MESSAGES_THAT_START_LOWER_IN_3_9


def test_the_table_of_apis(newer: dict[str, Definition], older: dict[str, Definition]) -> None:
    for api in apis().values():
        name = f"{api.name}Request"
        definition = older[name] if name in ZOOKEEPER_MODE else newer[name]
        assert api.key == definition["apiKey"]
        assert api.versions == api.request.schema.versions == api.response.schema.versions
        assert api.stable == max(valid_versions(definition)) - bool(definition.get("latestVersionUnstable"))
        assert set(api.listeners) - {"zkBroker"} == set(definition["listeners"]) - {"zkBroker"}
        for version in valid_versions(definition):
            assert api.is_flexible(version) == in_versions(definition.get("flexibleVersions"), version)


def test_the_committed_files_are_what_the_generator_writes(
    kafka_libs: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "records").mkdir()
    generate(kafka_libs("4.1.0"), kafka_libs("3.9.1"), kafka_libs("4.3.1"), tmp_path)
    written = [file.relative_to(tmp_path) for file in tmp_path.rglob("*.py")]
    assert len(written) == 93 + 1 + 13 + 1
    for file in written:
        assert (PACKAGE / file).read_text("utf-8") == (tmp_path / file).read_text("utf-8"), file


def test_no_text_of_the_definitions_was_taken_over(newer: dict[str, Definition]) -> None:
    """Our lines about messages are our own."""

    def texts(fields: list[Definition]) -> set[str]:
        found = set()
        for known in fields:
            found.add(known.get("about", "").strip().rstrip("."))
            found |= texts(known.get("fields", []))
        return found

    about = set().union(*(texts(definition.get("fields", [])) for definition in newer.values())) - {""}
    for file in [*PACKAGE.glob("messages/*.py"), *PACKAGE.glob("records/*.py")]:
        for line in re.findall(r'"""(.*?)"""', file.read_text("utf-8"), re.DOTALL):
            assert line.strip().rstrip(".") not in about
