"""producer-perf-test, consumer-perf-test, e2e-latency: what each flag does, and the reports."""

from __future__ import annotations

import itertools
import re
from argparse import Namespace
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from barnabas.cli.console import silence
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.perf import consumer_perf_test, e2e_latency, producer_perf_test, reports
from barnabas.cli.perf.java_dates import date_format
from barnabas.cli.perf.reports import ProduceStatistics, java_number, metrics_table, percentiles, rate
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.replay import own_broker, run_ours
from tests.cli.sessions.sessions import Places

_numbers = itertools.count(1)
Tool = Callable[..., tuple[int, str, str]]
TOTAL = re.compile(
    r"(\d+) records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)


@pytest.fixture(scope="module")
def places() -> Iterator[Places]:
    with quick_folder() as folder, own_broker(folder, {"group.initial.rebalance.delay.ms": "0"}) as places:
        yield places


@pytest.fixture
def topic(places: Places) -> str:
    name = f"topic-{next(_numbers)}"
    with Producer({"bootstrap.servers": places.server}) as producer:
        producer.partitions_for(name)
    return name


@pytest.fixture
def produce(places: Places, topic: str) -> Tool:
    def call(*flags: str) -> tuple[int, str, str]:
        server = f"bootstrap.servers={places.server}"
        return run_ours(["producer-perf-test", "--topic", topic, *flags, "--producer-props", server])

    return call


def records(places: Places, topic: str, count: int) -> list[bytes]:
    with Consumer({"bootstrap.servers": places.server}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        found: list[bytes] = []
        while len(found) < count:
            found += [one.value for one in consumer.poll() if isinstance(one.value, bytes)]
        return found


# The producer -----------------------------------------------------------------------------------------------


def test_random_records_of_a_size(produce: Tool, places: Places, topic: str) -> None:
    code, out, _ = produce("--num-records", "50", "--record-size", "33", "--throughput", "-1")
    assert code == 0
    found = TOTAL.fullmatch(out.strip())
    assert found is not None
    assert found[1] == "50"
    values = records(places, topic, 50)
    assert all(re.fullmatch(rb"[A-Z]{33}", value) for value in values)
    assert len(set(values)) == 50


def test_numbers_and_metrics(produce: Tool, places: Places, topic: str) -> None:
    flags = ("--num-records", "12", "--payload-monotonic", "--throughput", "-1", "--print-metrics")
    code, out, _ = produce(*flags)
    assert code == 0
    assert records(places, topic, 12) == [b"%d" % number for number in range(12)]
    rows = dict(line.split(" : ") for line in out.splitlines() if " : " in line)
    values = {name.split(":")[1]: value for name, value in rows.items()}
    assert values["record-send-total"] == "12.000"
    assert values["outgoing-byte-total"] == "14.000"
    assert all("{client-id=perf-producer-client}" in name for name in rows)


def test_payloads_of_a_file(produce: Tool, places: Places, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "texts"
    file.write_text("one\ntwo\nthree\n\n", "utf-8")
    flags = ("--num-records", "30", "--throughput", "-1", "--payload-file", str(file))
    code, out, _ = produce(*flags)
    assert code == 0
    assert out.startswith(f"Reading payloads from: {file}\nNumber of messages read: 3\n")
    assert set(records(places, topic, 30)) == {b"one", b"two", b"three"}
    assert "Number of messages read: 6\n" in produce(*flags, "--payload-delimiter", "[oe]")[1]


def test_a_pace_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr("barnabas.runtime.loop.loop_thread.pause", pause)
    options = producer_perf_test.make_parser().parse(
        ["--topic", "t", "--num-records", "9", "--payload-monotonic", "--throughput", "100"]
    )
    load = producer_perf_test.ProduceLoad(options, iter(()), 1)
    load.now_ms = lambda: load._start_ms + 20
    for sent in (1, 2, 3):
        with pytest.raises(StopIteration):
            load._keep_pace(sent).send(None)
    assert paused == [pytest.approx(0.01)]


def test_transactions(places: Places, topic: str) -> None:
    words = ["producer-perf-test", "--topic", topic, "--num-records", "20", "--payload-monotonic"]
    words += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={places.server}"]
    assert run_ours([*words, "--transactional-id", topic])[0] == 0
    assert run_ours([*words, "--transaction-duration-ms", "1"])[0] == 0
    with Admin({"bootstrap.servers": places.server}) as admin:
        listed = admin.list_transactions()
        ids = {one.transactional_id: one.state for rows in listed.values_by_key.values() for one in rows}
    assert ids[topic] == "CompleteCommit"
    assert any(name.startswith("performance-producer-") for name in ids)
    with Consumer({"bootstrap.servers": places.server, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] > 40


def test_properties_of_a_file_of_flags_and_of_the_tool(tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=from-a-file\ntransactional.id=old\n", "utf-8")

    def properties(*flags: str) -> dict[str, object]:
        words = ["--topic", "t", "--num-records", "1", "--payload-monotonic", "--throughput", "-1", *flags]
        return producer_perf_test.producer_properties(producer_perf_test.make_parser().parse(words))

    given = properties(
        "--producer.config", str(file), "--producer-props", "bootstrap.servers=flag:1", "a=b=c"
    )
    assert given["bootstrap.servers"] == "flag:1"
    assert (given["client.id"], given["a"], given["transactional.id"]) == ("from-a-file", "b=c", "old")
    named = properties("--producer.config", str(file), "--transactional-id", "new")
    assert named["transactional.id"] == "new"
    assert properties("--producer-props", "x=y")["client.id"] == "perf-producer-client"
    with pytest.raises(UsageError, match="Invalid property: nothing"):
        properties("--producer-props", "nothing")
    with pytest.raises(UsageError, match=r"Either --producer-props or --producer\.config must be specified"):
        properties()


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--record-size", "0"], Exit.USAGE, "'0' is not a whole number from 1"),
        (["--record-size", "1", "--payload-monotonic"], Exit.USAGE, "not allowed with argument"),
        ([], Exit.USAGE, "one of the arguments --record-size --payload-file --payload-monotonic is required"),
        (["--payload-monotonic", "--throughput", "0"], Exit.USAGE, "--throughput"),
        (["--payload-file", "/nowhere"], Exit.NOT_FOUND, "File does not exist or empty file provided."),
        (["--payload-file", "/dev/null"], Exit.NOT_FOUND, "File does not exist or empty file provided."),
        (["--payload-monotonic", "--transaction-duration-ms", "0"], Exit.USAGE, "'0' is not a whole number"),
    ],
)
def test_invalid_measurements_are_refused(flags: list[str], code: Exit, message: str) -> None:
    words = ["producer-perf-test", "--topic", "t", "--num-records", "1", "--producer-props", "a=b", *flags]
    if "--throughput" not in flags:
        words += ["--throughput", "-1"]
    result, _, errors = run_ours(words)
    assert result == code
    assert message in errors


def test_records_that_are_not_written_are_a_failure(places: Places, topic: str) -> None:
    words = ["producer-perf-test", "--topic", topic, "--num-records", "12", "--record-size", "200"]
    words += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={places.server}"]
    code, _, errors = run_ours([*words, "max.request.size=100"])
    assert code == Exit.FAILED
    assert "Traceback" not in errors


# The consumer -----------------------------------------------------------------------------------------------


def test_flags_of_the_consumer_become_its_properties(tmp_path: Path) -> None:
    def properties(*flags: str) -> dict[str, object]:
        parser = consumer_perf_test.make_parser()
        words = ["--bootstrap-server", "here:1", "--topic", "t", "--messages", "1", *flags]
        return consumer_perf_test.consumer_properties(parser, parser.parse(words))

    plain = properties()
    assert str(plain.pop("group.id")).startswith("perf-consumer-")
    assert plain == {
        "bootstrap.servers": "here:1",
        "client.id": "perf-consumer-client",
        "receive.buffer.bytes": 2097152,
        "max.partition.fetch.bytes": 1048576,
        "auto.offset.reset": "earliest",
        "check.crcs": "false",
    }
    assert properties("--from-latest")["auto.offset.reset"] == "latest"
    assert properties("--fetch-size", "77")["max.partition.fetch.bytes"] == 77
    assert properties("--socket-buffer-size", "4096")["receive.buffer.bytes"] == 4096
    assert properties("--group", "g")["group.id"] == "g"
    file = tmp_path / "consumer.properties"
    file.write_text("client.id=me\ngroup.id=theirs\n", "utf-8")
    given = properties("--consumer.config", str(file), "--group", "mine")
    assert (given["client.id"], given["group.id"]) == ("me", "mine")


def test_reading_with_details_and_metrics(produce: Tool, places: Places, topic: str) -> None:
    produce("--num-records", "600", "--record-size", "10", "--throughput", "-1")
    words = ["consumer-perf-test", "--bootstrap-server", places.server, "--topic", topic]
    details = (
        "--show-detailed-stats",
        "--reporting-interval",
        "1",
        "--date-format",
        "yyyy",
        "--print-metrics",
    )
    code, out, errors = run_ours([*words, "--messages", "600", *details])
    assert code == 0, errors
    header, row, *rest = out.splitlines()
    assert header.startswith("time, threadId, data.consumed.in.MB, ")
    assert re.match(
        r"20\d\d, 0, 0\.\d{4}, \d+\.\d{4}, \d+, \d+\.\d{4}, \d+, -?\d+, \d+\.\d{4}, \d+\.\d{4}$", row
    )
    assert any("records-consumed-total" in line and line.endswith(" : 600.000") for line in rest)
    code, out, errors = run_ours([*words, "--messages", "700", "--timeout", "3000", "--hide-header"])
    assert code == Exit.TIMED_OUT
    assert out.splitlines()[-1].split(", ")[4] == "600"
    assert errors.startswith("WARNING: Exiting before consuming the expected number of messages")


def test_details_are_reported_once_in_an_interval(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock moves by 400 ms with each look, and each poll returns a record of 100 bytes."""
    times = itertools.count(1_000_000, 400)
    monkeypatch.setattr("barnabas.runtime.clock.SystemClock.wall_ms", lambda clock: next(times))

    class Consumes:
        def subscribe(self, topics: list[str], listener: object) -> None:
            assert topics == ["t"]

        def poll(self, timeout_ms: int) -> list[SimpleNamespace]:
            return [SimpleNamespace(key=b"k" * 40, value=b"v" * 60)]

    options = Namespace(
        topic="t", messages=8, timeout=10_000, reporting_interval=1000, show_detailed_stats=True
    )
    load = consumer_perf_test.ConsumeLoad(Consumes(), options, str)  # type: ignore[arg-type]
    load.read_all(SimpleNamespace(is_requested=False))  # type: ignore[arg-type]
    rows = [line.split(", ") for line in capsys.readouterr().out.splitlines()]
    # Time, messages so far, messages per second since the last row.
    assert [(row[0], row[4], row[5]) for row in rows] == [
        ("1001200", "2", "1.6667"),
        ("1002400", "5", "2.5000"),
        ("1003600", "8", "2.5000"),
    ]


def test_no_broker_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "PATIENCE_MS", 300)
    words = ["consumer-perf-test", "--messages", "1", "--timeout", "50", "--topic", "nope"]
    code, _, errors = run_ours([*words, "--bootstrap-server", "localhost:1"])
    assert code == Exit.UNREACHABLE
    assert "no broker responds" in errors
    # Without a value the flag has its default.
    parsed = consumer_perf_test.make_parser().parse([*words[1:3], "--topic", "t", "--timeout"])
    assert parsed.timeout == consumer_perf_test.DEFAULT_TIMEOUT_MS


# From end to end --------------------------------------------------------------------------------------------


def test_latency_with_properties_of_a_file(places: Places, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=mine\n", "utf-8")
    code, out, errors = run_ours(["e2e-latency", places.server, "latency", "5", "1", "10", str(file)])
    assert code == 0, errors
    assert re.fullmatch(
        r'Topic "latency" does not exist\. Will create topic with 1 partition\(s\) and replication factor = 1\n'
        r"0\t[\d.]+\nAvg latency: \d+\.\d{4} ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n",
        out,
    )


@pytest.mark.parametrize(
    ("read", "message"),
    [([], "poll() timed out"), ([b"b"], "did not match the message sent"), ([b"a", b"b"], "We found [2]")],
)
def test_the_received_record_must_be_the_sent_one(read: list[object], message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)):
        e2e_latency.check(b"a", read)


# Reports ----------------------------------------------------------------------------------------------------


def test_a_window_is_reported_when_it_ends_and_the_total_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "MAX_SAMPLES", 2)
    statistics = ProduceStatistics(4, 0, 1000)
    assert statistics.record(10, 1 << 20, 500) is None
    line = statistics.record(30, 1 << 20, 1000)
    assert line == "2 records sent, 2.0 records/sec (2.00 MB/sec), 20.0 ms avg latency, 30.0 ms max latency."
    assert statistics.record(2, 0, 1100) is None
    # Two of four records are sampled: the first and the third.
    assert statistics.total(2000) == (
        "3 records sent, 1.5 records/sec (1.00 MB/sec), 14.00 ms avg latency, 30.00 ms max latency, "
        "10 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th."
    )


def test_zero_by_zero_is_nan() -> None:
    assert java_number(rate(0, 0), 2) == "NaN"
    assert java_number(rate(1, 0), 2) == "Infinity"
    assert java_number(-rate(1, 0), 2) == "-Infinity"
    assert (
        ProduceStatistics(1, 5, 1000).total(5).startswith("0 records sent, NaN records/sec (NaN MB/sec), NaN")
    )


def test_percentiles_are_nearest_ranks() -> None:
    assert percentiles(list(range(999, -1, -1))) == [500, 950, 990, 999]
    assert percentiles([7]) == [7, 7, 7, 7]


def test_metrics_in_the_order_of_their_names() -> None:
    assert metrics_table({"b": 1.5, "aa": "x"}) == "\nMetric Name   Value\naa : x\nb  : 1.500\n"


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-03-05 14:07:09:042"),
        ("yy/M/d h:m a", "26/3/5 2:7 PM"),
        ("EEE, d MMM yyyy", "Thu, 5 Mar 2026"),
        ("EEEE MMMM DDD k K u", "Thursday March 064 14 2 4"),
        ("'at' HH 'o''clock' ''", "at 14 o'clock '"),
        ("G", "AD"),
    ],
)
def test_dates_as_java_writes_them(pattern: str, shown: str) -> None:
    when = datetime(2026, 3, 5, 14, 7, 9, 42_000)
    assert date_format(pattern, "--date-format")(int(when.timestamp() * 1000)) == shown


def test_zones_and_unknown_letters() -> None:
    for pattern in ("Z", "X", "XX", "XXX"):
        assert re.fullmatch(r"Z|[+-]\d\d(:?\d\d)?", date_format(pattern, "f")(0))
    with pytest.raises(UsageError, match="unknown letter b in a date format"):
        date_format("yyyy b", "--date-format")
