"""console-producer and console-consumer: what each flag does, against a broker."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas.cli.console import console_consumer, console_producer, silence
from barnabas.cli.framework.exits import Exit
from barnabas.client.sync import Admin, Producer
from tests.broker.worlds.live_broker import quick_folder
from tests.cli.sessions.book import wait_until
from tests.cli.sessions.replay import own_broker, run_ours
from tests.cli.sessions.sessions import Places

PATIENCE_S = 120
_numbers = itertools.count(1)
Tool = Callable[..., tuple[int, str, str]]


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
    def call(text: str, *flags: str) -> tuple[int, str, str]:
        words = ["console-producer", "--bootstrap-server", places.server, "--topic", topic, *flags]
        return run_ours(words, text.encode())

    return call


@pytest.fixture
def consume(places: Places, topic: str) -> Tool:
    def call(*flags: str, what: tuple[str, ...] | None = None) -> tuple[int, str, str]:
        chosen = ("--topic", topic) if what is None else what
        return run_ours(["console-consumer", "--bootstrap-server", places.server, *chosen, *flags])

    return call


def values(result: tuple[int, str, str]) -> list[str]:
    code, both, errors = result
    assert code == 0, both
    return [line for line in both.splitlines() if line not in errors.splitlines()]


# The producer -----------------------------------------------------------------------------------------------

FLAGS = {
    "--timeout 7": ("linger.ms", 7),
    "--request-required-acks 1": ("acks", "1"),
    "--request-timeout-ms 77": ("request.timeout.ms", 77),
    "--message-send-max-retries 9": ("retries", 9),
    "--retry-backoff-ms 8": ("retry.backoff.ms", 8),
    "--socket-buffer-size 4096": ("send.buffer.bytes", 4096),
    "--max-memory-bytes 5000000": ("buffer.memory", 5_000_000),
    "--batch-size 300": ("batch.size", 300),
    "--batch-size 300 --max-partition-memory-bytes 400": ("batch.size", 400),
    "--metadata-expiry-ms 1000": ("metadata.max.age.ms", 1000),
    "--max-block-ms 2000": ("max.block.ms", 2000),
    "--compression-codec": ("compression.type", "gzip"),
    "--compression-codec zstd": ("compression.type", "zstd"),
    "--producer-property client.rack=r=1": ("client.rack", "r=1"),
    "--command-property linger.ms=3": ("linger.ms", "3"),
    "--producer-property linger.ms=3 --timeout 4": ("linger.ms", 4),
    "--sync": ("linger.ms", 0),
    "--sync --timeout 4": ("linger.ms", 4),
    "--producer-property compression.type=lz4": ("compression.type", "lz4"),
    "--producer-property bootstrap.servers=elsewhere:1": ("bootstrap.servers", "here:9092"),
    "": ("client.id", "console-producer"),
}


@pytest.mark.parametrize("flags", FLAGS)
def test_flags_of_the_producer_become_its_properties(flags: str) -> None:
    parser = console_producer.make_parser()
    options = parser.parse(["--bootstrap-server", "here:9092", "--topic", "t", *flags.split()])
    properties = console_producer.producer_properties(parser, options)
    name, value = FLAGS[flags]
    assert properties[name] == value


def test_defaults_are_those_of_the_tool_not_of_the_client() -> None:
    parser = console_producer.make_parser()
    options = parser.parse(["--bootstrap-server", "here:9092", "--topic", "t"])
    properties = console_producer.producer_properties(parser, options)
    assert {name: properties[name] for _, name, _ in console_producer.MERGED} == {
        "linger.ms": 1000,
        "acks": "-1",
        "request.timeout.ms": 1500,
        "retries": 3,
        "retry.backoff.ms": 100,
        "send.buffer.bytes": 102400,
        "buffer.memory": 33554432,
        "batch.size": 16384,
        "metadata.max.age.ms": 300000,
        "max.block.ms": 60000,
        "compression.type": "none",
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--request-timeout-ms", "0"], "'0' is not a whole number from 1"),
        (["--compression-codec", "rar"], "invalid choice: 'rar'"),
        (["--line-reader", "com.example.Mine"], "cannot be loaded (there is no Java)"),
        (["--topic", "again"], "--topic is given more than once"),
        (["--producer-property", "acks=7"], "acks"),
    ],
)
def test_invalid_values_are_refused(produce: Tool, flags: list[str], message: str) -> None:
    code, both, errors = produce("", *flags)
    assert code == Exit.USAGE, both
    assert message in errors
    assert errors.count("\n") == 1


def test_files_of_properties_and_flags_that_count_more(produce: Tool, consume: Tool, tmp_path: Path) -> None:
    reader, producer = tmp_path / "reader.properties", tmp_path / "producer.properties"
    reader.write_text("parse.key=true\nkey.separator=;\n", "utf-8")
    producer.write_text("client.id=from-a-file\nlinger.ms=0\n", "utf-8")
    files = ("--reader-config", str(reader), "--producer.config", str(producer))
    assert produce("a;b\n", *files)[0] == 0
    assert produce("c:d\n", *files, "--reader-property", "key.separator=:")[0] == 0
    reader.write_text("print.key=true\nkey.separator=;\n", "utf-8")
    shown = consume("--from-beginning", "--max-messages", "2", "--formatter-config", str(reader))
    assert values(shown) == ["a;b", "c;d"]
    again = ("--formatter-config", str(reader), "--formatter-property", "key.separator=!")
    assert values(consume("--from-beginning", "--max-messages", "2", *again)) == ["a!b", "c!d"]


def test_a_codec_is_in_the_log(produce: Tool, topic: str, places: Places) -> None:
    assert produce("x\n" * 50, "--compression-codec", "snappy", "--sync")[0] == 0
    assert produce("x\n" * 50, "--line-reader", "kafka.tools.ConsoleProducer$LineMessageReader")[0] == 0
    (log,) = places.files.parent.glob(f"**/{topic}-0/*.log")
    dumped = run_ours(["dump-log", "--files", str(log)])[1]
    # One by one, because each was waited for; then all at once.
    assert dumped.count("compresscodec: snappy") == 50
    assert dumped.count("count: 50") == 1


def test_a_record_that_is_not_written_is_a_failure(produce: Tool, consume: Tool) -> None:
    too_large = ("--producer-property", "max.request.size=100")
    text = "small\n" + "x" * 200 + "\nsmall too\n"
    code, _, errors = produce(text, *too_large)
    assert code == Exit.FAILED
    assert errors.count("\n") == 1
    assert "a record was not written: " in errors
    assert produce(text, *too_large, "--sync")[0] == Exit.FAILED
    # Without --sync the other records were sent; with it none after the first failure.
    shown = consume("--from-beginning", "--max-messages", "3")
    assert values(shown) == ["small", "small too", "small"]


def test_many_failures_are_counted_not_reported_one_by_one(produce: Tool) -> None:
    code, _, errors = produce(("x" * 200 + "\n") * 12, "--producer-property", "max.request.size=100")
    assert code == Exit.FAILED
    assert errors.count("\n") == 11
    assert errors.splitlines()[-1] == "barnabas console-producer: 12 records were not written"


def test_a_metadata_request_does_not_create_the_topic(places: Places) -> None:
    words = ["console-producer", "--bootstrap-server", places.server, "--topic", "bad name!"]
    code, both, errors = run_ours(words, b"x\n")
    assert code == Exit.FAILED, both
    assert errors.count("\n") == 1


def test_no_broker_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "PATIENCE_MS", 300)
    producer = [
        "console-producer",
        "--bootstrap-server",
        "localhost:1",
        "--topic",
        "t",
        "--max-block-ms",
        "300",
    ]
    consumer = [
        "console-consumer",
        "--bootstrap-server",
        "localhost:1",
        "--topic",
        "t",
        "--timeout-ms",
        "300",
    ]
    for words in (producer, consumer):
        code, _, errors = run_ours(words, b"x\n")
        assert code == Exit.UNREACHABLE
        assert "no broker responds: localhost:1" in errors
        assert "Traceback" not in errors


# The consumer -----------------------------------------------------------------------------------------------


def consumer_properties(*flags: str) -> dict[str, object]:
    parser = console_consumer.make_parser()
    options = parser.parse(["--bootstrap-server", "here:9092", "--topic", "t", *flags])
    from barnabas.cli.framework.flag_rules import FlagRules

    return console_consumer.consumer_properties(parser, FlagRules(parser, options), options)


def test_flags_of_the_consumer_become_its_properties(tmp_path: Path) -> None:
    plain = consumer_properties()
    assert str(plain.pop("group.id")).startswith("console-consumer-")
    assert plain == {
        "bootstrap.servers": "here:9092",
        "auto.offset.reset": "latest",
        "client.id": "console-consumer",
        "enable.auto.commit": "false",
    }
    assert consumer_properties("--from-beginning")["auto.offset.reset"] == "earliest"
    assert consumer_properties("--isolation-level", "read_committed")["isolation.level"] == "read_committed"
    grouped = consumer_properties("--group", "g")
    assert grouped["group.id"] == "g"
    assert "enable.auto.commit" not in grouped
    file = tmp_path / "consumer.properties"
    file.write_text("group.id=in-file\nclient.id=me\nfetch.min.bytes=5\n", "utf-8")
    in_file = consumer_properties("--consumer.config", str(file), "--consumer-property", "fetch.min.bytes=6")
    assert (in_file["group.id"], in_file["client.id"], in_file["fetch.min.bytes"]) == ("in-file", "me", "6")
    assert consumer_properties("--command-property", "client.id=x")["client.id"] == "x"


def test_topics_by_a_pattern_that_matches_whole_names(produce: Tool, consume: Tool, topic: str) -> None:
    produce("x\n")
    flags = ("--from-beginning", "--max-messages", "1", "--property", "print.partition=true")
    for flag in ("--include", "--whitelist"):
        assert values(consume(*flags, what=(flag, f"{topic[:-1]}[{topic[-1]}]"))) == ["Partition:0\tx"]


def test_an_invalid_pattern_is_refused(consume: Tool) -> None:
    code, _, errors = consume(what=("--include", "a("))
    assert code == Exit.USAGE
    assert errors.startswith("--include a( is not a regular expression: ")


def test_a_group_continues_at_its_offset_even_after_a_limit(produce: Tool, consume: Tool) -> None:
    produce("1\n2\n3\n4\n")
    flags = ("--group", f"g-{next(_numbers)}", "--from-beginning")
    assert values(consume(*flags, "--max-messages", "1")) == ["1"]
    assert values(consume(*flags, "--max-messages", "2")) == ["2", "3"]
    assert values(consume(*flags, "--max-messages", "1")) == ["4"]


def test_shutdown_complete_is_printed_however_it_ends(produce: Tool, consume: Tool) -> None:
    produce("one\n")
    flags = ("--from-beginning", "--enable-systest-events")
    _, both, _ = consume(*flags, "--max-messages", "1")
    assert both.splitlines() == ["one", "Processed a total of 1 messages", "shutdown_complete"]
    _, both, _ = consume(*flags, "--timeout-ms", "1")
    assert both.endswith(" messages\nshutdown_complete\n")


def test_aborted_records_are_read_only_on_request(consume: Tool, topic: str, places: Places) -> None:
    with Producer({"bootstrap.servers": places.server, "transactional.id": topic}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send(topic, b"committed")
        producer.commit_transaction()
    flags = ("--from-beginning", "--isolation-level")
    assert values(consume("--max-messages", "1", *flags, "read_committed")) == ["committed"]
    assert values(consume("--max-messages", "2", *flags, "read_uncommitted")) == ["aborted", "committed"]


def test_a_record_that_cannot_be_printed_ends_it_or_is_skipped(produce: Tool, consume: Tool) -> None:
    produce("four\nfive5\nsix6\n")
    flags = ("--from-beginning", "--max-messages", "3", "--value-deserializer", "Integer")
    code, both, errors = consume(*flags)
    assert code == Exit.FAILED
    assert both.splitlines()[0] == str(int.from_bytes(b"four", "big"))
    assert "the record at offset 1 of " in errors
    assert "--skip-message-on-error skips such records" in errors
    code, both, errors = consume(*flags, "--skip-message-on-error")
    assert code == 0
    assert str(int.from_bytes(b"six6", "big")) in both.splitlines()
    assert "cannot be printed" in errors
    assert "Processed a total of 3 messages" in errors  # M-A4


def test_too_few_messages_before_the_timeout(produce: Tool, consume: Tool) -> None:
    produce("only\n")
    flags = ("--partition", "0", "--from-beginning", "--timeout-ms", "3000")
    code, both, errors = consume(*flags, "--max-messages", "2")
    assert code == Exit.TIMED_OUT
    assert both.startswith("only\n")
    assert "1 of 2 messages arrived, and none for 3000 ms" in errors
    # Without a limit there is no count to reach.
    assert values(consume(*flags[:3], "--timeout-ms", "1", "--max-messages", "-1")) in ([], ["only"])


def test_a_missing_topic_or_partition(consume: Tool, topic: str) -> None:
    never = ("--timeout-ms", "300", "--consumer-property", "allow.auto.create.topics=false")
    code, _, errors = consume(*never, what=("--topic", "nope"))
    assert code == Exit.NOT_FOUND
    assert "the topic nope does not exist" in errors
    code, _, errors = consume("--timeout-ms", "300", "--partition", "5")
    assert code == Exit.NOT_FOUND
    assert f"the topic {topic} has 1 partitions, but no partition 5" in errors


def test_an_old_zookeeper_ensemble_is_used_as_brokers() -> None:
    words = ["console-consumer", "--zookeeper", "old:2181/chroot", "--topic", "t", "--partition", "0"]
    code, _, errors = run_ours([*words, "--group", "g"])
    assert code == Exit.USAGE
    mention, refusal = errors.splitlines()
    assert mention.endswith("tools no longer use ZooKeeper: using --bootstrap-server old:9092")
    assert refusal.startswith("Options group and partition cannot be specified together.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(places: Places, produce: Tool, topic: str, number: signal.Signals) -> None:
    produce("seen\n")
    group = f"g-{next(_numbers)}"
    words = ["console-consumer", "--bootstrap-server", places.server, "--topic", topic, "--from-beginning"]
    words += ["--enable-systest-events", "--group", group]
    # A job in the background of a script has SIGINT ignored, and hands that down: this one must not be.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from barnabas.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "seen\n"
        process.send_signal(number)
        out, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert out == "shutdown_complete\n"
    assert errors == "Processed a total of 1 messages\n"
    with Admin({"bootstrap.servers": places.server}) as admin:
        # It has left, and committed: there is no session timeout to wait for.
        wait_until(lambda: admin.describe_consumer_groups([group])[group].state == "Empty", "an empty group")
        committed = admin.list_consumer_group_offsets(group)[group].values_by_key
    assert [one.offset for one in committed.values() if one is not None] == [1]


def test_an_internal_topic_by_its_formatter(produce: Tool, consume: Tool, topic: str) -> None:
    produce("x\n")
    group = f"g-{next(_numbers)}"
    consume("--group", group, "--from-beginning", "--max-messages", "1")
    flags = ("--from-beginning", "--timeout-ms", "3000", "--formatter", "OffsetsMessageFormatter")
    _, shown, _ = consume(*flags, what=("--topic", "__consumer_offsets"))
    key = f'{{"group":"{group}","topic":"{topic}","partition":0}}'
    assert f'{{"key":{{"type":1,"data":{key}}},"value":{{"version":4,"data":{{"offset":1,' in shown
