"""`barnabas delete-records`: delete the records before an offset, as kafka-delete-records does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

PROGRAM = "barnabas delete-records"
FORMAT = '{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}'


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Delete the records of partitions before an offset.",
        f"The format of the file; the offset -1 deletes all current records:\n  {FORMAT}",
    )
    add_connection_flags(parser)
    parser.add_argument("--offset-json-file", metavar="FILE", help="the offset of each partition")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    FlagRules(parser, options).require("--bootstrap-server", "--offset-json-file")
    offsets = read_offsets(options.offset_json_file)
    with open_admin(parser, options) as admin:
        return delete(admin, offsets)


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offsets by partition."""
    from barnabas.cli.framework.json_file import check_version, field, items, read_json_file
    from barnabas.client.model import TopicPartition

    data = read_json_file(path, "The input string is not a valid JSON")
    check_version(data, path)
    if isinstance(data, dict) and "partitions" not in data:
        raise UsageError("Missing partitions field")
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for entry in items(data, "partitions", dict, path):
        partition = TopicPartition(field(entry, "topic", str, path), field(entry, "partition", int, path))
        if partition in offsets:
            twice.append(str(partition))
        offsets[partition] = field(entry, "offset", int, path)
    if twice:
        raise UsageError(
            f"Offset json file contains duplicate topic partitions: {','.join(dict.fromkeys(twice))}"
        )
    return offsets


def delete(admin: Admin, offsets: dict[TopicPartition, int]) -> Exit:
    from barnabas.base.java_order import order_by_hash, partition_hash
    from barnabas.cli.framework.kafka_errors import as_java, exit_code

    print("Executing records delete operation")
    results = admin.delete_records(offsets)
    print("Records delete operation completed:")
    worst = Exit.OK
    for partition in order_by_hash(offsets, partition_hash):
        error = results.error_of(partition)
        if error is None:
            print(f"partition: {partition}\tlow_watermark: {results[partition]}")
        else:
            sys.stdout.flush()
            print(f"partition: {partition}\terror: {as_java(error)}", file=sys.stderr)
            worst = exit_code(error)
    return worst
