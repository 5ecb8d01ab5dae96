"""The options of the source: what is accepted, and how invalid ones are rejected."""

from __future__ import annotations

import pytest

from barnabas.client import TopicPartition
from barnabas.spark.given_options import OptionError
from barnabas.spark.source import batch_reader, source_schema
from barnabas.spark.source.offsets import AtOffsets, AtTimes, Edge, from_checkpoint, to_json
from barnabas.spark.source.options import Assign, Subscribe, SubscribePattern, batch_options, stream_options
from barnabas.spark.source.ranges import OffsetRange, cut, share_limit

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
WHERE = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)


def test_defaults_of_batches_and_streams() -> None:
    batch, stream = batch_options(BASE), stream_options(BASE)
    assert (batch.starting, batch.ending, stream.starting) == (Edge.EARLIEST, Edge.LATEST, Edge.LATEST)
    assert batch.fail_on_data_loss
    assert batch.client == {"bootstrap.servers": "localhost:9092"}


def test_names_ignore_case() -> None:
    options = batch_options({**BASE, "STARTINGOFFSETS": "Earliest", "MinPartitions": "7"})
    assert (options.starting, options.min_partitions) == (Edge.EARLIEST, 7)


def test_topics_are_chosen_in_three_ways() -> None:
    rest = {"kafka.bootstrap.servers": "localhost:9092"}
    assert batch_options({**rest, "subscribe": " a, b ,a,"}).selection == Subscribe(("a", "b"))
    assert batch_options({**rest, "subscribePattern": "a.*"}).selection == SubscribePattern("a.*")
    assigned = batch_options({**rest, "assign": '{"a": [1, 0]}'}).selection
    assert assigned == Assign((TopicPartition("a", 0), TopicPartition("a", 1)))


def test_one_time_for_all_goes_before_times_and_offsets() -> None:
    given = {
        **BASE,
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"orders": {"0": 6}}',
        "startingOffsets": "earliest",
    }
    assert batch_options(given).starting == AtTimes(5, else_latest=False)
    del given["startingTimestamp"]
    assert batch_options(given).starting == AtTimes({WHERE: 6}, else_latest=False)
    # An end without a record is the end there is.
    assert batch_options({**BASE, "endingTimestamp": "5"}).ending == AtTimes(5, else_latest=True)


def test_offsets_of_the_options_and_of_checkpoints_have_one_form() -> None:
    given = '{"orders": {"1": 23, "0": -2}}'
    assert batch_options({**BASE, "startingOffsets": given}).starting == AtOffsets({WHERE: -2, OTHER: 23})
    # Spark compares text, so the order is always the same.
    assert list(to_json({OTHER: 23, WHERE: 7})["orders"]) == ["0", "1"]
    assert from_checkpoint({"orders": {"0": 7}}) == {WHERE: 7}


