"""Declarations: constructors, defaults, equality, versions; and that importing the codec is cheap."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import NO_VERSIONS, Message, Versions, camel_case, field, int32, string

from .catalogue import messages


class Small(Message, key=99, versions=(1, 4), flexible=3):
    """For these tests."""

    class Part(Message):
        number: int32
        text: string | None = field(default=None)

    name: string
    parts: list[Part] = field("2+", default=[])
    limit: int32 = field("3+", default=-1)
    hint: int32 = field("4+", default=0, ignorable=True)
    extra: string = field("3+", tag=0, default="none")


def test_versions_are_ranges() -> None:
    assert [Versions.parse(text) for text in ("3+", "2-4", "0")] == [
        Versions(3, 32767),
        Versions(2, 4),
        Versions(0, 0),
    ]
    assert [str(Versions.parse(text)) for text in ("3+", "2-4", "0")] == ["3+", "2-4", "0"]
    assert 4 in Versions(2, 4)
    assert 5 not in Versions(2, 4)
    assert 0 not in NO_VERSIONS


def test_names_in_json() -> None:
    assert camel_case("v3_and_below_transactional_id") == "v3AndBelowTransactionalId"


def test_fields_without_a_default_must_be_given() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'name'"):
        Small()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'nme'"):
        Small(name="x", nme="y")  # type: ignore[call-arg]


def test_every_instance_has_its_own_lists_and_structs() -> None:
    changed, other = Small(name="a"), Small(name="a")
    changed.parts.append(Small.Part(number=1))
    assert other.parts == []
    first, second = (
        FetchResponse.PartitionData(
            partition_index=0, error_code=0, high_watermark=0, aborted_transactions=None, records=None
        )
        for _ in range(2)
    )
    first.current_leader.leader_id = 5
    assert second.current_leader == FetchResponse.LeaderIdAndEpoch()
    decoded = FetchResponse.schema.new()
    assert decoded.responses == []


def test_instances_are_small_and_compare_by_value() -> None:
    message = Small(name="a", parts=[Small.Part(number=1, text="x")])
    assert not hasattr(message, "__dict__")
    assert message == Small(name="a", parts=[Small.Part(number=1, text="x")])
    assert message != Small(name="a", parts=[Small.Part(number=2, text="x")])
    assert message != Small.Part(number=1)
    assert copy.deepcopy(message) == message
    assert repr(message.parts[0]) == "Small.Part(number=1, text='x')"
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_a_value_that_a_version_cannot_carry_is_rejected() -> None:
    message = Small(name="a", limit=7)
    with pytest.raises(ProtocolError, match="version 2 cannot carry limit") as caught:
        message.encode(2)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.field == "limit"
    assert Small.decode(message.encode(3), 3).limit == 7
    with pytest.raises(ProtocolError, match="version 2 cannot carry extra"):
        Small(name="a", extra="some").encode(2)
    with pytest.raises(ProtocolError, match="version 1 cannot carry parts"):
        Small(name="a", parts=[Small.Part(number=1)]).encode(1)


def test_an_ignorable_value_is_dropped() -> None:
    assert Small.decode(Small(name="a", hint=7).encode(3), 3).hint == 0
    assert Small.decode(Small(name="a", hint=7).encode(4), 4).hint == 7


def test_defaults_fill_fields_that_a_version_lacks() -> None:
    request = FetchRequest.decode(
        FetchRequest(
            max_wait_ms=1,
            min_bytes=1,
            topics=[
                FetchRequest.Topic(
                    topic="t",
                    partitions=[FetchRequest.Partition(partition=0, fetch_offset=5, partition_max_bytes=9)],
                )
            ],
        ).encode(4),
        4,
    )
    assert request.session_epoch == -1
    assert request.topics[0].topic_id == ZERO_UUID
    assert request.topics[0].partitions[0].high_watermark == 2**63 - 1


@pytest.mark.parametrize("version", [-1, 0, 5, 32767])
def test_unknown_versions_are_rejected(version: int) -> None:
    for attempt in (lambda: Small(name="a").encode(version), lambda: Small.decode(b"", version)):
        with pytest.raises(ProtocolError, match=r"1-4 are known") as caught:
            attempt()
        assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_nested_struct_is_not_a_message() -> None:
    with pytest.raises(ProtocolError, match="a part of one"):
        Small.Part(number=1).encode(1)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"name": None}, "name"),
        ({"name": "a", "limit": 2**31}, "limit"),
        ({"name": "a", "limit": "x"}, "limit"),
        ({"name": "a" * 32768}, "name"),
        ({"name": "\ud800"}, "name"),
        ({"name": "a", "parts": None}, "parts"),
        ({"name": "a", "parts": [Small.Part(number=1.5)]}, "parts.number"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_cannot_be_encoded_is_rejected_with_its_field(
    values: dict[str, object], path: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        Small(**values).encode(3)  # type: ignore[arg-type]
    assert caught.value.field == path


class Tagged(Message, versions=(0, 0), flexible=0):
    """Two fields that are written only if they are set."""

    name: string
    first: string = field("0+", tag=0, default="")
    second: string = field("0+", tag=1, default="")
    last: int32 = field("0+", tag=2, default=0)


@pytest.mark.parametrize("path", ["first", "second", "last"])
def test_a_tagged_value_that_cannot_be_encoded_is_rejected_with_its_field(path: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        Tagged(name="a", **{path: 1.5}).encode(0)  # type: ignore[arg-type]
    assert caught.value.field == path


@pytest.mark.parametrize("path", ["first", "second"])
def test_a_damaged_tagged_value_is_rejected_with_its_field(path: str) -> None:
    """Its text is longer than the field that contains it."""
    data = bytearray(Tagged(name="a", first="one", second="two").encode(0))
    at = data.index(b"one" if path == "first" else b"two")
    data[at - 1] += 100
    with pytest.raises(ProtocolError) as caught:
        Tagged.decode(bytes(data), 0)
    assert caught.value.field == path
    assert caught.value.position in (at - 1, at)


@pytest.mark.parametrize(
    ("size", "path"), [(0, "name"), (2, "parts"), (8, "parts"), (9, "parts.text"), (13, "limit..extra")]
)
def test_a_message_that_is_cut_off_is_rejected_with_the_field_it_lacks(size: int, path: str) -> None:
    data = Small(name="a", parts=[Small.Part(number=1, text="x")], limit=1, extra="some").encode(3)
    with pytest.raises(ProtocolError) as caught:
        Small.decode(data[:size], 3)
    assert caught.value.field == path


def test_a_bad_annotation_is_rejected() -> None:
    class Odd(Message, versions=(0, 0)):
        values: dict[str, int]  # not a protocol type

    with pytest.raises(TypeError, match="no type of a message"):
        Odd.schema.fields  # noqa: B018


def test_the_declaration_reads_as_in_the_design() -> None:
    fields = {known.attribute: known for known in OffsetCommitRequest.Partition.schema.fields}
    assert str(fields["committed_leader_epoch"].versions) == "6+"
    assert fields["committed_leader_epoch"].default == -1
    assert fields["committed_metadata"].ever_null


def test_no_field_hides_a_method() -> None:
    taken = {name for name in dir(Message) if not name.startswith("__")}

    def attributes(cls: type[Message]) -> set[str]:
        nested = [known.struct for known in cls.schema.fields if known.struct is not None]
        own = {known.attribute for known in cls.schema.fields}
        return own.union(*(attributes(struct) for struct in nested))

    for cls in messages():
        assert not attributes(cls) & taken, cls


def test_every_message_has_its_own_docstring() -> None:
    for cls in messages():
        assert cls.__doc__
        assert cls.__doc__.endswith((".", "?")), cls


def test_messages_are_imported_when_first_used() -> None:
    code = (
        "import sys, barnabas.protocol.frame as frame\n"
        "loaded = lambda: {n for n in sys.modules if n.startswith('barnabas.protocol.messages.')}\n"
        "assert not loaded(), loaded()\n"
        "assert 'barnabas.protocol.encoder' not in sys.modules\n"
        "frame.api(12).request\n"
        "assert loaded() == {'barnabas.protocol.messages.heartbeat'}, loaded()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
