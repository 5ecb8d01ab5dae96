"""Requests about committed offsets: of groups with and without members, in transactions, legal and illegal."""

from __future__ import annotations

from typing import Any

from barnabas.base.ids import ZERO_UUID, Uuid
from tests.verify.answers.broker_ask import Ask, Said, TopicId, ask

# The longest text that may come with an offset, in the brokers that are asked.
LONGEST_TEXT = 100
NO_SUCH_ID = Uuid.from_words(77, 77)
# A subscription to `letters` as consumers write it, version 0.
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x07letters\xff\xff\xff\xff"
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x07letters\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"
SESSION_MS = 60_000

Rows = dict[str, Any]


def at(offset: int, partition: int = 0, text: str | None = "", epoch: int = -1) -> Rows:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": text,
        "committed_leader_epoch": epoch,
    }


def of(topic: str, *rows: Rows) -> Rows:
    return {"name": topic, "partitions": list(rows)}


def by_id(topic: TopicId | Uuid, *rows: Rows) -> Rows:
    return {"topic_id": topic, "partitions": list(rows)}


def commit(title: str, versions: str, group: str, *topics: Rows, **who: Any) -> Ask:
    fields = {"member_id": "", **who}
    return ask(title, "OffsetCommit", versions, group_id=group, topics=list(topics), **fields)


def fetch(title: str, versions: str, group: str, topics: dict[str, list[int]] | None, **more: Any) -> Ask:
    """Of one group, before version 8."""
    rows = None if topics is None else [{"name": name, "partition_indexes": p} for name, p in topics.items()]
    return ask(title, "OffsetFetch", versions, group_id=group, topics=rows, **more)


def group_of(group: str, topics: dict[Any, list[int]] | None, **who: Any) -> Rows:
    """One group of many, from version 8 on."""
    rows = None
    if topics is not None:
        rows = [
            {"topic_id" if isinstance(name, TopicId | Uuid) else "name": name, "partition_indexes": p}
            for name, p in topics.items()
        ]
    return {"group_id": group, "topics": rows, **who}


def fetch_all(title: str, versions: str, *groups: Rows, stable: bool = False) -> Ask:
    return ask(title, "OffsetFetch", versions, groups=list(groups), require_stable=stable)


def delete(title: str, group: str, topics: dict[str, list[int]]) -> Ask:
    rows = [
        {"name": name, "partitions": [{"partition_index": one} for one in partitions]}
        for name, partitions in topics.items()
    ]
    return ask(title, "OffsetDelete", "0", group_id=group, topics=rows)


def join(
    title: str, version: int, group: str, member: Any = "", protocol: str = "consumer", **more: Any
) -> Ask:
    protocols = [{"name": "range", "metadata": SUBSCRIPTION}]
    return ask(
        title,
        "JoinGroup",
        str(version),
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member,
        protocol_type=protocol,
        protocols=protocols,
        **more,
    )


def sync(title: str, group: str, member: Any, generation: int = 1) -> Ask:
    rows = [{"member_id": member, "assignment": ASSIGNMENT}]
    return ask(
        title, "SyncGroup", "2", group_id=group, generation_id=generation, member_id=member, assignments=rows
    )


def begin(title: str, version: int, transactional_id: str = "tx") -> Ask:
    return ask(
        title,
        "InitProducerId",
        str(version),
        transactional_id=transactional_id,
        transaction_timeout_ms=SESSION_MS,
        producer_id=-1,
        producer_epoch=-1,
    )


def named(of_producer: dict[str, Any]) -> dict[str, Any]:
    return {"producer_id": of_producer["producer"], "producer_epoch": of_producer["epoch"]}


def end(title: str, version: int, of_producer: dict[str, Any], *, commit: bool) -> Ask:
    fields = {"transactional_id": "tx", "committed": commit, **named(of_producer)}
    return ask(title, "EndTxn", str(version), settles=True, **fields)


