"""How consumer-groups says that something failed: an empty line, `Error: …`, in the words of Java."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.base.errors import KafkaError
from barnabas.cli.framework.exits import CommandError
from barnabas.cli.framework.kafka_errors import as_java, exit_code

FAILED = "Error: Executing consumer group command failed due to "


def say(line: str) -> None:
    """Something is wrong, and the command goes on."""
    sys.stdout.flush()
    print(f"\nError: {line}", file=sys.stderr)


@contextmanager
def told() -> Iterator[None]:
    """What the cluster refuses within ends the command."""
    try:
        yield
    except KafkaError as error:
        sys.stdout.flush()
        print(file=sys.stderr)
        raise CommandError(f"{FAILED}{as_java(error)}", exit_code(error)) from error
