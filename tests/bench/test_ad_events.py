"""The events of the Yahoo streaming benchmark, and the counts of a correct query."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from barnabas.batch.records import Record
from bench import ad_events, topics
from bench.ad_events import CAMPAIGNS, Generator, Update, ads, final_total, percentile, send_paced
from bench.rows import spark_yahoo
from bench.servers import OurServer
from bench.spark import PARTITIONS, fill, now_ms

END_MS = 1_700_000_000_000


def test_ads_are_the_same_every_time() -> None:
    known = ads()
    assert known == ads()
    assert len(known.campaigns) == 1_000
    assert len(set(known.campaigns.values())) == CAMPAIGNS


def test_events_have_the_fields_of_the_original() -> None:
    record = Generator().event(END_MS)
    assert record.timestamp == END_MS
    event = json.loads(record.value or b"")
    assert list(event) == [
        "user_id",
        "page_id",
        "ad_id",
        "ad_type",
        "event_type",
        "event_time",
        "ip_address",
    ]
    assert event["event_time"] == str(END_MS)
    assert event["ad_id"] in ads().campaigns


def test_the_generator_counts_the_counted_events() -> None:
    generator = Generator()
    events = [json.loads(one.value or b"") for one in generator.spread(3_000, END_MS, 60_000)]
    assert generator.counted == sum(event["event_type"] == "view" for event in events)
    assert 900 < generator.counted < 1_100
    times = [int(event["event_time"]) for event in events]
    assert times == sorted(times)
    assert times[0] == END_MS - 60_000
    assert times[-1] < END_MS


def test_the_last_count_of_a_window_is_the_one_that_matters() -> None:
    lines = [b"a,0,2,5", b"b,0,1,7", b"a,0,5,9", b"a,10000,1,10001"]
    found = [Update.read(line) for line in lines]
    assert found[2] == Update("a", 0, 5, 9)
    assert final_total(found) == 5 + 1 + 1
    assert final_total([]) == 0


@pytest.mark.parametrize(("count", "expected"), [(1, 0.0), (100, 99.0), (1000, 990.0)])
def test_a_percentile_is_a_value_that_was_measured(count: int, expected: float) -> None:
    assert percentile([float(n) for n in reversed(range(count))], 0.99) == expected


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurServer]:
    # Rounds wait until the files of their topics are deleted.
    settings = {"log.segment.delete.delay.ms": "0"}
    made = OurServer(tmp_path_factory.mktemp("bench-server") / "ours", settings)
    made.start()
    yield made
    made.end()


def test_events_at_a_pace_are_all_there(server: OurServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ad_events, "MAX_BEHIND_S", 120.0)
    with topics.topic(server, PARTITIONS) as topic:
        sent, counted = send_paced(server.address, topic, rate=997, seconds=0.5)
        ends = topics.end_offsets(server, topic, PARTITIONS)
    assert sent == 498
    assert sum(end or 0 for end in ends) == sent
    assert min(end or 0 for end in ends) > 0
    assert 0 < counted < sent


def test_updates_are_read_back_with_the_time_of_the_broker(
    server: OurServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_yahoo, "FETCH_BYTES", 4_000)
    before = now_ms()
    with topics.topic(server, 1, spark_yahoo.OUTPUT_CONFIGS) as output:
        records = [Record(0, before - 1, None, b"c,0,%d,%d" % (n, n)) for n in range(1, 401)]
        assert fill(server.address, output, records, 1) == 400
        found = spark_yahoo.updates(server, output)
    assert [one.count for _, one in found] == list(range(1, 401))
    assert min(at_ms for at_ms, _ in found) >= before
