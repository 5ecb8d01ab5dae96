"""Which quota applies, how rates are computed, and throttle times."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.quotas import client_quotas as quotas_module
from barnabas.broker.quotas.client_quotas import FETCH, NO_LIMIT, PRODUCE, REQUEST, ClientQuotas
from barnabas.broker.quotas.rates import Rate, Window, throttle_ms
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.protocol.records.metadata import ClientQuotaRecord
from barnabas.runtime.network.network import Address
from tests.broker.worlds.data_world import (
    HandClock,
    World,
    batch_of,
    fetch_request,
    partition_answers,
    values_in,
)
from tests.broker.worlds.front_world import node_of

WINDOW = Window(samples=11, sample_ms=1000)


# Rates -----------------------------------------------------------------------------------------------------


def test_a_first_burst_is_spread_over_the_whole_window() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, 5)
    assert rate.measure(5) == pytest.approx(100), "ten seconds, not none"
    assert rate.measure(10_005) == pytest.approx(100)
    assert rate.measure(11_004) == pytest.approx(1000 / 10.999)
    assert rate.measure(11_005) == 0, "it expires after eleven"


def test_samples_expire_one_by_one() -> None:
    rate = Rate(WINDOW)
    for second in range(20):
        rate.record(50, second * 1000)
    assert rate.measure(19_000) == pytest.approx(11 * 50 / 10)
    assert rate.measure(19_999) == pytest.approx(11 * 50 / 10.999)


def test_undone_amounts_do_not_count() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, 0)
    rate.record(-1000, 0)
    assert rate.measure(0) == 0


@pytest.mark.parametrize(
    ("amount", "bound", "most_ms", "wait_ms"),
    [(1000, 100, None, 0), (1001, 100, None, 10), (2000, 100, None, 10_000), (2000, 100, 1000, 1000)],
)
def test_the_wait_brings_the_rate_down_to_the_bound(
    amount: int, bound: int, most_ms: int | None, wait_ms: int
) -> None:
    rate = Rate(WINDOW)
    rate.record(amount, 0)
    assert throttle_ms(rate, bound, 0, most_ms) == wait_ms


# Precedence -----------------------------------------------------------------------------------------------


def quota(key: str, value: float | None, **entity: str | None) -> ClientQuotaRecord:
    parts = [
        ClientQuotaRecord.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
        for kind, name in entity.items()
    ]
    return ClientQuotaRecord(entity=parts, key=key, value=value or 0.0, remove=value is None)


def image_with(*records: ClientQuotaRecord, before: Image = EMPTY_IMAGE) -> Delta:
    delta = Delta(before)
    for record in records:
        delta.replay(record)
    return delta


def quotas(*records: ClientQuotaRecord) -> ClientQuotas:
    made = ClientQuotas(node_of().settings, HandClock())
    made.load(image_with(*records).image)
    return made


def context(user: str = "u", client_id: str = "c") -> RequestContext:
    return RequestContext(
        0,
        9,
        1,
        client_id,
        principal=f"User:{user}",
        listener="PLAINTEXT",
        peer=Address("127.0.0.1", 5),
        received_ns=0,
    )


LEVELS: list[dict[str, str | None]] = [
    {"user": "u", "client_id": "c"},
    {"user": "u", "client_id": None},
    {"user": "u"},
    {"user": None, "client_id": "c"},
    {"user": None, "client_id": None},
    {"user": None},
    {"client_id": "c"},
    {"client_id": None},
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_special_quota_holds(first: int) -> None:
    """KIP-55: the order of users and client ids, and of their defaults."""
    levels = list(enumerate(LEVELS))[first:]
    made = quotas(*(quota(FETCH, 1000.0 * (1 + number), **entity) for number, entity in reversed(levels)))
    limits = made.limits_of(context())
    assert limits is not None
    assert limits.max_fetch_bytes == 10_000 * (1 + first)


def test_each_kind_of_quota_is_looked_for_by_itself() -> None:
    made = quotas(quota(PRODUCE, 1.0, user="u", client_id="c"), quota(FETCH, 7.0, client_id=None))
    limits = made.limits_of(context())
    assert limits is not None
    assert limits.max_fetch_bytes == 70
    assert limits.received(0, 1000) > 0


def test_clients_without_a_quota_are_not_limited() -> None:
    made = quotas(quota(PRODUCE, 1.0, user="somebody"), quota(REQUEST, 1.0, client_id="else"))
    assert made.is_set
    assert made.limits_of(context()) is None
    only_produce = made.limits_of(context("somebody"))
    assert only_produce is not None
    assert (only_produce.max_fetch_bytes, only_produce.fetched(10**9)) == (NO_LIMIT, 0)
    assert only_produce.worked(10**12) == 0
    assert only_produce.received(3, 10**9) == 0, "only produced bytes count"


def test_a_user_s_clients_share_its_quota_and_client_ids_have_one_each() -> None:
    shared = quotas(quota(PRODUCE, 100.0, user="u"))
    assert received(shared, context("u", "a"), 1000) == 0
    assert received(shared, context("u", "b"), 1000) == 10_000
    each = quotas(quota(PRODUCE, 100.0, client_id=None))
    assert received(each, context("u", "a"), 1000) == 0
    assert received(each, context("u", "b"), 1000) == 0
    assert received(each, context("v", "b"), 1000) == 10_000, "all users of that client id"


def received(made: ClientQuotas, connection: RequestContext, size: int) -> int:
    limits = made.limits_of(connection)
    assert limits is not None
    return limits.received(0, size)


def test_a_new_quota_applies_to_earlier_usage_at_once() -> None:
    started = image_with(quota(PRODUCE, 1000.0, user="u"))
    made = ClientQuotas(node_of().settings, HandClock())
    assert not made.is_set
    made.apply(started)
    assert received(made, context(), 5000) == 0
    made.apply(image_with(quota(PRODUCE, 100.0, user="u"), before=started.image))
    assert received(made, context(), 0) == 40_000
    made.apply(image_with(quota(PRODUCE, None, user="u"), before=started.image))
    assert not made.is_set


def test_quotas_that_others_hold_to_are_not_ours() -> None:
    """The controller's own is applied by its response; nothing is counted here."""
    assert not quotas(quota("connection_creation_rate", 1.0, ip="x")).is_set
    made = quotas(quota("controller_mutation_rate", 1.0, user="u"))
    assert made.is_set
    assert made.limits_of(context()) is None


