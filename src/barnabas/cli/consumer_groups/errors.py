"""How consumer-groups reports errors: an empty line, then `Error: …` with Java's exception name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.kafka_errors import as_java, exit_code

FAILED = "Error: Executing consumer group command failed due to "


def print_error(line: str) -> None:
    """Reports an error that does not end the command."""
    sys.stdout.flush()
    print(f"\nError: {line}", file=sys.stderr)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """An error of the cluster in this context ends the command."""
    try:
        yield
    except KafkaError as error:
        sys.stdout.flush()
        print(file=sys.stderr)
        raise CommandError(f"{FAILED}{as_java(error)}", exit_code(error)) from error
