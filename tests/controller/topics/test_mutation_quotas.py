"""Quotas of controller mutations (KIP-599): token buckets, strict and permissive versions of requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.controller.decision import Context, Decision
from barnabas.controller.topics import mutation_quotas
from barnabas.controller.topics.mutation_quotas import MUTATION
from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.schema import Message
from barnabas.testing.simulation.metadata_node import creation
from tests.controller.lab import Lab

EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
CREATE_STRICT, DELETE_STRICT, PARTITIONS_STRICT = 6, 5, 3
# Eleven windows of a second, each of two partitions.
RATE, BURST = 2, 22


def set_quota(lab: Lab, rate: float | None, **entity: str | None) -> None:
    entry = AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[AlterClientQuotasRequest.OpData(key=MUTATION, value=rate or 0.0, remove=rate is None)],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=False)
    assert lab.send(request, AlterClientQuotasResponse).entries[0].error_code == 0


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.join()
    set_quota(lab, RATE, user="alice")
    return lab


def ask(
    lab: Lab, request: Message, version: int, user: str = "alice", client_id: str = "c"
) -> tuple[int, list[int]]:
    """The throttle time and the error codes."""
    context = Context(lab.now_ns, lab.end_offset, version, f"User:{user}", client_id=client_id)
    decision: Decision = lab.controller.decide(request, context)
    lab.append(list(decision.records))
    reply = decision.reply
    for results in ("topics", "responses", "results"):
        if hasattr(reply, results):
            codes = [result.error_code for result in getattr(reply, results)]
            return reply.throttle_time_ms, codes  # type: ignore[attr-defined]
    raise AssertionError(reply)


def names(prefix: str) -> Iterator[str]:
    return (f"{prefix}{number}" for number in range(1000))


def test_a_strict_request_may_overdraw_the_bucket_once(lab: Lab) -> None:
    """30 of 22 tokens: a debt of 8 takes 4 s; nothing is taken until then, and the first request waits for nothing."""
    assert ask(lab, creation("a", partitions=30), CREATE_STRICT) == (0, [0])
    assert ask(lab, creation("b"), CREATE_STRICT) == (4000, [EXCEEDED])
    lab.wait(3.999)
    assert ask(lab, creation("b"), CREATE_STRICT) == (1, [EXCEEDED])
    lab.wait(0.001)
    assert ask(lab, creation("b"), CREATE_STRICT) == (0, [0])


def test_topics_of_one_request_are_counted_one_by_one(lab: Lab) -> None:
    """The second finds one token, the third a debt of 20; a refused topic costs nothing."""
    request = creation("a", "b", "c", partitions=21)
    assert ask(lab, request, CREATE_STRICT) == (10_000, [0, 0, EXCEEDED])
    assert ask(lab, creation("c", partitions=21), CREATE_STRICT) == (10_000, [EXCEEDED])


def test_clients_of_earlier_versions_are_throttled_and_not_refused(lab: Lab) -> None:
    assert ask(lab, creation("a", partitions=30), CREATE_STRICT - 1) == (4000, [0])
    assert ask(lab, creation("b", partitions=2), CREATE_STRICT - 1) == (5000, [0])


def test_new_partitions_count_and_not_those_that_are_there(lab: Lab) -> None:
    ask(lab, creation("a", partitions=10), CREATE_STRICT, user="bob")
    growth = CreatePartitionsRequest.Topic(name="a", count=34, assignments=None)
    request = CreatePartitionsRequest(topics=[growth], timeout_ms=1, validate_only=False)
    assert ask(lab, request, PARTITIONS_STRICT) == (0, [0])
    growth.count = 35
    assert ask(lab, request, PARTITIONS_STRICT) == (1000, [EXCEEDED])
    assert ask(lab, request, PARTITIONS_STRICT - 1) == (1500, [0])


def test_the_partitions_of_deleted_topics_count(lab: Lab) -> None:
    ask(lab, creation("a", "b", "c", partitions=30), CREATE_STRICT, user="bob")
    assert ask(lab, DeleteTopicsRequest(topic_names=["a"], timeout_ms=1), DELETE_STRICT) == (0, [0])
    assert ask(lab, DeleteTopicsRequest(topic_names=["b"], timeout_ms=1), DELETE_STRICT) == (4000, [EXCEEDED])
    assert "b" in lab.image.topic_ids
    assert ask(lab, DeleteTopicsRequest(topic_names=["c"], timeout_ms=1), DELETE_STRICT - 1) == (19_000, [0])


def test_what_is_refused_for_another_reason_costs_nothing(lab: Lab) -> None:
    ask(lab, creation("a", partitions=22), CREATE_STRICT)
    for _ in range(3):
        assert ask(lab, creation("a", partitions=22), CREATE_STRICT) == (0, [ErrorCode.TOPIC_ALREADY_EXISTS])
    assert ask(lab, creation("b"), CREATE_STRICT) == (0, [0])


def test_a_validated_request_counts(lab: Lab) -> None:
    """As in Apache Kafka's KRaft mode."""
    assert ask(lab, creation("a", partitions=30, validate_only=True), CREATE_STRICT) == (0, [0])
    assert ask(lab, creation("a"), CREATE_STRICT) == (4000, [EXCEEDED])