def beat(title: str, epoch: Any, group: str = "modern", member: str = "me", **more: Any) -> Ask:
    fields = {"group_id": group, "member_id": member, "member_epoch": epoch, **more}
    return ask(title, "ConsumerGroupHeartbeat", "1", settles=True, **fields)


def txn(
    title: str, versions: str, group: str, *topics: Rows, producer: Any = 1, epoch: Any = 0, **who: Any
) -> Ask:
    fields = {"transactional_id": "tx", "producer_id": producer, "producer_epoch": epoch, **who}
    return ask(title, "TxnOffsetCommit", versions, group_id=group, topics=list(topics), **fields)


MEMBER = Said("join v3", "member_id")
OTHER = Said("join with another protocol v3", "member_id")
STATIC = Said("join by name v5", "member_id")
EPOCH = Said("join a consumer group v1", "member_epoch")
# Before transaction.version 2 a transaction keeps its producer's epoch; with it each has its own.
OLDER = {"producer": Said("begin v4", "producer_id"), "epoch": Said("begin v4", "producer_epoch")}
NEWER = {"producer": Said("begin anew v5", "producer_id"), "epoch": Said("begin anew v5", "producer_epoch")}
NEXT = {
    "producer": Said("end the newer transaction v5", "producer_id"),
    "epoch": Said("end the newer transaction v5", "producer_epoch"),
}

