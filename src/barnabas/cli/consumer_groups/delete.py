"""Deleting groups, and offsets of groups."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.cli.consumer_groups.errors import print_error
from barnabas.cli.consumer_groups.topic_arguments import named_partitions
from barnabas.cli.framework.columns import padded_row
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.kafka_errors import as_java, exit_code

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

# Errors of single partitions, not of the group.
_PARTITION_ERRORS = (
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
_GROUP_ERRORS = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)


def delete_groups(admin: Admin, options: Namespace, groups: list[str]) -> int:
    outcomes = admin.delete_groups(groups, timeout_ms=options.timeout)
    deleted = ", ".join(f"'{group}'" for group in sorted(outcomes.values_by_key))
    failed = outcomes.errors
    if not failed:
        print(f"Deletion of requested consumer groups ({deleted}) was successful.")
        return Exit.OK
    print_error("Deletion of some consumer groups failed:")
    for group, error in sorted(failed.items()):
        print(f"* Group '{group}' could not be deleted due to: {as_java(error)}", file=sys.stderr)
    if deleted:
        print(f"\nThese consumer groups were deleted successfully: {deleted}")
    return _worst(list(failed.values()))


def delete_offsets(admin: Admin, options: Namespace, rules: FlagRules) -> int:
    if len(options.group) > 1:
        rules.refuse("Found multiple arguments for option group, but you asked for only one")
    group = options.group[0]
    partitions, unknown = named_partitions(admin, options.topic, options.timeout, rules)
    failed = _delete(admin, group, partitions, options.timeout)
    first = next(iter(failed.values()), None)
    if first is None:
        print(f"Request succeeded for deleting offsets from group {group}.")
    else:
        print_error(_summary(first))
    rows: list[tuple[str, str, KafkaError | None]] = [
        (partition.topic, str(partition.partition), failed.get(partition)) for partition in partitions
    ]
    rows += [(topic, "-", error) for topic, error in unknown.items()]
    width = max([15, *(len(topic) for topic, _, _ in rows)])
    print()
    print(padded_row(("TOPIC", "PARTITION", "STATUS"), (width, 10, 15)))
    for topic, partition, error in sorted(rows, key=lambda row: row[0] + row[1]):
        status = "Successful" if error is None else f"Error: {as_java(error)}"
        sys.stdout.flush()
        print(
            padded_row((topic, partition, status), (width, 10, 15)),
            file=sys.stdout if error is None else sys.stderr,
        )
    return _worst([*failed.values(), *unknown.values()])


def _delete(
    admin: Admin, group: str, partitions: list[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, KafkaError]:
    """The partitions that failed; an error of the group applies to all of them."""
    try:
        return admin.delete_consumer_group_offsets(group, partitions, timeout_ms=timeout_ms).errors
    except KafkaError as error:
        return dict.fromkeys(partitions, error)


def _summary(error: KafkaError) -> str:
    if error.code in _PARTITION_ERRORS:
        return "Encountered some partition-level error, see the follow-up details."
    if error.code in _GROUP_ERRORS:
        return ERRORS[error.code].text
    return f"Encountered some unknown error: {error.code.name}"


def _worst(errors: list[KafkaError]) -> Exit:
    """The exit code that all errors share, or FAILED if they differ."""
    codes = {exit_code(error) for error in errors}
    return codes.pop() if len(codes) == 1 else Exit.FAILED if codes else Exit.OK