@pytest.mark.parametrize("held", [3, {"logOffset": 4}, {"orders": {"0": "x"}}, [], {"orders": {"a": 1}}])
def test_a_checkpoint_of_another_source_says_so(held: object) -> None:
    with pytest.raises(OptionError, match="belongs to another query; set another checkpointLocation"):
        from_checkpoint(held)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers is missing"),
        (
            {"kafka.bootstrap.servers": "x:1"},
            "exactly one of the options subscribe, subscribePattern, assign",
        ),
        ({**BASE, "assign": '{"a":[0]}'}, "not subscribe and assign"),
        ({**BASE, "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({**BASE, "topic": "x"}, "option of the sink"),
        ({**BASE, "path": "x"}, "name topics by the option subscribe"),
        ({**BASE, "subscribe": " , "}, "names no topic"),
        ({**BASE, "startingOffsets": "latest"}, "cannot be latest in a batch query"),
        ({**BASE, "startingOffsets": "newest"}, "is earliest, latest, committed or JSON"),
        ({**BASE, "startingOffsets": '{"orders": 3}'}, "expected e.g."),
        ({**BASE, "startingOffsets": '{"orders": {"0": -1}}'}, "cannot be -1"),
        (
            {**BASE, "startingOffsets": '{"orders": {"0": 4, "1": -3}}'},
            "startingOffsets: -3 for orders-1 is not possible; give 0 or more, -1 for latest or -2 for",
        ),
        ({**BASE, "endingOffsetsByTimestamp": '{"orders": {"0": -9}}'}, "-9 for orders-0 is not possible"),
        ({**BASE, "startingOffsets": "committed"}, "needs groupId"),
        ({**BASE, "endingOffsets": "earliest"}, "cannot be earliest"),
        ({**BASE, "failOnDataLoss": "yes"}, "true or false, not 'yes'"),
        ({**BASE, "minPartitions": "0"}, "at least 1, not '0'"),
        ({**BASE, "maxTriggerDelay": "soon"}, "such as 30s, 15m or 1h"),
        (
            {**BASE, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "higher than maxOffsetsPerTrigger",
        ),
        ({**BASE, "kafka.auto.offset.reset": "latest"}, "set startingOffsets"),
        ({**BASE, "kafka.enable.auto.commit": "true"}, "set groupId"),
        ({**BASE, "kafka.isolation.levl": "read_committed"}, "did you mean kafka.isolation.level"),
        ({**BASE, "kafka.nonsense": "x"}, "kafka.nonsense is not an option of a client"),
        ({**BASE, "startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        (
            {**BASE, "startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
            "start offset 5 of orders-0 is greater than its end 4",
        ),
        (
            {**BASE, "startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":6}}'},
            "different partitions",
        ),
        (
            {
                **BASE,
                "startingOffsetsByTimestamp": '{"orders":{"0":50}}',
                "endingOffsetsByTimestamp": '{"orders":{"0":49}}',
            },
            "start timestamp 50 of orders-0 is greater than its end 49",
        ),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        batch_options(given)


def test_a_pattern_that_is_none_and_an_end_of_a_stream_are_refused() -> None:
    with pytest.raises(OptionError, match="is not a regular expression"):
        stream_options({"kafka.bootstrap.servers": "x:1", "subscribePattern": "a("})
    with pytest.raises(OptionError, match="a stream has no end"):
        stream_options({**BASE, "endingoffsets": "latest"})


def test_a_wrong_client_option_is_refused() -> None:
    given = {**BASE, "kafka.isolation.level": "read_everything"}
    reader = batch_reader(source_schema(given), given)
    with pytest.raises(OptionError, match=r"isolation\.level"):
        reader.partitions()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("value string", "is binary, not string; cast it"),
        ("body binary", "no column body; choose from key, value"),
    ],
)
def test_a_schema_only_chooses_columns(schema: str, said: str) -> None:
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    name, kind = schema.split()
    wanted = StructType([StructField(name, StringType() if kind == "string" else BinaryType())])
    with pytest.raises(OptionError, match=said):
        batch_reader(wanted, BASE)


def test_tasks_are_divided_as_configured() -> None:
    ranges = [OffsetRange(WHERE, 0, 100, from_earliest=True), OffsetRange(OTHER, 5, 5)]
    assert cut(ranges, None, None) == [ranges[0]]
    halves = cut(ranges, 2, None)
    assert [(halve.start, halve.end, halve.from_earliest) for halve in halves] == [
        (0, 50, True),
        (50, 100, False),
    ]
    parts = cut(ranges, None, 30)
    assert [(part.start, part.end) for part in parts] == [(0, 25), (25, 50), (50, 75), (75, 100)]
    # A small partition stays whole, and the large one is divided among the rest.
    mixed = cut([OffsetRange(WHERE, 0, 90), OffsetRange(OTHER, 0, 10)], 4, None)
    assert [(one.topic_partition.partition, one.size) for one in mixed] == [
        (0, 30),
        (0, 30),
        (0, 30),
        (1, 10),
    ]


def test_a_limit_is_shared_by_size_and_starves_no_partition() -> None:
    assert share_limit(10, {WHERE: 0, OTHER: 0}, {WHERE: 990, OTHER: 10}) == {WHERE: 9, OTHER: 1}
    assert share_limit(10, {WHERE: 5, OTHER: 0}, {WHERE: 5, OTHER: 4}) == {WHERE: 5, OTHER: 4}
    assert share_limit(10, {WHERE: 5}, {WHERE: 5}) == {WHERE: 5}
