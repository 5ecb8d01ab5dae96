"""`barnabas e2e-latency`: measure the latency from producer to consumer, one record at a time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import command_properties, reach
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.interrupts import stopping_at_once
from barnabas.cli.framework.numbers import whole_number

if TYPE_CHECKING:
    from barnabas.client.sync import Admin, Consumer, Producer

PROGRAM = "barnabas e2e-latency"
POLL_MS = 60_000
REPORT_EVERY = 1_000
# The maximum of Java's int.
MAX_BLOCK_MS = 2**31 - 1
PARTITIONS = REPLICATION_FACTOR = 1
_LETTERS = bytes(65 + number % 26 for number in range(256))


def run(arguments: Sequence[str]) -> int:
    parser = KafkaParser(PROGRAM, "Measure the latency from producer to consumer.")
    add = parser.add_argument
    add("broker_list", metavar="BROKER_LIST", help="brokers to connect to first: HOST:PORT,...")
    add("topic", metavar="TOPIC", help="the topic to use; created if missing")
    add("num_messages", type=whole_number(1), metavar="NUM_MESSAGES", help="number of records")
    add("producer_acks", metavar="PRODUCER_ACKS", help="1 or all")
    add("message_size_bytes", type=whole_number(0), metavar="MESSAGE_SIZE_BYTES", help="size of a record")
    add("properties_file", nargs="?", metavar="PROPERTIES_FILE", help="properties file of the clients")
    options = parser.parse(arguments)
    if options.producer_acks not in ("1", "all"):
        message = "Latency testing requires synchronous acknowledgement. Please use 1 or all"
        raise UsageError(f"{message} (see {PROGRAM} --help)")
    given: dict[str, object] = {
        **command_properties(options.properties_file or None),
        "bootstrap.servers": options.broker_list,
    }
    from barnabas.client.sync import Admin, Consumer, Producer

    with stopping_at_once():
        with Admin(given) as admin:
            reach(admin, PROGRAM, options.broker_list)
            ensure_topic(admin, options.topic)
        settings = producer_properties(given, options)
        with Consumer(consumer_properties(given)) as consumer, Producer(settings) as producer:
            seek_to_end(consumer, options.topic)
            print_results(measure(consumer, producer, options))
    return Exit.OK


def consumer_properties(given: dict[str, object]) -> dict[str, object]:
    from barnabas.runtime.clock import SystemClock

    return {
        **given,
        "group.id": f"test-group-{SystemClock().wall_ms()}",
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        # Fetch each record as soon as it is written.
        "fetch.max.wait.ms": "0",
    }


def producer_properties(given: dict[str, object], options: Namespace) -> dict[str, object]:
    return {**given, "linger.ms": "0", "max.block.ms": MAX_BLOCK_MS, "acks": options.producer_acks}


def ensure_topic(admin: Admin, topic: str) -> None:
    from barnabas.base.errors import ErrorCode
    from barnabas.client.admin.topics import NewTopic
    from barnabas.client.errors.base import ClientError

    error = admin.describe_topics([topic]).error_of(topic)
    if error is None:
        return
    if not isinstance(error, ClientError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise error
    print(
        f'Topic "{topic}" does not exist. Will create topic with {PARTITIONS} partition(s) and '
        f"replication factor = {REPLICATION_FACTOR}"
    )
    new_topic = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=REPLICATION_FACTOR)
    try:
        admin.create_topics([new_topic]).raise_first()
    except ClientError:
        print(f"Creation of topic {topic} failed")
        raise


def seek_to_end(consumer: Consumer, topic: str) -> None:
    from barnabas.client.model import TopicPartition

    partitions = [TopicPartition(topic, info.number) for info in consumer.partitions_for(topic)]
    consumer.assign(partitions)
    consumer.seek_to_end(*partitions)
    for partition in partitions:
        consumer.position(partition)


def measure(consumer: Consumer, producer: Producer, options: Namespace) -> list[int]:
    """The latency of each record in nanoseconds."""
    from barnabas.runtime.clock import SystemClock
    from barnabas.runtime.random import SeededRandom

    random, now_ns = SeededRandom(0), SystemClock.monotonic_ns
    times_ns = []
    for number in range(options.num_messages):
        message = random.bytes(options.message_size_bytes).translate(_LETTERS)
        start_ns = now_ns()
        producer.send(options.topic, message).result()
        records = consumer.poll(POLL_MS)
        elapsed_ns = now_ns() - start_ns
        check(message, [record.value for record in records])
        if number % REPORT_EVERY == 0:
            print(f"{number}\t{elapsed_ns / 1000.0 / 1000.0}", flush=True)
        times_ns.append(elapsed_ns)
    return times_ns


def check(sent: bytes, read: list[object]) -> None:
    """Raises unless exactly the sent record was read."""
    if not read:
        raise CommandError(
            f"{PROGRAM}: poll() timed out before finding a result (timeout:[{POLL_MS}])", Exit.TIMED_OUT
        )
    if read[0] != sent:
        got = read[0].decode(errors="replace") if isinstance(read[0], bytes) else read[0]
        raise CommandError(
            f"{PROGRAM}: The message read [{got}] did not match the message sent [{sent.decode()}] "
            "(does another producer write to the topic?)"
        )
    if len(read) != 1:
        raise CommandError(
            f"{PROGRAM}: Only one result was expected during this test. We found [{len(read)}]"
        )


def print_results(times_ns: list[int]) -> None:
    print(f"Avg latency: {sum(times_ns) / len(times_ns) / 1000.0 / 1000.0:.4f} ms")
    ordered_ms = sorted(time_ns // NS_PER_MS for time_ns in times_ns)
    parts = [ordered_ms[min(int(len(ordered_ms) * part), len(ordered_ms) - 1)] for part in (0.5, 0.99, 0.999)]
    print(f"Percentiles: 50th = {parts[0]}, 99th = {parts[1]}, 99.9th = {parts[2]}")