# fmt: off
SET_UP: list[Ask] = [
    ask("make topics", "CreateTopics", "7", timeout_ms=9000, validate_only=False, topics=[
        {"name": name, "num_partitions": 4, "replication_factor": 1} for name in ("letters", "parcels", "short-lived")
    ]),
]
SIMPLE: list[Ask] = [
    # Groups without members.
    commit("commit without a group", "2 3 4 5 6 7 8 9", "loner", of("letters", at(5, 0, "hello", 3), at(6, 1, None))),
    commit("commit with a retention", "2 4", "loner", of("letters", at(7, 2)), retention_time_ms=3_600_000),
    commit("commit a text that is too long", "2 8 9", "loner", of("letters", at(1, 0, "x" * (LONGEST_TEXT + 1)), at(8, 3, "y" * LONGEST_TEXT))),
    commit("commit a text of two-byte characters", "8", "loner", of("letters", at(9, 3, "é" * LONGEST_TEXT))),
    commit("commit a text of characters beyond Java's", "8", "loner", of("letters", at(1, 0, "😀" * (LONGEST_TEXT // 2 + 1)))),
    commit("commit to no such topic", "2 9", "loner", of("nowhere", at(1), at(2, 1))),
    commit("commit to no such partition", "2 9", "loner", of("letters", at(10, 0), at(1, 4), at(1, -1))),
    commit("commit to some that exist", "9", "loner", of("nowhere", at(1)), of("letters", at(11, 0), at(1, 9)), of("parcels", at(12, 0))),
    commit("commit a topic twice", "9", "loner", of("letters", at(13, 0)), of("letters", at(14, 1)), of("letters", at(1, 44))),
    commit("commit a partition twice", "9", "loner", of("letters", at(15, 0), at(16, 0))),
    commit("commit nothing", "2 9", "loner"),
    commit("commit no partitions", "9", "loner", of("letters")),
    commit("commit a negative offset", "9", "loner", of("letters", at(-1, 2)), of("parcels", at(-5, 1))),
    commit("commit the largest offset", "9", "loner", of("letters", at(2**63 - 1, 2))),
    commit("commit for the empty group", "2 9", "", of("letters", at(17))),
    commit("commit with a generation to no group", "2 5 8 9", "nobody", of("letters", at(1)), generation_id_or_member_epoch=1, member_id="m"),
    commit("commit with a generation and an unknown topic", "8 9", "nobody", of("letters", at(1)), of("nowhere", at(2)), generation_id_or_member_epoch=1, member_id="m"),
    commit("commit with generation 0 to no group", "8 9", "nobody", of("letters", at(1)), generation_id_or_member_epoch=0),
    commit("commit as a member without a generation", "8 9", "loner", of("letters", at(18)), member_id="stranger"),
    commit("commit with a generation to a simple group", "8 9", "loner", of("letters", at(1)), generation_id_or_member_epoch=0, member_id="stranger"),
    commit("commit by name to a simple group", "8 9", "loner", of("letters", at(19)), group_instance_id="name"),
    commit("commit to an internal topic", "9", "loner", of("__consumer_offsets", at(1))),
    # By id.
    commit("commit by id", "10", "by-id", by_id(TopicId("letters"), at(5, 0, "id")), by_id(NO_SUCH_ID, at(1)), by_id(ZERO_UUID, at(1, 2))),
    commit("commit by id to no such partition", "10", "by-id", by_id(TopicId("letters"), at(6, 1), at(6, 9))),
    fetch_all("fetch by id", "10", group_of("by-id", {TopicId("letters"): [0, 1, 2], NO_SUCH_ID: [0], ZERO_UUID: [1]})),
    fetch_all("fetch all by id", "10", group_of("by-id", None)),
    fetch_all("fetch by name what was committed by id", "9", group_of("by-id", {"letters": [0, 1]})),
    fetch_all("fetch by id what was committed by name", "10", group_of("loner", {TopicId("parcels"): [0]})),
    # Fetch.
    fetch("fetch", "1 2 3 4 5 6 7", "loner", {"letters": [0, 1, 2, 3], "parcels": [0]}),
    fetch("fetch what was never committed", "1 5 7", "loner", {"parcels": [3], "nowhere": [0], "letters": [99, -1]}),
    fetch("fetch of no group", "1 5 7", "nobody", {"letters": [0]}),
    fetch("fetch no topics", "1 2 7", "loner", {}),
    fetch("fetch no partitions", "5", "loner", {"letters": []}),
    fetch("fetch all topics", "2 5 7", "loner", None),
    fetch("fetch all topics of no group", "2 5 7", "nobody", None),
    fetch("fetch of the empty group", "2 7", "", {"letters": [0]}),
    fetch("fetch stable offsets", "7", "loner", {"letters": [0]}, require_stable=True),
    fetch_all("fetch of several groups", "8 9", group_of("loner", {"letters": [0, 3]}), group_of("nobody", {"letters": [0]}), group_of("", None), group_of("loner", None)),
    fetch_all("fetch of no groups", "8 9"),
    fetch_all("fetch of a group twice", "8", group_of("loner", {"letters": [0]}), group_of("loner", {"letters": [1]})),
    fetch_all("fetch as a member of a simple group", "9", group_of("loner", {"letters": [0]}, member_id="stranger", member_epoch=3)),
    fetch_all("fetch all stable", "8 9", group_of("loner", None), stable=True),
    # Delete.
    delete("delete offsets", "loner", {"letters": [2], "parcels": [0, 3]}),
    delete("delete offsets that are not there", "loner", {"letters": [2]}),
    delete("delete offsets of no such topic", "loner", {"nowhere": [0, 1], "letters": [3, 17]}),
    delete("delete offsets of no group", "nobody", {"letters": [0]}),
    delete("delete offsets of no group and no topic", "nobody", {"nowhere": [0]}),
    delete("delete offsets of the empty group", "", {"letters": [0]}),
    delete("delete no offsets", "loner", {}),
    delete("delete no partitions", "loner", {"letters": []}),
    fetch_all("fetch what is left", "9", group_of("loner", None)),
]
CLASSIC: list[Ask] = [
    # A group with a member.
    join("join", 3, "club"),
    commit("commit before the assignment", "2 8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=1, member_id=MEMBER),
    commit("commit before the assignment as nobody", "8 9", "club", of("letters", at(1))),
    sync("sync", "club", MEMBER),
    commit("commit as a member", "2 5 6 7 8 9", "club", of("letters", at(20, 0, "m", 1)), of("parcels", at(21, 1)), generation_id_or_member_epoch=1, member_id=MEMBER),
    commit("commit with an old generation", "2 8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=0, member_id=MEMBER),
    commit("commit with a future generation", "8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=2, member_id=MEMBER),
    commit("commit as a stranger", "2 8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=1, member_id="stranger"),
    commit("commit as nobody", "2 8 9", "club", of("letters", at(1))),
    commit("commit as a member without a generation to a group", "8 9", "club", of("letters", at(1)), member_id=MEMBER),
    commit("commit with a generation and no member", "8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=1),
    commit("commit by a name that is not known", "7 9", "club", of("letters", at(1)), generation_id_or_member_epoch=1, member_id=MEMBER, group_instance_id="name"),
    commit("commit as a stranger to no such topic", "9", "club", of("nowhere", at(1)), generation_id_or_member_epoch=1, member_id="stranger"),
    commit("commit a long text as a member", "9", "club", of("letters", at(1, 0, "x" * 101)), generation_id_or_member_epoch=1, member_id=MEMBER),
    fetch("fetch of a group with members", "1 7", "club", {"letters": [0], "parcels": [1]}),
    fetch_all("fetch as a stranger", "9", group_of("club", {"letters": [0]}, member_id="stranger", member_epoch=7)),
    delete("delete offsets of a subscribed topic", "club", {"letters": [0, 1], "parcels": [1, 2]}),
    join("join with another protocol", 3, "other", protocol="connect"),
    delete("delete offsets of a group that rebalances", "other", {"letters": [0]}),
    sync("sync with another protocol", "other", OTHER),
    commit("commit with another protocol", "9", "other", of("letters", at(30)), generation_id_or_member_epoch=1, member_id=OTHER),
    delete("delete offsets of a group that is no consumer", "other", {"letters": [0], "parcels": [0]}),
    join("join by name", 5, "named", group_instance_id="name"),
    sync("sync by name", "named", STATIC),
    commit("commit by a name", "7 9", "named", of("letters", at(40)), generation_id_or_member_epoch=1, member_id=STATIC, group_instance_id="name"),
    commit("commit by a name that another has", "7 9", "named", of("letters", at(1)), generation_id_or_member_epoch=1, member_id="stranger", group_instance_id="name"),
    commit("commit by a name without a member", "7 9", "named", of("letters", at(1)), generation_id_or_member_epoch=1, group_instance_id="name"),
    txn("commit to a group in a transaction nobody began", "0 3 5", "club", of("letters", at(1))),
    ask("leave", "LeaveGroup", "1", group_id="club", member_id=MEMBER),
    commit("commit after leaving", "8 9", "club", of("letters", at(1)), generation_id_or_member_epoch=1, member_id=MEMBER),
    commit("commit as nobody after all have left", "9", "club", of("letters", at(22))),
    delete("delete offsets of an empty group", "club", {"letters": [0], "parcels": [1]}),
    fetch_all("fetch of the empty club", "9", group_of("club", None)),
    # A topic goes, and so do its offsets.
    commit("commit to a topic that goes", "9", "loner", of("short-lived", at(50), at(51, 1))),
    ask("delete the topic", "DeleteTopics", "5", timeout_ms=9000, topic_names=["short-lived"]),
    fetch("fetch of a topic that is gone", "7", "loner", {"short-lived": [0, 1], "letters": [0]}),
    ask("make the topic again", "CreateTopics", "7", timeout_ms=9000, validate_only=False, topics=[{"name": "short-lived", "num_partitions": 4, "replication_factor": 1}]),
    fetch("fetch of a topic that came again", "7", "loner", {"short-lived": [0, 1]}),
]
MODERN: list[Ask] = [
    # A group of the newer protocol.
    beat("join a consumer group", 0, rebalance_timeout_ms=SESSION_MS, subscribed_topic_names=["letters"], topic_partitions=[]),
    commit("commit as a member of a consumer group", "9", "modern", of("letters", at(60)), of("parcels", at(61)), generation_id_or_member_epoch=EPOCH, member_id="me"),
    commit("commit as a member in a version that is too old", "2 8", "modern", of("letters", at(1)), generation_id_or_member_epoch=EPOCH, member_id="me"),
    commit("commit with a stale epoch", "8 9", "modern", of("letters", at(1)), of("nowhere", at(1)), generation_id_or_member_epoch=0, member_id="me"),
    commit("commit with a future epoch", "9", "modern", of("letters", at(1)), generation_id_or_member_epoch=99, member_id="me"),
    commit("commit as a stranger to a consumer group", "8 9", "modern", of("letters", at(1)), generation_id_or_member_epoch=EPOCH, member_id="stranger"),
    commit("commit as nobody to a consumer group", "8 9", "modern", of("letters", at(1))),
    commit("commit as a member without an epoch", "9", "modern", of("letters", at(1)), member_id="me"),
    commit("commit by id to a consumer group", "10", "modern", by_id(TopicId("parcels"), at(62, 1)), generation_id_or_member_epoch=EPOCH, member_id="me"),
    fetch("fetch of a consumer group", "1 7", "modern", {"letters": [0], "parcels": [0]}),
    fetch_all("fetch as a member", "9", group_of("modern", {"letters": [0]}, member_id="me", member_epoch=EPOCH)),
    fetch_all("fetch with a stale epoch", "9", group_of("modern", {"letters": [0]}, member_id="me", member_epoch=0), group_of("modern", None, member_id="me", member_epoch=98)),
    fetch_all("fetch as a stranger to a consumer group", "8 9", group_of("modern", {"letters": [0]}, member_id="stranger", member_epoch=1)),
    fetch_all("fetch as a member without an epoch", "9", group_of("modern", {"letters": [0]}, member_id="me", member_epoch=-1)),
    delete("delete offsets of a subscribed topic of a consumer group", "modern", {"letters": [0], "parcels": [0]}),
    beat("leave the consumer group", -1),
    commit("commit after leaving the consumer group", "9", "modern", of("letters", at(1)), generation_id_or_member_epoch=EPOCH, member_id="me"),
    commit("commit as nobody to an empty consumer group", "8 9", "modern", of("letters", at(63))),
    fetch_all("fetch as one who left", "9", group_of("modern", {"letters": [0]}, member_id="me", member_epoch=EPOCH)),
    fetch_all("fetch of the empty consumer group", "9", group_of("modern", None)),
    delete("delete offsets of an empty consumer group", "modern", {"letters": [0, 1]}),
]
TRANSACTIONAL: list[Ask] = [
    # Transactions as clients before transaction.version 2 make them.
    begin("begin", 4),
    txn("commit before the group is added", "0 2 3 4", "loner", of("letters", at(1)), **OLDER),
    ask("add the group", "AddOffsetsToTxn", "3", transactional_id="tx", group_id="loner", **named(OLDER)),
    txn("commit in a transaction", "0 1 2 3 4", "loner", of("letters", at(70, 0, "tx", 2), at(71, 2)), of("parcels", at(72, 3)), **OLDER),
    txn("commit in a transaction to no such topic", "0 3", "loner", of("nowhere", at(1)), of("letters", at(73, 1), at(1, 9)), **OLDER),
    txn("commit a long text in a transaction", "3", "loner", of("letters", at(1, 0, "x" * 101)), **OLDER),
    txn("commit in a transaction to no group", "3", "", of("letters", at(1)), **OLDER),
    txn("commit nothing in a transaction", "3", "loner", **OLDER),
    txn("commit in a transaction of an old epoch", "0 3 4", "loner", of("letters", at(1)), producer=OLDER["producer"], epoch=-1),
    txn("commit in a transaction of a future epoch", "3 4", "loner", of("letters", at(1)), producer=OLDER["producer"], epoch=7),
    txn("commit in a transaction of another producer", "3 4", "loner", of("letters", at(1)), producer=424242, epoch=0),
    txn("commit in a transaction of an unknown id", "3 4", "loner", of("letters", at(1)), transactional_id="unknown", **OLDER),
    txn("commit in a transaction to a group that was not added", "3 4", "other-one", of("letters", at(1)), **OLDER),
    txn("commit in a transaction with a generation of no group", "3", "loner", of("letters", at(1)), generation_id=1, member_id="stranger", **OLDER),
    fetch("fetch with an open transaction", "6 7", "loner", {"letters": [0, 1, 2, 3], "parcels": [3]}),
    fetch("fetch stable offsets with an open transaction", "7", "loner", {"letters": [0, 1, 2, 3], "parcels": [3]}, require_stable=True),
    fetch_all("fetch all stable offsets with an open transaction", "8 9", group_of("loner", None), stable=True),
    delete("delete a pending offset", "loner", {"letters": [1]}),
    fetch("fetch stable offsets after a deletion", "7", "loner", {"letters": [1]}, require_stable=True),
    end("end the transaction", 3, OLDER, commit=True),
    fetch("fetch after the transaction", "7", "loner", {"letters": [0, 1, 2, 3], "parcels": [3]}, require_stable=True),
    txn("commit after the transaction", "3 4", "loner", of("letters", at(1)), **OLDER),
    # With an epoch for each.
    begin("begin anew", 5),
    txn("commit in a newer transaction", "5", "loner", of("letters", at(80), at(81, 2)), **NEWER),
    txn("commit in a newer transaction to no group", "5", "", of("letters", at(1)), **NEWER),
    txn("commit in a newer transaction of another producer", "5", "loner", of("letters", at(1)), producer=424242, epoch=0),
    txn("commit in a newer transaction of a future epoch", "5", "loner", of("letters", at(1)), producer=NEWER["producer"], epoch=77),
    txn("commit in a newer transaction of an unknown id", "5", "loner", of("letters", at(1)), transactional_id="unknown", **NEWER),
    commit("commit while a transaction is open", "9", "loner", of("letters", at(82, 2))),
    fetch("fetch stable offsets with a newer transaction", "7", "loner", {"letters": [0, 2]}, require_stable=True),
    end("end the newer transaction", 5, NEWER, commit=True),
    fetch("the later commit wins", "7", "loner", {"letters": [0, 2]}, require_stable=True),
    txn("commit with the epoch of before", "5", "loner", of("letters", at(1)), **NEWER),
    txn("commit to be aborted", "5", "loner", of("letters", at(90)), **NEXT),
    end("abort", 5, NEXT, commit=False),
    fetch("fetch after an abort", "7", "loner", {"letters": [0]}, require_stable=True),
    # Members fence in transactions, too.
    beat("join a consumer group in transactions", 0, group="modern-tx", rebalance_timeout_ms=SESSION_MS, subscribed_topic_names=["letters"], topic_partitions=[]),
    begin("begin for members", 5, "members"),
    *[
        txn(f"commit in a transaction {title}", "3 5", "modern-tx", of("letters", at(1)), transactional_id="members", producer=Said("begin for members v5", "producer_id"), epoch=Said("begin for members v5", "producer_epoch"), **who)
        for title, who in (
            ("as nobody", {}),
            ("as a stranger", {"generation_id": 1, "member_id": "stranger"}),
            ("with a stale epoch", {"generation_id": 0, "member_id": "me"}),
            ("with a member and no epoch", {"member_id": "me"}),
            ("with an epoch and no member", {"generation_id": 1}),
            ("by name", {"group_instance_id": "name"}),
        )
    ],
]
# fmt: on
ASKS: tuple[Ask, ...] = (*SET_UP, *SIMPLE, *CLASSIC, *MODERN, *TRANSACTIONAL)