def test_users_and_client_ids_have_buckets_of_their_own() -> None:
    lab = Lab()
    lab.join()
    name = names("t")
    set_quota(lab, RATE, user=None)
    set_quota(lab, RATE, user="both", client_id=None)
    full, refused = creation(next(name), partitions=30), creation(next(name))
    assert ask(lab, full, CREATE_STRICT, "a", "one")[1] == [0]
    assert ask(lab, refused, CREATE_STRICT, "a", "two")[1] == [EXCEEDED], "the user's bucket"
    assert ask(lab, creation(next(name), partitions=30), CREATE_STRICT, "b", "one")[1] == [0]
    assert ask(lab, creation(next(name), partitions=30), CREATE_STRICT, "both", "one")[1] == [0]
    assert ask(lab, creation(next(name), partitions=30), CREATE_STRICT, "both", "two")[1] == [0]
    assert ask(lab, refused, CREATE_STRICT, "both", "two")[1] == [EXCEEDED]


def test_another_rate_holds_at_once(lab: Lab) -> None:
    ask(lab, creation("a", partitions=30), CREATE_STRICT)
    set_quota(lab, 8 * RATE, user="alice")
    assert ask(lab, creation("b"), CREATE_STRICT) == (500, [EXCEEDED])
    set_quota(lab, None, user="alice")
    assert ask(lab, creation("b"), CREATE_STRICT) == (0, [0])


def test_full_buckets_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client in debt does not come off by others that come and go; those who find no room share a bucket."""
    monkeypatch.setattr(mutation_quotas, "MAX_BUCKETS", 2)
    lab = Lab()
    lab.join()
    name = names("t")
    set_quota(lab, RATE, user=None)
    assert ask(lab, creation(next(name), partitions=100), CREATE_STRICT, "debtor")[1] == [0]
    assert ask(lab, creation(next(name), partitions=30), CREATE_STRICT, "second")[1] == [0]
    assert ask(lab, creation(next(name), partitions=30), CREATE_STRICT, "third")[1] == [0]
    assert ask(lab, creation(next(name)), CREATE_STRICT, "fourth")[1] == [EXCEEDED], "it shares the third's"
    lab.wait(15)
    assert ask(lab, creation(next(name)), CREATE_STRICT, "fourth")[1] == [0], "the second's is forgotten"
    assert ask(lab, creation(next(name)), CREATE_STRICT, "debtor")[1] == [EXCEEDED]


@pytest.mark.parametrize("rate", [0.0, 1e-7])
def test_the_longest_throttle_time_fits_its_field(rate: float) -> None:
    bucket = mutation_quotas.TokenBucket(tokens=0, rate=rate, capacity=0, updated_ns=0)
    quota = mutation_quotas.MutationQuota(bucket, is_strict=False)
    quota.record(1_000)
    assert quota.throttle_ms == 2**31 - 1
