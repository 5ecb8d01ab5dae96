"""The offset APIs over a connection; the behaviour of offsets is tested with the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.handlers import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from barnabas.broker.security.authorizer import Operation, Resource
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.broker.worlds.front_world import Denying, Front, Wire

OPTIONS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "unstable.api.versions.enable": "true",
}
NAMED = ApiVersionsRequest(client_software_name="test", client_software_version="1")
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Iterator[Front]:
    with Front(monkeypatch, None, **OPTIONS) as made:
        yield made


def ready(front: Front) -> Wire:
    """A connection to a coordinator, with the topics t (4 partitions) and u (1)."""
    wire = front.connect()
    for name, partitions in (("t", 4), ("u", 1)):
        make_topic(wire, name, partitions)
    front.until(lambda: wire.ask(FindCoordinatorRequest(key="g", key_type=0), 3).error_code == NONE)
    # It has an error while any partition of __consumer_offsets is loaded.
    front.until(lambda: wire.ask(ListGroupsRequest(), 4).error_code == NONE)
    return wire


def make_topic(wire: Wire, name: str, partitions: int) -> Uuid:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    made = wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    return made.topics[0].topic_id  # type: ignore[no-any-return]


def commit(
    topics: dict[Any, dict[int, int]], group: str = "g", text: str = "", **more: Any
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[
            OffsetCommitRequest.Topic(
                **({"topic_id": topic} if isinstance(topic, Uuid) else {"name": topic}),
                partitions=[
                    OffsetCommitRequest.Partition(
                        partition_index=index, committed_offset=offset, committed_metadata=text
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in topics.items()
        ],
        **more,
    )


def fetch(topics: dict[str, list[int]] | None, group: str = "g", **more: Any) -> OffsetFetchRequest:
    """Before version 8."""
    rows = None
    if topics is not None:
        rows = [OffsetFetchRequest.Topic(name=n, partition_indexes=p) for n, p in topics.items()]
    return OffsetFetchRequest(group_id=group, topics=rows, **more)


def fetch_groups(*groups: OffsetFetchRequest.Group, **more: Any) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(groups), **more)


def group_of(group: str, topics: dict[Any, list[int]] | None) -> OffsetFetchRequest.Group:
    rows = None
    if topics is not None:
        rows = [
            OffsetFetchRequest.Topics(
                **({"topic_id": topic} if isinstance(topic, Uuid) else {"name": topic}), partition_indexes=p
            )
            for topic, p in topics.items()
        ]
    return OffsetFetchRequest.Group(group_id=group, topics=rows)


def codes(response: Any) -> Any:
    return [
        (topic.name, {one.partition_index: ErrorCode(one.error_code) for one in topic.partitions})
        for topic in response.topics
    ]


def committed_in(holder: Any) -> Any:
    """Topic -> partition -> offset, or the error."""
    return {
        topic.name: {
            one.partition_index: ErrorCode(one.error_code) if one.error_code else one.committed_offset
            for one in topic.partitions
        }
        for topic in holder.topics
    }


# OffsetCommit and OffsetFetch


@pytest.mark.parametrize("version", range(2, 10))
def test_a_commit_is_fetched_in_every_version(front: Front, version: int) -> None:
    wire = ready(front)
    answer = wire.ask(commit({"t": {0: 5, 1: 6}}, text="hello"), version)
    assert codes(answer) == [("t", {0: NONE, 1: NONE})]
    for fetch_version in range(1, 8):
        found = wire.ask(fetch({"t": [0, 1, 2]}), fetch_version)
        assert committed_in(found) == {"t": {0: 5, 1: 6, 2: -1}}
        assert [one.metadata for one in found.topics[0].partitions] == ["hello", "hello", ""]
    for fetch_version in (8, 9):
        (group,) = wire.ask(fetch_groups(group_of("g", {"t": [0]})), fetch_version).groups
        assert (group.group_id, group.error_code, committed_in(group)) == ("g", 0, {"t": {0: 5}})


@pytest.mark.parametrize("version", [1, 7])
def test_a_partition_is_fetched_as_often_as_it_is_requested(front: Front, version: int) -> None:
    wire = ready(front)
    wire.ask(commit({"t": {0: 5, 1: 6}}), 9)
    indexes = [0, 1, 0, 2] * 60
    (topic,) = wire.ask(fetch({"t": indexes}), version).topics
    offsets = [(partition.partition_index, partition.committed_offset) for partition in topic.partitions]
    assert offsets == [(0, 5), (1, 6), (0, 5), (2, -1)] * 60
    groups = fetch_groups(group_of("g", {"t": indexes}))
    (topic,) = wire.ask(groups, 9).groups[0].topics
    assert [partition.committed_offset for partition in topic.partitions] == [5, 6, 5, -1] * 60


def test_unknown_partitions_are_refused_and_others_committed(front: Front) -> None:
    wire = ready(front)
    answer = wire.ask(commit({"nowhere": {0: 1}, "t": {0: 5, 9: 1}, "u": {0: 6}}), 9)
    assert codes(answer) == [("nowhere", {0: UNKNOWN}), ("t", {9: UNKNOWN, 0: NONE}), ("u", {0: NONE})]
    assert codes(wire.ask(commit({"nowhere": {0: 1}}), 9)) == [("nowhere", {0: UNKNOWN})]
    answer = wire.ask(commit({"nowhere": {0: 1}, "t": {0: 7}}, "h", generation_id_or_member_epoch=1), 9)
    assert codes(answer) == [("nowhere", {0: UNKNOWN}), ("t", {0: ErrorCode.GROUP_ID_NOT_FOUND})]
    assert committed_in(wire.ask(fetch(None), 7)) == {"t": {0: 5}, "u": {0: 6}}


def test_several_groups_are_fetched_at_once(front: Front) -> None:
    wire = ready(front)
    wire.ask(commit({"t": {0: 5}}), 9)
    wire.ask(commit({"u": {0: 6}}, "h"), 9)
    groups = wire.ask(
        fetch_groups(group_of("g", None), group_of("nobody", {"t": [0]}), group_of("h", None)), 9
    ).groups
    assert [(one.group_id, committed_in(one)) for one in groups] == [
        ("g", {"t": {0: 5}}),
        ("nobody", {"t": {0: -1}}),
        ("h", {"u": {0: 6}}),
    ]
    assert wire.ask(fetch_groups(), 8).groups == []


def test_topics_by_their_ids(front: Front) -> None:
    wire = ready(front)
    known = front.broker.image.topic_named("t")
    assert known is not None
    nobody = Uuid.from_words(7, 7)
    answer = wire.ask(commit({known.id: {0: 5, 9: 1}, nobody: {0: 1}, ZERO_UUID: {1: 1}}), 10)
    found = {
        topic.topic_id: {one.partition_index: one.error_code for one in topic.partitions}
        for topic in answer.topics
    }
    unknown_id = ErrorCode.UNKNOWN_TOPIC_ID
    assert found == {nobody: {0: unknown_id}, ZERO_UUID: {1: unknown_id}, known.id: {9: UNKNOWN, 0: 0}}
    (group,) = wire.ask(fetch_groups(group_of("g", {known.id: [0], nobody: [0]})), 10).groups
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in group.topics] == [
        (known.id, 0),
        (nobody, unknown_id),
    ]
    (group,) = wire.ask(fetch_groups(group_of("g", None)), 10).groups
    assert [topic.topic_id for topic in group.topics] == [known.id]


@pytest.mark.trap
def test_versions_that_are_not_stable_are_announced_on_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 18: OffsetFetch requireStable; by topic id (v10) coded, announced only with unstable.api.versions.enable."""
    for enabled, highest in (("true", 10), ("false", 9)):
        options = {**OPTIONS, "unstable.api.versions.enable": enabled}
        with Front(monkeypatch, None, **options) as front:
            keys = front.connect().ask(NAMED, 3).api_keys
            announced = {one.api_key: one.max_version for one in keys}
            assert (announced[8], announced[9]) == (highest, highest)


