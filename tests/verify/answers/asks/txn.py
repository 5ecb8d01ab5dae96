"""Requests about transactions: producers that begin, add, write, end, go wrong, are fenced, and are looked at.

Producer ids are given out in order, and equally by both brokers: each transactional id of these tables has the
one that is written here (`test_producers_have_the_ids_of_the_table`).
"""

from __future__ import annotations

from typing import Any

from tests.verify.answers.asks.records import at, fetch, of, offsets, produce, to
from tests.verify.answers.broker_ask import Ask, Said, T, ask

TIMEOUT_MS = 60_000
LONGEST_TIMEOUT_MS = 900_000
# Transactional id -> producer id; in the order in which they begin.
PRODUCERS = {"old": 0, "known": 1, "new": 2, "fenced": 3, "empty": 4, "other": 5, "hanging": 6, "worn": 7}
OLD, KNOWN, NEW, FENCED, EMPTY, OTHER, HANGING, WORN = PRODUCERS.values()
COMMIT, ABORT = True, False

Rows = dict[str, Any]


def init(title: str, versions: str, transactional_id: str | None, **more: Any) -> Ask:
    fields = {"transaction_timeout_ms": TIMEOUT_MS, **more}
    return ask(title, "InitProducerId", versions, transactional_id=transactional_id, **fields)


def partitions(**topics: list[int]) -> list[Rows]:
    return [{"name": name, "partitions": rows} for name, rows in topics.items()]


def add(title: str, versions: str, transactional_id: str, pid: Any, epoch: Any, topics: list[Rows]) -> Ask:
    """Up to version 3: a client's own."""
    return ask(
        f"add {title}",
        "AddPartitionsToTxn",
        versions,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=pid,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=topics,
    )


def of_broker(transactional_id: str, pid: int, epoch: int, topics: list[Rows], *, verify: bool) -> Rows:
    return {
        "transactional_id": transactional_id,
        "producer_id": pid,
        "producer_epoch": epoch,
        "verify_only": verify,
        "topics": topics,
    }


def add_all(title: str, versions: str, *transactions: Rows) -> Ask:
    """From version 4 on: what brokers ask."""
    return ask(title, "AddPartitionsToTxn", versions, transactions=list(transactions))


def add_offsets(title: str, versions: str, transactional_id: str, pid: int, epoch: int, group: str) -> Ask:
    return ask(
        title,
        "AddOffsetsToTxn",
        versions,
        transactional_id=transactional_id,
        producer_id=pid,
        producer_epoch=epoch,
        group_id=group,
    )


def end(title: str, versions: str, transactional_id: str, pid: Any, epoch: Any, committed: bool) -> Ask:
    """The partitions hear of it after the answer."""
    return ask(
        title,
        "EndTxn",
        versions,
        settles=True,
        transactional_id=transactional_id,
        producer_id=pid,
        producer_epoch=epoch,
        committed=committed,
    )


def write(
    title: str, versions: str, transactional_id: str | None, *batches: bytes, partition: int = 0, **more: Any
) -> Ask:
    """To `ledger`."""
    topic_data = to("ledger", *batches, partition=partition)
    return produce(title, versions, topic_data, transactional_id=transactional_id, **more)


def in_txn(pid: int, epoch: int, sequence: int, *values: str) -> bytes:
    return of(pid, epoch, sequence, *values, transactional=True)


def marker(pid: int, epoch: int, committed: bool, topic: str, *indexes: int, coordinator: int = 0) -> Rows:
    return {
        "producer_id": pid,
        "producer_epoch": epoch,
        "transaction_result": committed,
        "topics": [{"name": topic, "partition_indexes": list(indexes)}],
        "coordinator_epoch": coordinator,
    }


def markers(title: str, *rows: Rows) -> Ask:
    return ask(f"markers {title}", "WriteTxnMarkers", "1", markers=list(rows))


