"""Committed offsets beside a scripted coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import OffsetAndMetadata, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.client.cluster import Cluster
from barnabas.client.consumer.offsets.commits import Commits, Committer
from barnabas.client.options import consumer_options
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.client.consumer.membership.members import QUICK
from tests.client.consumer.offsets.test_positions import fetched
from tests.client.scripted import TOPIC, Hangup, ScriptedBroker, scripted

Run = Callable[[Any], Any]
WHERE = TopicPartition(TOPIC, 0)
PATIENT_MS = 60_000


def committed(code: int = 0) -> OffsetCommitResponse:
    part = OffsetCommitResponse.Partition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name=TOPIC, partitions=[part])])


@asynccontextmanager
async def commits(
    broker: ScriptedBroker, committer: Callable[[], Committer] = Committer
) -> AsyncIterator[Commits]:
    settings = consumer_options(None, {"bootstrap_servers": broker.bootstrap, **QUICK})
    cluster = Cluster(settings)
    try:
        yield Commits(cluster, "g", committer)
    finally:
        await cluster.close()


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, None])
def test_a_coordinator_that_moved_is_looked_up_again(run: Run, code: ErrorCode | None) -> None:
    """`None`: the connection breaks, as when the broker is down."""

    def hang_up(*_: Any) -> Any:
        raise Hangup

    async def work() -> None:
        async with scripted() as broker, commits(broker) as offsets:
            broker.handlers[OffsetCommitRequest] = lambda *_: committed()
            broker.handlers[OffsetFetchRequest] = lambda *_: fetched(5)
            broker.once(OffsetCommitRequest, hang_up if code is None else lambda *_: committed(code))
            await offsets.commit({WHERE: OffsetAndMetadata(5)}, Deadline(PATIENT_MS))
            assert broker.count(FindCoordinatorRequest) == 2
            broker.once(OffsetFetchRequest, hang_up if code is None else lambda *_: fetched(-1, code))
            found = await offsets.fetch([WHERE], Deadline(PATIENT_MS))
            assert found == {WHERE: OffsetAndMetadata(5)}
            assert broker.count(FindCoordinatorRequest) == 3

    run(work())


def test_a_loading_coordinator_is_retried_and_not_looked_up_again(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, commits(broker) as offsets:
            broker.handlers[OffsetCommitRequest] = lambda *_: committed()
            broker.once(OffsetCommitRequest, lambda *_: committed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            await offsets.commit({WHERE: OffsetAndMetadata(5)}, Deadline(PATIENT_MS))
            assert broker.count(OffsetCommitRequest) == 2
            assert broker.count(FindCoordinatorRequest) == 1

    run(work())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, client_errors.CommitFailedError),
        (ErrorCode.ILLEGAL_GENERATION, client_errors.CommitFailedError),
        (ErrorCode.FENCED_MEMBER_EPOCH, client_errors.CommitFailedError),
        (ErrorCode.REBALANCE_IN_PROGRESS, client_errors.RebalanceInProgressError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, client_errors.OffsetMetadataTooLargeError),
    ],
)
def test_what_trying_again_does_not_mend_is_raised(run: Run, code: ErrorCode, error: type[Exception]) -> None:
    async def work() -> None:
        async with scripted() as broker, commits(broker) as offsets:
            broker.handlers[OffsetCommitRequest] = lambda *_: committed(code)
            with pytest.raises(error):
                await offsets.commit({WHERE: OffsetAndMetadata(5)}, Deadline(PATIENT_MS))
            assert broker.count(OffsetCommitRequest) == 1

    run(work())


def test_a_stale_epoch_is_retried_with_the_current_one(run: Run) -> None:
    async def work() -> None:
        epochs = iter((4, 5))

        def committer() -> Committer:
            return Committer(next(epochs), "m", None, is_epoch=True)

        async with scripted() as broker, commits(broker, committer) as offsets:
            broker.handlers[OffsetCommitRequest] = lambda *_: committed()
            broker.once(OffsetCommitRequest, lambda *_: committed(ErrorCode.STALE_MEMBER_EPOCH))
            await offsets.commit({WHERE: OffsetAndMetadata(5)}, Deadline(PATIENT_MS))
            asked = [one for one, _ in broker.requests if isinstance(one, OffsetCommitRequest)]
            assert [one.generation_id_or_member_epoch for one in asked] == [4, 5]

    run(work())


def test_an_empty_commit_sends_no_request(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, commits(broker) as offsets:
            await offsets.commit({}, Deadline(PATIENT_MS))
            assert broker.requests == []

    run(work())