@pytest.mark.trap
def test_a_deleted_topic_takes_its_offsets_along(front: Front) -> None:
    """Trap 17: Deleting a topic drops the groups' commits for it."""
    wire = ready(front)
    wire.ask(commit({"t": {0: 5}, "u": {0: 6}}), 9)
    removed = DeleteTopicsRequest.DeleteTopicState(name="t", topic_id=ZERO_UUID)
    assert wire.ask(DeleteTopicsRequest(topics=[removed], timeout_ms=1_000), 6).responses[0].error_code == 0
    assert committed_in(wire.ask(fetch(None), 7)) == {"u": {0: 6}}
    make_topic(wire, "t", 4)
    assert committed_in(wire.ask(fetch({"t": [0]}), 7)) == {"t": {0: -1}}


# Errors of a coordinator


def test_a_broker_that_does_not_coordinate_says_so(front: Front) -> None:
    wire = front.connect()
    make_topic(wire, "t", 1)
    not_here = ErrorCode.NOT_COORDINATOR
    assert codes(wire.ask(commit({"t": {0: 5}}), 9)) == [("t", {0: not_here})]
    answer = wire.ask(fetch({"t": [0]}), 7)
    assert (answer.error_code, answer.topics) == (not_here, [])
    assert committed_in(wire.ask(fetch({"t": [0]}), 1)) == {"t": {0: not_here}}
    (group,) = wire.ask(fetch_groups(group_of("g", {"t": [0]})), 9).groups
    assert (group.error_code, group.topics) == (not_here, [])
    deletion = OffsetDeleteRequest(group_id="g", topics=[])
    assert wire.ask(deletion, 0).error_code == not_here