def listed(title: str, versions: str, states: list[str], ids: list[int], **more: Any) -> Ask:
    return ask(
        f"list {title}",
        "ListTransactions",
        versions,
        state_filters=states,
        producer_id_filters=ids,
        **more,
    )


def described(title: str, *transactional_ids: str) -> Ask:
    return ask(f"describe {title}", "DescribeTransactions", "0", transactional_ids=list(transactional_ids))


def producers(title: str, topic: str, *indexes: int) -> Ask:
    return ask(title, "DescribeProducers", "0", topics=[{"name": topic, "partition_indexes": list(indexes)}])


def look(title: str, partition: int = 0, topic: str = "ledger") -> list[Ask]:
    """What readers of both kinds see of it, and who writes to it."""
    return [
        fetch(f"read committed, {title}", "4 12", at(topic, 0, partition), isolation_level=1),
        fetch(f"read all, {title}", "12", at(topic, 0, partition)),
        offsets(f"the stable end, {title}", "2 7", topic, -1, partition, isolation_level=1),
        offsets(f"the end, {title}", "7", topic, -1, partition),
        producers(f"producers, {title}", topic, partition),
    ]


# fmt: off
BEGIN: list[Ask] = [
    ask("make the topics", "CreateTopics", "7", timeout_ms=9000, topics=[
        {"name": "ledger", "num_partitions": 4, "replication_factor": 1},
        {"name": "audit", "num_partitions": 1, "replication_factor": 1}]),
    init("no id at all", "0 2 5", ""),
    init("no time", "0 5", "old", transaction_timeout_ms=0),
    init("negative time", "1 4", "old", transaction_timeout_ms=-1),
    init("too much time", "0 3 5", "old", transaction_timeout_ms=LONGEST_TIMEOUT_MS + 1),
    init("an id without its epoch", "3 5", "old", producer_id=5),
    init("an epoch without its id", "3 5", "old", producer_epoch=5),
    # `old` adds its partitions itself, as clients before transaction.version 2 do.
    init("old begins", "0", "old"),
    init("old begins again", "1 2 4", "old", transaction_timeout_ms=LONGEST_TIMEOUT_MS),
    init("known begins, naming an id and epoch that nobody knows", "3", "known", producer_id=77, producer_epoch=7),
    init("known goes on", "3", "known", producer_id=KNOWN, producer_epoch=0),
    init("known did not hear of it", "4 5", "known", producer_id=KNOWN, producer_epoch=0),
    init("known goes on from an epoch to come", "3 4", "known", producer_id=KNOWN, producer_epoch=9),
    init("known goes on with another's id", "3 5", "known", producer_id=OLD, producer_epoch=1),
    init("another known begins", "5", "known"),
    init("the first known is fenced", "3 4 5", "known", producer_id=KNOWN, producer_epoch=1),
    init("new begins", "5", "new"),
    init("fenced begins", "5", "fenced"),
    init("empty begins", "5", "empty"),
    init("other begins", "5", "other"),
    init("hanging begins", "5", "hanging"),
    init("worn begins", "5", "worn"),
    described("at rest", *PRODUCERS, "nobody", ""),
]
# Epochs at this point: old 3, known 2, all others 0.
ADDED: list[Ask] = [
    add("nowhere", "0 3", "old", OLD, 3, partitions(nowhere=[0])),
    add("no such partition", "3", "old", OLD, 3, partitions(ledger=[0, 99])),
    add("one of two does not exist", "0 3", "old", OLD, 3, partitions(ledger=[0], nowhere=[1])),
    add("to an internal topic", "3", "old", OLD, 3, partitions(__consumer_offsets=[0], __transaction_state=[0], ledger=[0])),
    add("of nobody", "0 3", "nobody", OLD, 3, partitions(ledger=[0])),
    add("of no id", "0 3", "", OLD, 3, partitions(ledger=[0])),
    add("with another's producer id", "0 3", "old", NEW, 3, partitions(ledger=[0])),
    add("with an older epoch", "0 1 2 3", "old", OLD, 2, partitions(ledger=[0])),
    add("with an epoch to come", "1 3", "old", OLD, 4, partitions(ledger=[0])),
    add("partitions", "3", "old", OLD, 3, partitions(ledger=[0, 1])),
    add("the same again", "0 3", "old", OLD, 3, partitions(ledger=[1])),
    add("one more", "0", "old", OLD, 3, partitions(ledger=[2], audit=[0])),
    add("nothing", "3", "old", OLD, 3, []),
    add_all("verify", "4 5", of_broker("old", OLD, 3, partitions(ledger=[0, 1]), verify=True)),
    add_all("verify what was not added", "4 5", of_broker("old", OLD, 3, partitions(ledger=[0, 3]), verify=True)),
    add_all("verify several", "5",
            of_broker("old", OLD, 2, partitions(ledger=[0]), verify=True), of_broker("nobody", 0, 0, partitions(ledger=[0]), verify=True),
            of_broker("new", NEW, 0, partitions(ledger=[0]), verify=True), of_broker("known", OLD, 0, partitions(ledger=[0]), verify=True)),
    add_all("verify of no id", "4", of_broker("", 0, 0, partitions(ledger=[0]), verify=True)),
    add_all("verify nowhere", "4", of_broker("old", OLD, 3, partitions(nowhere=[0], ledger=[0]), verify=True)),
    add_all("add as a broker", "5", of_broker("new", NEW, 0, partitions(ledger=[3]), verify=False), of_broker("nobody", 0, 0, partitions(ledger=[0]), verify=False)),
    add_offsets("offsets of nobody", "0 2 4", "nobody", OLD, 3, "readers"),
    add_offsets("offsets with an older epoch", "0 1 2 4", "old", OLD, 1, "readers"),
    add_offsets("offsets with another's id", "3", "old", NEW, 3, "readers"),
    add_offsets("offsets of no id", "0 4", "", OLD, 3, "readers"),
    add_offsets("offsets", "3", "known", KNOWN, 2, "readers"),
    add_offsets("offsets again", "0 4", "known", KNOWN, 2, "readers"),
    described("with partitions", "old", "new"),
]
WRITTEN: list[Ask] = [
    write("write to what was added", "9", "old", in_txn(OLD, 3, 0, "a", "b")),
    write("write the same again", "9 11", "old", in_txn(OLD, 3, 0, "a", "b")),
    write("write on", "11", "old", in_txn(OLD, 3, 2, "c")),
    write("write to another", "9", "old", in_txn(OLD, 3, 0, "d"), partition=1),
    write("write to what was not added", "3 9 10", "old", in_txn(OLD, 3, 0, "x"), partition=3),
    write("write to what was not added, and know what to do", "11", "old", in_txn(OLD, 3, 0, "x"), partition=3),
    write("write out of order", "9", "old", in_txn(OLD, 3, 9, "x")),
    write("write without a transaction in one", "9", "old", of(OLD, 3, 3, "x")),
    write("write with an older epoch", "9 11", "old", in_txn(OLD, 2, 0, "x")),
    write("write with an older epoch elsewhere", "9 11", "old", in_txn(OLD, 2, 0, "x"), partition=2),
    write("write with another's id", "9 11", "old", in_txn(NEW, 0, 0, "x")),
    write("write as nobody", "9 11 12", "nobody", in_txn(77, 0, 0, "x")),
    write("write without a transactional id", "9", None, in_txn(OLD, 3, 3, "x")),
    write("write plainly with a transactional id", "9", "old", of(-1, -1, -1, "plain")),
    produce("write as two producers", "9", [*to("ledger", in_txn(OLD, 3, 3, "x")), *to("audit", in_txn(NEW, 0, 0, "x"))], transactional_id="old"),
    # `new` has the brokers add what it writes to.
    write("new writes", "12", "new", in_txn(NEW, 0, 0, "n0", "n1")),
    write("new writes on", "12", "new", in_txn(NEW, 0, 2, "n2")),
    write("new begins elsewhere with a later number", "12", "new", in_txn(NEW, 0, 3, "x"), partition=3),
    write("new with an epoch to come", "12", "new", in_txn(NEW, 1, 0, "x"), partition=2),
    write("new with another's id", "12", "new", in_txn(OTHER, 0, 0, "x"), partition=2),
    *look("while two are open"),
    *look("of the second", 1),
    described("open ones", "old", "new"),
    listed("all", "0 1 2", [], []),
    listed("the open ones", "0 2", ["Ongoing"], []),
    listed("states that there are not", "0 1", ["Ongoing", "Sleeping", "ongoing"], []),
    listed("only states that there are not", "2", ["Sleeping"], []),
    listed("of a state that is not kept", "0", ["Dead", "PrepareEpochFence"], []),
    listed("of one producer", "0 2", [], [NEW, 99]),
    listed("older than an hour", "1 2", [], [], duration_filter=3_600_000),
    listed("of any age", "1", ["Ongoing"], [], duration_filter=0),
    listed("by pattern", "2", [], [], transactional_id_pattern="n.w|o.*d"),
    listed("by a part of a name", "2", [], [], transactional_id_pattern="e"),
    listed("by an empty pattern", "2", ["Ongoing"], [], transactional_id_pattern=""),
    listed("by what is no pattern", "2", [], [], transactional_id_pattern="(new"),
]
ENDED: list[Ask] = [
    end("end of nobody", "0 3 5", "nobody", OLD, 3, COMMIT),
    end("end of no id", "0 5", "", OLD, 3, COMMIT),
    end("end with another's id", "0 4 5", "old", NEW, 3, COMMIT),
    end("end with an older epoch", "0 1 2 4", "old", OLD, 2, COMMIT),
    end("end with an older epoch, anew", "5", "old", OLD, 2, COMMIT),
    end("end with an epoch to come", "1 4 5", "old", OLD, 4, ABORT),
    end("commit nothing", "0 4 5", "empty", EMPTY, 0, COMMIT),
    end("abort nothing", "0 4", "empty", EMPTY, 0, ABORT),
    end("old commits", "4", "old", OLD, 3, COMMIT),
    end("old commits again", "0 3 4", "old", OLD, 3, COMMIT),
    end("old aborts what it has committed", "0 4", "old", OLD, 3, ABORT),
    *look("one is committed"),
    *look("of the second, committed", 1),
    end("new aborts", "5", "new", NEW, 0, ABORT),
    end("new aborts again", "5", "new", NEW, 0, ABORT),
    end("new commits what it has aborted", "5", "new", NEW, 0, COMMIT),
    end("new aborts an older one", "5", "new", NEW, -1, ABORT),
    end("new commits nothing", "5", "new", NEW, 1, COMMIT),
    end("new aborts nothing", "5", "new", NEW, 1, ABORT),
    *look("both have ended"),
    write("new writes with the epoch that has ended", "12", "new", in_txn(NEW, 0, 3, "x")),
    write("new writes with its new epoch", "12", "new", in_txn(NEW, 2, 0, "n3")),
    end("new commits", "5", "new", NEW, 2, COMMIT),
    write("and writes the same again", "12", "new", in_txn(NEW, 2, 0, "n3")),
    write("and goes on", "12", "new", in_txn(NEW, 3, 0, "n4"), partition=2),
    end("new did not hear that it has committed", "5", "new", NEW, 2, COMMIT),
    end("old adds nothing, and begins", "4", "old", OLD, 3, COMMIT),
    end("known commits its offsets", "3", "known", KNOWN, 2, COMMIT),
    described("ended ones", "old", "new", "known", "empty"),
]
FENCED_ONES: list[Ask] = [
    add("by fenced", "3", "fenced", FENCED, 0, partitions(audit=[0])),
    produce("fenced writes", "9", to("audit", in_txn(FENCED, 0, 0, "f")), transactional_id="fenced"),
    ask("another fenced begins while one is open", "InitProducerId", "5", settles=True, transactional_id="fenced", transaction_timeout_ms=TIMEOUT_MS),
    init("another fenced begins when it is aborted", "5", "fenced"),
    add("by fenced after all", "1 2 3", "fenced", FENCED, 0, partitions(audit=[0])),
    produce("fenced writes after all", "9 12", to("audit", in_txn(FENCED, 0, 1, "f")), transactional_id="fenced"),
    end("fenced commits after all", "0 1 4 5", "fenced", FENCED, 0, COMMIT),
    init("fenced goes on after all", "3 4", "fenced", producer_id=FENCED, producer_epoch=0),
    *look("a fenced producer", 0, "audit"),
    described("fenced", "fenced"),
    # Transactions that nobody knows, as broken clients leave them, are ended by an administrator.
    add("by hanging", "3", "hanging", HANGING, 0, partitions(ledger=[3])),
    write("hanging writes", "9", "hanging", in_txn(HANGING, 0, 0, "h"), partition=3),
    *look("one hangs", 3),
    markers("to nowhere", marker(HANGING, 0, ABORT, "nowhere", 0)),
    markers("to no such partition", marker(HANGING, 0, ABORT, "ledger", 99)),
    markers("none"),
    markers("with an older epoch", marker(OLD, 1, ABORT, "ledger", 0)),
    markers("of several", marker(HANGING, 0, ABORT, "ledger", 3, 77), marker(OTHER, 0, COMMIT, "audit", 0)),
    markers("of an older coordinator", marker(HANGING, 0, ABORT, "ledger", 3, coordinator=-1)),
    markers("of a newer coordinator", marker(HANGING, 5, COMMIT, "ledger", 3, coordinator=3)),
    markers("of the older one again", marker(HANGING, 5, COMMIT, "ledger", 3, coordinator=2)),
    *look("it was ended", 3),
    # The first transaction of a producer, without bumps of its epoch.
    add("by other", "3", "other", OTHER, 0, partitions(ledger=[1])),
    end("other commits", "4", "other", OTHER, 0, COMMIT),
]
# The epochs of `worn` are used up before these are asked.
LAST_EPOCH = 2**15 - 2
WORN_OUT: list[Ask] = [
    write("worn writes with its last epoch", "12", "worn", in_txn(WORN, LAST_EPOCH, 0, "w"), partition=2),
    end("worn commits", "5", "worn", WORN, LAST_EPOCH, COMMIT),
    end("worn commits again", "5", "worn", WORN, LAST_EPOCH, COMMIT),
    end("worn aborts what it has committed", "5", "worn", WORN, LAST_EPOCH, ABORT),
    write("worn writes with what it was given", "12", "worn", in_txn(WORN + 1, 0, 0, "w2"), partition=2),
    end("worn commits with it", "5", "worn", Said("worn commits v5", "producer_id"), Said("worn commits v5", "producer_epoch"), COMMIT),
    write("worn writes with its old id", "12", "worn", in_txn(WORN, LAST_EPOCH, 1, "w"), partition=2),
    init("worn begins with its old id", "5", "worn", producer_id=WORN, producer_epoch=LAST_EPOCH),
    described("worn", "worn"),
    *look("by a worn producer", 2),
]
# fmt: on
ASKS: tuple[Ask, ...] = (*BEGIN, *ADDED, *WRITTEN, *ENDED, *FENCED_ONES)
TITLES = [f"{one.title} v{version}" for one in (*ASKS, *WORN_OUT) for version in one.versions]
# What is later than the records of the tables is the clock's.
OUR_TIME = T + 10_000_000
