"""`barnabas console-producer`: sends lines as records, as Apache Kafka's kafka-console-producer does.

Unlike Apache Kafka's tool, the exit code is not 0 if a record was not written.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.console.line_reader import LineReader, ReadRecord
from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import (
    FIRST_CONTACT_MS,
    add_connection_flags,
    client_properties,
    command_properties,
)
from barnabas.cli.framework.exits import Exit, UsageError, one_line
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.interrupts import stopping_at_once
from barnabas.cli.framework.key_values import add_key_value_flags, key_values, merge_flags
from barnabas.cli.framework.numbers import MAX_LONG, whole_number

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client.producer.delivery import RecordMetadata
    from barnabas.client.sync import Producer

PROGRAM = "barnabas console-producer"
MISSING_SERVER = f'Missing required argument "[bootstrap-server]" (see {PROGRAM} --help)'
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READERS = ("LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
# Up to this many failed records are reported one by one; further ones are only counted.
MAX_FAILURES_SHOWN = 10

# Option, producer property, and the default of Apache Kafka's tool.
MERGED = (
    ("timeout", "linger.ms", 1000),
    ("request_required_acks", "acks", "-1"),
    ("request_timeout_ms", "request.timeout.ms", 1500),
    ("message_send_max_retries", "retries", 3),
    ("retry_backoff_ms", "retry.backoff.ms", 100),
    ("socket_buffer_size", "send.buffer.bytes", 100 * 1024),
    ("max_memory_bytes", "buffer.memory", 32 * 1024 * 1024),
    ("batch_size", "batch.size", 16 * 1024),
    ("max_partition_memory_bytes", "batch.size", 16 * 1024),
    ("metadata_expiry_ms", "metadata.max.age.ms", 5 * 60 * 1000),
    ("max_block_ms", "max.block.ms", 60 * 1000),
    ("compression_codec", "compression.type", "none"),
)


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Send each line of the standard input as a record.",
        "properties: parse.key, parse.headers, ignore.error=true|false; key.separator (a tab),\n"
        "  headers.delimiter (a tab), headers.separator (,), headers.key.separator (:), null.marker\n"
        'a line with headers and key: "h1:v1,h2:v2<tab>key<tab>value"',
    )
    add_connection_flags(parser, config_flags=("--producer.config", "--command-config"), old_broker_list=True)
    add = parser.add_argument
    add("--topic", metavar="TOPIC", help="the topic to send to")
    add("--sync", action="store_true", help="wait until each record is written before sending the next")
    add(
        "--compression-codec",
        nargs="?",
        const="gzip",
        choices=CODECS,
        help="compression (default none; gzip without a value)",
    )
    add("--request-required-acks", metavar="ACKS", help="0, 1, or -1 for all in-sync replicas (default -1)")
    _add_numbers(parser)
    add("--line-reader", default=READERS[0], metavar="CLASS", help="only LineMessageReader, the default")
    add_key_value_flags(parser, ("--reader-property", "--property"), "reading", "property of the line reader")
    add("--reader-config", metavar="FILE", help="properties file that controls how lines are read")
    add_key_value_flags(
        parser, ("--producer-property", "--command-property"), "properties", "property of the client"
    )
    return parser


def _add_numbers(parser: KafkaParser) -> None:
    def add(flag: str, least: int, most: int, unit: str, about: str, default: int) -> None:
        parser.add_argument(
            flag, type=whole_number(least, most), metavar=unit, help=f"{about} (default {default})"
        )

    most = 2**31 - 1
    add("--timeout", 0, MAX_LONG, "MS", "how long a batch may wait for more records", 1000)
    add("--batch-size", 0, most, "BYTES", "the size of a batch", 16384)
    add("--max-partition-memory-bytes", 0, most, "BYTES", "same as --batch-size, and overrides it", 16384)
    add("--max-memory-bytes", 0, MAX_LONG, "BYTES", "memory for records that wait to be sent", 33554432)
    add(
        "--max-block-ms", 0, MAX_LONG, "MS", "how long sending may block for buffer memory or metadata", 60000
    )
    add("--request-timeout-ms", 1, most, "MS", "how long a broker may take to respond", 1500)
    add("--message-send-max-retries", 0, most, "N", "how often a record is retried", 3)
    add("--retry-backoff-ms", 0, MAX_LONG, "MS", "the pause before a retry", 100)
    add("--metadata-expiry-ms", 0, MAX_LONG, "MS", "maximum age of metadata", 300000)
    add("--socket-buffer-size", -1, most, "BYTES", "size of the send buffer of a connection", 102400)


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    FlagRules(parser, options).require("--topic")
    reader = LineReader(reader_properties(options), PROGRAM)
    properties = producer_properties(parser, options)
    from barnabas.client.sync import Producer

    with stopping_at_once(), Producer(properties) as producer:
        sender = Sender(producer, options)
        for record in reader.records(sys.stdin.buffer, sys.stdout.buffer if _is_console() else None):
            sender.send(record)
        # Close before end(), so that the exit code covers records that fail during the close.
        producer.close()
        return sender.finish()


def _is_console() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def reader_properties(options: Namespace) -> dict[str, str]:
    if options.line_reader.rpartition(".")[2].rpartition("$")[2] != READERS[0]:
        raise UsageError(
            f"{PROGRAM}: the reader {options.line_reader} cannot be loaded (there is no Java); "
            f"only {READERS[0]} is available"
        )
    return {**command_properties(options.reader_config), **key_values(options.reading)}


def producer_properties(parser: KafkaParser, options: Namespace) -> dict[str, object]:
    in_file = client_properties(parser, options, MISSING_SERVER)
    given = {**in_file, **key_values(options.properties), "bootstrap.servers": in_file["bootstrap.servers"]}
    given.setdefault("client.id", "console-producer")
    if options.sync and options.timeout is None:
        # With --sync a batch only ever holds one record, so there is nothing to linger for.
        given.setdefault("linger.ms", 0)
    return merge_flags(given, options, MERGED)


class Sender:
    """Sends records, and counts those that fail."""

    def __init__(self, producer: Producer, options: Namespace) -> None:
        self._producer = producer
        self._topic: str = options.topic
        self._is_sync: bool = options.sync
        self._patience_ms: int = min(FIRST_CONTACT_MS, options.max_block_ms or FIRST_CONTACT_MS)
        self._is_known = False
        self._failed = 0
        self._worst = Exit.OK

    def send(self, record: ReadRecord) -> None:
        if not self._is_known:
            from barnabas.cli.console.finding import find_topic

            # A user who types a line wants to see at once that no broker is reachable.
            find_topic(self._producer, self._topic, PROGRAM, self._patience_ms)
            self._is_known = True
        if self._is_sync:
            self._producer.send(self._topic, record.value, record.key, headers=record.headers).result()
        else:
            self._producer.send(
                self._topic, record.value, record.key, headers=record.headers, on_delivery=self._on_delivery
            )

    def _on_delivery(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        """Called on the client's thread."""
        if error is None:
            return
        from barnabas.cli.framework.kafka_errors import exit_code, sentence

        self._failed += 1
        self._worst = max(self._worst, exit_code(error))
        if self._failed <= MAX_FAILURES_SHOWN:
            print(one_line(f"{PROGRAM}: a record was not written: {sentence(error)}"), file=sys.stderr)

    def finish(self) -> int:
        if self._failed > MAX_FAILURES_SHOWN:
            print(f"{PROGRAM}: {self._failed} records were not written", file=sys.stderr)
        return self._worst