# OffsetDelete


def deletion(topics: dict[str, list[int]], group: str = "g") -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.Topic(
                name=name,
                partitions=[OffsetDeleteRequest.Partition(partition_index=one) for one in partitions],
            )
            for name, partitions in topics.items()
        ],
    )


def test_offsets_are_deleted(front: Front) -> None:
    wire = ready(front)
    wire.ask(commit({"t": {0: 5, 1: 6}}), 9)
    answer = wire.ask(deletion({"nowhere": [0], "t": [0, 9]}), 0)
    assert answer.error_code == 0
    assert codes(answer) == [("nowhere", {0: UNKNOWN}), ("t", {9: UNKNOWN, 0: NONE})]
    assert committed_in(wire.ask(fetch(None), 7)) == {"t": {1: 6}}
    assert wire.ask(deletion({"t": [0]}, "nobody"), 0).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert wire.ask(deletion({"t": [0]}, ""), 0).error_code == ErrorCode.INVALID_GROUP_ID


# TxnOffsetCommit


def txn(topics: dict[str, dict[int, int]], group: str = "g", **more: Any) -> TxnOffsetCommitRequest:
    fields = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0, **more}
    return TxnOffsetCommitRequest(
        group_id=group,
        topics=[
            TxnOffsetCommitRequest.Topic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequest.Partition(
                        partition_index=index, committed_offset=offset, committed_metadata=""
                    )
                    for index, offset in partitions.items()
                ],
            )
            for topic, partitions in topics.items()
        ],
        **fields,
    )


def test_offsets_of_an_unknown_transaction_are_refused(front: Front) -> None:
    wire = ready(front)
    answer = wire.ask(txn({"nowhere": {0: 1}, "t": {0: 5}}), 3)
    refused = codes(answer)
    assert refused[0] == ("nowhere", {0: UNKNOWN})
    assert refused[1][1][0] is not NONE
    assert codes(wire.ask(txn({"nowhere": {0: 1}}), 5)) == [("nowhere", {0: UNKNOWN})]
    assert codes(wire.ask(txn({"t": {0: 1}}, ""), 5)) == [("t", {0: ErrorCode.INVALID_GROUP_ID})]