def test_the_loop_s_time_is_limited_by_a_sample_at_most() -> None:
    """KIP-124: percent of one thread; the throttle time is at most one sample."""
    limits = quotas(quota(REQUEST, 1.0, user="u")).limits_of(context())
    assert limits is not None
    assert limits.worked(100_000_000) == 0, "a tenth of a second in ten is one percent"
    assert limits.worked(1_000_000) == 100
    assert limits.worked(10_000_000_000) == 1000


def test_clients_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas_module, "MAX_CLIENTS", 5)
    made = quotas(quota(PRODUCE, 100.0, client_id=None))
    clock: Any = made._clock
    for number in range(40):
        received(made, context(client_id=f"c{number}"), 10)
        clock.now_ms += 12_000
    assert len(made._limits) <= 5
    assert len(made._rates) <= 6


# Fetching --------------------------------------------------------------------------------------------------


def test_a_fetch_over_quota_gives_nothing_and_changes_no_session() -> None:
    world = World()
    world.topic("t")
    record = b"x" * 800
    world.produce("t", batch_of(record))
    made = ClientQuotas(node_of().settings, world.clock)
    made.load(image_with(quota(FETCH, 100.0, user="ANONYMOUS")).image)
    world.quotas = made
    first = world.fetch(fetch_request("t", {0: 0}, session_epoch=0))
    assert first.throttle_time_ms == 0
    assert values_in(partition_answers(first)["t", 0]) == [(0, record)], "the quota of one window"
    assert first.session_id
    again = fetch_request("t", {}, session_id=first.session_id, session_epoch=1)
    over = world.fetch(again)
    assert over.throttle_time_ms > 0
    assert (over.session_id, over.error_code, over.responses) == (first.session_id, 0, [])
    world.clock.now_ms += WINDOW.all_ms
    go_on = fetch_request("t", {}, session_id=first.session_id, session_epoch=2)
    assert values_in(partition_answers(world.fetch(go_on))["t", 0]) == [(0, record)]


def test_a_refused_fetch_does_not_count_against_the_quota() -> None:
    """A response that was not sent does not count: after the throttle time the client gets its records."""
    limited = quotas(quota(FETCH, 100, user="u"))
    limits = limited.limits_of(context())
    assert limits is not None
    assert limits.fetched(1_000) == 0
    first = limits.fetched(500)
    assert first > 0
    assert [limits.fetched(500) for _ in range(5)] == [first] * 5


def test_rates_of_ever_new_client_ids_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F7: every client id had its own rate, and the search for idle ones cost more with each of them."""
    monkeypatch.setattr(quotas_module, "MAX_CLIENTS", 10)
    limited = quotas(quota(PRODUCE, 100, client_id=None))
    for number in range(1_000):
        assert limited.limits_of(context(client_id=f"c{number}")) is not None
    assert len(limited._rates) == 11
    # Clients beyond the limit share a rate.
    late = limited.limits_of(context(client_id="late"))
    later = limited.limits_of(context(client_id="later"))
    assert late is not None
    assert later is not None
    late.received(0, 1_000)
    assert later.received(0, 500) > 0


def test_a_long_client_id_is_remembered_by_its_hash() -> None:
    """F7: client ids have up to 32 kB, and thousands of them were kept."""
    limited = quotas(quota(PRODUCE, 100, client_id=None))
    for number in range(20):
        assert limited.limits_of(context(client_id=f"{number:05}" + "x" * 30_000)) is not None
    assert len(limited._rates) == 20
    assert sum(len(client_id) for _, _, client_id in limited._rates) < 20 * 100