@pytest.mark.parametrize(
    ("code", "version", "reported"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, 4, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, 0, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_older_producers_get_codes_that_they_know(code: ErrorCode, version: int, reported: ErrorCode) -> None:
    assert txn_offset_commit._for_version(code, version) is reported


# Authorization


def test_a_group_that_must_not_be_read_is_not_committed_to(front: Front) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying(
        (Operation.READ, Resource.GROUP, "g"),
        (Operation.DESCRIBE, Resource.GROUP, "g"),
        (Operation.DELETE, Resource.GROUP, "g"),
    )
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert codes(wire.ask(commit({"t": {0: 5}, "nowhere": {0: 1}}), 9)) == [
        ("t", {0: refused}),
        ("nowhere", {0: refused}),
    ]
    groups = wire.ask(fetch_groups(group_of("g", {"t": [0]}), group_of("h", {"t": [0]})), 9).groups
    assert [one.error_code for one in groups] == [refused, 0]
    assert wire.ask(deletion({"t": [0]}), 0).error_code == refused
    assert codes(wire.ask(txn({"t": {0: 5}}), 5)) == [("t", {0: refused})]


def test_a_topic_that_must_not_be_read_is_refused_alone(front: Front) -> None:
    wire = ready(front)
    wire.ask(commit({"t": {0: 5}, "u": {0: 6}}), 9)
    front.broker.authorizer = Denying(
        (Operation.READ, Resource.TOPIC, "t"), (Operation.DESCRIBE, Resource.TOPIC, "t")
    )
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes(wire.ask(commit({"u": {0: 7}, "t": {0: 8}}), 9)) == [("t", {0: refused}), ("u", {0: NONE})]
    assert codes(wire.ask(deletion({"t": [0]}), 0)) == [("t", {0: refused})]
    assert committed_in(wire.ask(fetch({"t": [0], "u": [0]}), 7)) == {"u": {0: 7}, "t": {0: refused}}
    assert committed_in(wire.ask(fetch(None), 7)) == {"u": {0: 7}}
    assert codes(wire.ask(txn({"t": {0: 8}}), 5)) == [("t", {0: refused})]


def test_a_transactional_id_that_must_not_be_used(front: Front) -> None:
    wire = ready(front)
    front.broker.authorizer = Denying((Operation.WRITE, Resource.TRANSACTIONAL_ID, "x"))
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert codes(wire.ask(txn({"t": {0: 5}}), 5)) == [("t", {0: refused})]


# Internal errors


def test_an_internal_error_is_returned_in_every_version(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = ready(front)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    for module, name in (
        (offset_commit, "commit"),
        (offset_fetch, "fetch"),
        (offset_delete, "delete"),
    ):
        monkeypatch.setattr(module, name, broken)
    fault = ErrorCode.UNKNOWN_SERVER_ERROR
    assert codes(wire.ask(commit({"t": {0: 5}}), 9)) == [("t", {0: fault})]
    assert committed_in(wire.ask(fetch({"t": [0]}), 1)) == {"t": {0: fault}}
    assert wire.ask(fetch({"t": [0]}), 7).error_code == fault
    assert wire.ask(fetch_groups(group_of("g", None)), 9).groups[0].error_code == fault
    assert wire.ask(deletion({"t": [0]}), 0).error_code == fault


def test_a_batch_that_does_not_fit_is_our_fault(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = ready(front)

    def refused(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)

    monkeypatch.setattr(offset_commit, "commit", refused)
    assert codes(wire.ask(commit({"t": {0: 5}}), 9)) == [("t", {0: ErrorCode.UNKNOWN_SERVER_ERROR})]
